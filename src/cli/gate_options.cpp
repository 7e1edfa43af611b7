#include "cli/gate_options.hpp"

#include <functional>
#include <map>

#include "base/error.hpp"

namespace mrb {

namespace {

using ComparisonWriter = std::string (*)(const RunComparison&);

const std::map<std::string, ComparisonWriter>& comparison_writers() {
  static const std::map<std::string, ComparisonWriter> by_name = {{"table", comparison_table},
                                                                  {"md", comparison_markdown},
                                                                  {"junit", comparison_junit},
                                                                  {"github", comparison_annotations},
                                                                  {"json", comparison_json}};
  return by_name;
}

}  // namespace

void GateOptions::add_to(CLI::App& command) {
  const CLI::Range margins(1e-4, 1.0);
  command
      .add_option("--margin", options.throughput_margin_ratio, "Fewer tokens/s by less than this are as good as before")
      ->check(margins)
      ->capture_default_str();
  command.add_option("--step-margin", options.step_margin_ratio, "The same of the 99th percentile of the step's time")
      ->check(margins)
      ->capture_default_str();
  command.add_option("--alpha", options.policy.alpha, "The chance of a wrong claim, of all metrics together")
      ->check(CLI::Range(1e-6, 0.5))
      ->capture_default_str();
  command.add_option("--format", format, "How the answer is written")
      ->check(CLI::IsMember(comparison_writers()))
      ->capture_default_str();
  command.add_option("--inconclusive", inconclusive, "What an inconclusive answer counts as")
      ->check(CLI::IsMember({"exit3", "pass", "fail"}))
      ->capture_default_str();
}

std::string GateOptions::text_of(const RunComparison& comparison) const {
  return comparison_writers().at(format)(comparison);
}

int GateOptions::exit_code_of(const RunComparison& comparison) const {
  constexpr int kPass = 0, kFail = 1, kInconclusive = 3;
  if (comparison.wrong_work) return static_cast<int>(ErrorKind::wrong_result);
  switch (comparison.verdict) {
    case GateVerdict::pass:
    case GateVerdict::faster:
      return kPass;
    case GateVerdict::fail:
      return kFail;
    case GateVerdict::inconclusive:
      break;
  }
  return inconclusive == "pass" ? kPass : inconclusive == "fail" ? kFail : kInconclusive;
}

}  // namespace mrb
