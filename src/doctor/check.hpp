// A check is a small function from facts to an outcome, in a table that says what it reads, why that matters and how to
// put it right.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "doctor/facts.hpp"

namespace mrb {

enum class Severity {
  note,   // worth knowing
  warn,   // it runs, but its numbers cannot be compared with those of a healthy node
  refuse  // it would not run, or would not measure what was asked for
};
std::string severity_text(Severity);

enum class Scope { rank, node, job };
std::string scope_text(Scope);

// What one check has to say.
struct Outcome {
  enum class Kind { fine, found, not_looked };
  Kind kind = Kind::fine;
  std::string text;                       // found: the problem with its values; not_looked: why
  std::optional<Severity> severity = {};  // in place of the check's own
  std::optional<std::string> fix = {};    // in place of the check's own
};

inline Outcome fine() {
  return {};
}
inline Outcome found(std::string problem, std::optional<Severity> severity = {}, std::optional<std::string> fix = {}) {
  return {Outcome::Kind::found, std::move(problem), severity, std::move(fix)};
}
inline Outcome not_looked(std::string why) {
  return {Outcome::Kind::not_looked, std::move(why)};
}

// Of one rank, or of the node that it is on; `look` must then depend on nothing that ranks of a node do not share.
struct Check {
  const char* id;
  Scope scope;
  Severity severity;
  Outcome (*look)(const Facts&);
  const char* reads;
  const char* why;
  const char* fix;
};

// Of all ranks together.
struct JobCheck {
  const char* id;
  Severity severity;
  Outcome (*look)(const std::vector<Facts>& by_rank);
  const char* reads;
  const char* why;
  const char* fix;
};

std::span<const Check> library_checks();
std::span<const Check> efa_checks();
std::span<const Check> gpu_checks();
std::span<const Check> host_checks();
std::span<const JobCheck> job_checks();

}  // namespace mrb
