// One side of an A/B comparison as a run of its own: many short runs become its launches.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "report/stored_run.hpp"

namespace mrb {

class SideRecord {
 public:
  // `side`: "before" or "after"; the side's id is "<session>-<side>".
  SideRecord(const std::string& session, const std::string& side) : session_(session), id_(session + "-" + side) {}

  // Adds the next short run, given its result.json: of each variant all launches become one. Throws Error(config) when
  // it is no result of ours, Error(partial) when a variant that should have run was not measured, and
  // Error(not_comparable) when its variants are not those of the runs before it.
  void add(const std::string& result_json);

  int launches() const { return launches_; }

  // All launches that were planned are there; until then the side is marked as interrupted.
  void set_complete() { is_complete_ = true; }

  // A result.json of the whole side. Summaries and comparisons of the short runs are left out.
  std::string text() const;
  StoredRun run() const { return parse_stored_run(text(), id_); }

 private:
  std::string session_, id_;
  bool is_complete_ = false;
  int launches_ = 0;
  nlohmann::ordered_json json_;
};

}  // namespace mrb
