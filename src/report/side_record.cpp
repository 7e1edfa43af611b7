#include "report/side_record.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace mrb {

namespace {

using Json = nlohmann::ordered_json;

// All launches of one short run as one: the processes are what is made anew.
Json as_one_launch(const StoredCell& cell, const Json& launches, int index) {
  Json steps = Json::array();
  for (const Json& launch : launches) steps.insert(steps.end(), launch.at("steps").begin(), launch.at("steps").end());
  StoredLaunch whole;
  for (const StoredLaunch& launch : cell.launches)
    whole.steps.insert(whole.steps.end(), launch.steps.begin(), launch.steps.end());
  constexpr int kPairsPerBlock = 2;
  return {{"index", index},
          {"block", index / kPairsPerBlock},
          {"transport", launches.front().at("transport")},
          {"provider", launches.front().at("provider")},
          {"tokens_per_s", tokens_per_s(whole)},
          {"steps", steps}};
}

void check_cells(const StoredRun& run) {
  for (const StoredCell& cell : run.cells) {
    if (cell.status == "skipped" || (cell.status == "done" && !cell.launches.empty())) continue;
    throw Error(ErrorKind::partial,
                fmt::format("variant {} was not measured: {} {}", cell.label, cell.status, cell.reason),
                "moe-rl-bench run with the same configuration shows more");
  }
}

}  // namespace

void SideRecord::add(const std::string& result_json) {
  const StoredRun run = parse_stored_run(result_json, id_);
  check_cells(run);
  Json next = Json::parse(result_json);
  const bool is_first = json_.is_null();
  if (is_first) json_ = next;
  if (json_["cells"].size() != next["cells"].size())
    throw Error(ErrorKind::not_comparable,
                fmt::format("{}: {} variants in one launch and {} in the next", id_, json_["cells"].size(),
                            next["cells"].size()),
                "do not change the configuration while it is measured");
  for (std::size_t i = 0; i < run.cells.size(); ++i) {
    Json& cell = json_["cells"][i];
    if (cell["id"] != next["cells"][i]["id"])
      throw Error(ErrorKind::not_comparable,
                  fmt::format("{}: variant {} in one launch and {} in the next", id_, cell["id"].dump(),
                              next["cells"][i]["id"].dump()),
                  "do not change the configuration while it is measured");
    if (is_first) {
      cell["launches"] = Json::array();
      cell.erase("metrics");
      cell.erase("comparison");
    }
    if (cell["status"] == "skipped") continue;
    cell["launches"].push_back(as_one_launch(run.cells[i], next["cells"][i]["launches"], launches_));
    if (!run.cells[i].same_work) cell["correctness"]["same_work"] = false;
  }
  ++launches_;
  json_["run"]["ended"] = next["run"]["ended"];
}

std::string SideRecord::text() const {
  Json json = json_;
  json["run"]["id"] = id_;
  json["run"]["ab_session"] = session_;
  json["run"]["status"] = is_complete_ ? "ok" : "interrupted";
  json["run"]["launches_done"] = json["run"]["launches_planned"] = launches_;
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace mrb
