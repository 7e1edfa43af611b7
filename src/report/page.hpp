// One self-contained HTML page of a stored run: no network, no script; read on a telephone, in the dark, or printed.
#pragma once

#include <string>

#include "report/run_comparison.hpp"
#include "report/stored_run.hpp"

namespace mrb {

// Verdicts first. With `comparison`, the gate's verdicts against another run come before those within this one. All
// text of others is escaped.
std::string run_page(const StoredRun&, const RunComparison* comparison = nullptr);

// The page's style sheet.
std::string page_style();

}  // namespace mrb
