// What `compare` and `ab` have in common: margins, the form of the answer, the exit code.
#pragma once

#include <string>

#include "cli/cli.hpp"
#include "report/run_comparison.hpp"

namespace mrb {

struct GateOptions {
  ComparisonOptions options;
  std::string format = "table";
  std::string inconclusive = "exit3";

  void add_to(CLI::App& command);

  std::string text_of(const RunComparison&) const;

  // 0 pass or faster, 1 fail, 3 inconclusive (or what --inconclusive says), 4 other work was done, before all of them.
  int exit_code_of(const RunComparison&) const;
};

}  // namespace mrb
