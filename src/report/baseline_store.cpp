#include "report/baseline_store.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.hpp"
#include "bench/plan.hpp"
#include "report/results_folder.hpp"

namespace mrb {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kPromotions = "promotions.jsonl";

// An id becomes the name of a file, and anybody may have written the result it stands in.
void check_name(const std::string& id) {
  constexpr std::size_t kLengthMax = 100;
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  };
  if (!id.empty() && id.size() <= kLengthMax && id.front() != '.' && std::all_of(id.begin(), id.end(), is_plain))
    return;
  throw Error(ErrorKind::config,
              fmt::format("the run's id '{}' cannot be the name of a file", id.substr(0, kLengthMax)),
              "give the result.json that a run has written, unchanged");
}

std::vector<Promotion> read_promotions(const std::string& path) {
  std::vector<Promotion> promotions;
  std::ifstream file(path);
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.empty()) continue;
    try {
      const Json json = Json::parse(line);
      promotions.push_back({json.at("run").get<std::string>(), json.at("when").get<std::string>(),
                            json.at("who").get<std::string>(), json.at("why").get<std::string>()});
    } catch (const Json::exception& error) {
      throw Error(ErrorKind::config, fmt::format("{}:{}: this is no promotion: {}", path, number, error.what()),
                  "take the line out, or put the file back as it was");
    }
  }
  return promotions;
}

std::string promotion_line(const Promotion& promotion) {
  const Json json = {
      {"run", promotion.run_id}, {"when", promotion.when}, {"who", promotion.who}, {"why", promotion.why}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string baseline_key(const StoredRun& run) {
  std::string text;
  for (const auto& [name, value] : run.fingerprint) text += name + "=" + value + "\n";
  std::vector<std::string> ids;
  for (const StoredCell& cell : run.cells) ids.push_back(cell.id);
  std::sort(ids.begin(), ids.end());
  for (const std::string& id : ids) text += id + "\n";
  return short_hash(text);
}

void refuse_as_baseline(const StoredRun& run) {
  std::vector<std::string> unfinished, wrong, doubts = run.taints;
  if (run.status != "ok") unfinished.push_back(fmt::format("it is '{}', not 'ok'", run.status));
  bool any = false;
  for (const StoredCell& cell : run.cells) {
    any |= cell.status == "done";
    if (cell.status != "done" && cell.status != "skipped")
      unfinished.push_back(fmt::format("variant {} is '{}': {}", cell.label, cell.status, cell.reason));
    if (!cell.same_work) wrong.push_back(fmt::format("variant {} did other work than its baseline", cell.label));
    if (cell.status == "done" && cell.source != "measured")
      doubts.push_back(fmt::format("variant {} is {}, not measured", cell.label, cell.source));
  }
  if (!any) unfinished.push_back("no variant of it was measured");
  const auto refuse = [&](ErrorKind kind, const std::vector<std::string>& reasons, const char* fix) {
    if (reasons.empty()) return;
    throw Error(kind, fmt::format("{} can be no baseline:\n  {}", run.id, fmt::join(reasons, "\n  ")), fix);
  };
  refuse(ErrorKind::wrong_result, wrong, "find out why the losses differ; see the work equivalence of its report");
  refuse(ErrorKind::partial, unfinished, "run it again, to its end");
  refuse(ErrorKind::not_comparable, doubts, "put the machine right (moe-rl-bench doctor) and measure again");
}

std::string BaselineStore::path(const std::string& key, const std::string& file) const {
  return directory_ + "/" + key + "/" + file;
}

std::vector<BaselineSeries> BaselineStore::all() const {
  std::vector<BaselineSeries> all;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(directory_, none)) {
    BaselineSeries one = series(entry.path().filename().string());
    if (!one.run_ids.empty()) all.push_back(std::move(one));
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  return all;
}

BaselineSeries BaselineStore::series(const std::string& key) const {
  BaselineSeries series{.key = key};
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(fs::path(directory_) / key, none)) {
    if (entry.path().extension() == ".json") series.run_ids.push_back(entry.path().stem().string());
  }
  std::sort(series.run_ids.begin(), series.run_ids.end());
  series.promotions = read_promotions(path(key, kPromotions));
  if (series.promotions.empty()) return series;
  const Promotion& last = series.promotions.back();
  if (std::binary_search(series.run_ids.begin(), series.run_ids.end(), last.run_id)) series.baseline = last;
  return series;
}

BaselineSeries BaselineStore::series_with(const std::string& name) const {
  std::vector<std::string> keys;
  for (BaselineSeries& one : all()) {
    if (one.key == name || std::binary_search(one.run_ids.begin(), one.run_ids.end(), name)) return std::move(one);
    keys.push_back(one.key);
  }
  throw Error(
      ErrorKind::config,
      fmt::format("there is no run and no key '{}' in '{}', which has {}", name, directory_,
                  keys.empty() ? "nothing yet" : fmt::format("the keys {}", fmt::join(keys, ", "))),
      keys.empty() ? "moe-rl-bench baseline save RUN, or another --baseline-dir" : "moe-rl-bench baseline show KEY");
}

StoredRun BaselineStore::read(const BaselineSeries& series, const std::string& run_id) const {
  return read_stored_run(path(series.key, run_id + ".json"), directory_);
}

std::vector<StoredRun> BaselineStore::read_all(const BaselineSeries& series) const {
  std::vector<StoredRun> runs;
  for (const std::string& id : series.run_ids) runs.push_back(read(series, id));
  return runs;
}

void BaselineStore::add(const StoredRun& run, const std::string& result_json) const {
  check_name(run.id);
  const std::string key = baseline_key(run), file = path(key, run.id + ".json");
  std::error_code error;
  if (fs::exists(file, error))
    throw Error(ErrorKind::config, fmt::format("'{}' is there already", file), "each run is saved once");
  fs::create_directories(fs::path(file).parent_path(), error);
  if (error)
    throw Error(ErrorKind::environment, fmt::format("the folder of '{}' cannot be made: {}", file, error.message()),
                "give a --baseline-dir that can be written to");
  replace_file(file, result_json);
}

void BaselineStore::promote(const BaselineSeries& series, const Promotion& promotion) const {
  std::string text;
  for (const Promotion& earlier : series.promotions) text += promotion_line(earlier);
  replace_file(path(series.key, kPromotions), text + promotion_line(promotion));
}

void BaselineStore::remove(const BaselineSeries& series, const std::string& run_id) const {
  const std::string file = path(series.key, run_id + ".json");
  std::error_code error;
  if (fs::remove(file, error)) return;
  throw Error(ErrorKind::environment,
              fmt::format("'{}' cannot be removed: {}", file, error ? error.message() : "it is not there"),
              "look at the folder's permissions");
}

}  // namespace mrb
