#include "report/noise_floor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.hpp"
#include "bench/plan.hpp"
#include "report/results_folder.hpp"

namespace mrb {

namespace {

using Json = nlohmann::ordered_json;

std::string path_in(const std::string& directory) {
  return directory + "/noise_floor.json";
}

std::string key_of(const StoredRun& run) {
  std::string text;
  for (const auto& [name, value] : run.fingerprint) text += name + "=" + value + "\n";
  std::set<std::string> workloads;
  for (const StoredCell& cell : run.cells) workloads.insert(cell.workload_id);
  for (const std::string& workload : workloads) text += workload + "\n";
  return short_hash(text);
}

Json read_all(const std::string& directory) {
  if (!std::filesystem::exists(path_in(directory))) return Json::object();
  const Json json = Json::parse(std::ifstream(path_in(directory)), nullptr, false);
  if (json.is_object()) return json;
  throw Error(ErrorKind::config, fmt::format("'{}' is not a noise floor of this program", path_in(directory)),
              "remove it; ab --aa writes a new one");
}

}  // namespace

NoiseFloor noise_floor_of(const RunComparison& comparison) {
  NoiseFloor floor{.session = comparison.before_id};
  for (const MetricComparison& metric : comparison.metrics) {
    floor.pairs = std::max(floor.pairs, metric.result.pairs);
    double& sd = floor.sd_pair_ratio[metric.metric];
    sd = std::max(sd, metric.result.sd_pair_ratio);
  }
  return floor;
}

std::optional<NoiseFloor> read_noise_floor(const std::string& directory, const StoredRun& run) {
  const Json all = read_all(directory);
  const auto found = all.find(key_of(run));
  if (found == all.end()) return std::nullopt;
  try {
    return NoiseFloor{.session = found->at("session").get<std::string>(),
                      .pairs = found->at("pairs").get<int>(),
                      .sd_pair_ratio = found->at("sd_pair_ratio").get<std::map<std::string, double>>()};
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::config, fmt::format("'{}' is damaged: {}", path_in(directory), error.what()),
                "remove it; ab --aa writes a new one");
  }
}

void write_noise_floor(const std::string& directory, const StoredRun& run, const NoiseFloor& floor) {
  Json all = read_all(directory);
  all[key_of(run)] = {{"session", floor.session},
                      {"pairs", floor.pairs},
                      {"sd_pair_ratio", floor.sd_pair_ratio},
                      {"fingerprint", run.fingerprint}};
  replace_file(path_in(directory), all.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

void refuse_below_floor(const NoiseFloor& floor, const ComparisonOptions& options, int pairs_max) {
  std::string faults;
  int needed_max = 0;
  for (const auto& [metric, margin] : {std::pair{std::string("tokens_per_s"), options.throughput_margin_ratio},
                                       std::pair{std::string("step_ms_p99"), options.step_margin_ratio}}) {
    const auto sd = floor.sd_pair_ratio.find(metric);
    if (sd == floor.sd_pair_ratio.end()) continue;
    const int needed = required_pairs(sd->second, margin);
    if (needed <= pairs_max) continue;
    needed_max = std::max(needed_max, needed);
    faults += fmt::format("\n  {}: pairs of the same differ by {:.1f}% here; a margin of {:g}% needs {} pairs", metric,
                          sd->second * 100, margin * 100, needed);
  }
  if (faults.empty()) return;
  throw Error(
      ErrorKind::config,
      fmt::format("the margin is below the noise of this machine ({}, {} pairs of A/A), with at most {} pairs:{}",
                  floor.session, floor.pairs, pairs_max, faults),
      fmt::format("give --pairs {}, wider margins, or a quieter machine and ab --aa again",
                  needed_max + needed_max % 2));
}

}  // namespace mrb
