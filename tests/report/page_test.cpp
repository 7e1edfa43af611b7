#include "report/page.hpp"

#include <regex>

#include "report/json.hpp"
#include "report/made_up_run.hpp"
#include "report/page_charts.hpp"
#include "support/catch.hpp"

using namespace mrb;
using namespace mrb::test;

TEST_CASE("the page needs nothing from elsewhere and no script", "[report]") {
  const std::string page = run_page(made_up_stored_run());
  CHECK(page.starts_with("<!doctype html>"));
  for (const char* outside : {"<script", "http:", "https:", "src=", "@import", "url("}) {
    INFO(outside);
    CHECK(page.find(outside) == std::string::npos);
  }
  CHECK_THAT(page, contains("prefers-color-scheme: dark") && contains("@media print") && contains("max-width: 44rem"));
}

TEST_CASE("verdicts come first, then the step, samples, bytes, machine, configuration, how to run it again",
          "[report]") {
  const std::string page = run_page(made_up_stored_run());
  std::size_t last = 0;
  for (const char* title : {"Verdicts within this run", "Where a step&#39;s time goes", "Every sample", "Idle time",
                            "Bytes of dispatch", "Machine", "Configuration", "How to run it again"}) {
    INFO(title);
    const std::size_t at = page.find("<h2>" + std::string(title));
    REQUIRE(at != std::string::npos);
    CHECK(at > last);
    last = at;
  }
  CHECK_THAT(page,
             contains("+100.0% [+100.0%, +100.0%]") && contains("<td class=\"good\" data-label=\"verdict\">faster"));
  CHECK_THAT(page, contains("measured, libfabric (shm)") && contains("moe-rl-bench run --ranks 2</pre>"));
}

TEST_CASE("names from configurations never become markup", "[report]") {
  StoredRun run = made_up_stored_run();
  run.cells[1].label = "<img src=x onerror=alert(1)>";
  run.arguments.push_back("a'b <c>");
  run.notes.push_back("</style><script>");
  const std::string page = run_page(run);
  CHECK(page.find("<img") == std::string::npos);
  CHECK(page.find("<script") == std::string::npos);
  CHECK_THAT(page,
             contains("&lt;img src=x onerror=alert(1)&gt;") && contains("&#39;a&#39;\\&#39;&#39;b &lt;c&gt;&#39;"));
}

TEST_CASE("the page says when a run is not whole", "[report]") {
  RunRecord record = made_up_record();
  record.status = "running";  // what a run that was killed has left
  CHECK_THAT(run_page(made_up_stored_run(record)), contains("its status is interrupted"));
}

TEST_CASE("a run without any launch still makes a page", "[report]") {
  RunRecord record = made_up_record();
  for (Result& result : record.results) {
    result.launches.clear();
    result.status = ResultStatus::pending;
  }
  CHECK_THAT(run_page(made_up_stored_run(record)), contains("pending") && !contains("Every sample"));
}

TEST_CASE("the gate's verdicts stand before all others", "[report]") {
  const RunComparison comparison = compare_runs(made_up_stored_run(), made_up_stored_run(), {});
  const std::string page = run_page(made_up_stored_run(), &comparison);
  CHECK(page.find("<h2>Gate: PASS") < page.find("<h2>Verdicts within this run"));
}

TEST_CASE("bars have the length of their values on an axis that holds them all", "[report]") {
  const std::string chart = stacked_bars({{"a", "", {{"x", 30, 0}, {"y", 10, 1}}}}, "time, ms", "ms");
  CHECK_THAT(chart,
             contains("class=\"c0\" style=\"width:75.0000%\"") && contains("class=\"c1\" style=\"width:25.0000%\""));
  CHECK_THAT(chart, contains("<span>0</span><span>10</span><span>20</span><span>30</span><span>40</span>"));
  CHECK_THAT(chart, contains("time, ms") && contains("</span>x</li>"));
}

TEST_CASE("points stand where their values are", "[report]") {
  // Axes to 4 and to 40: the point at a quarter of the width, three quarters of the height.
  const std::string chart = point_chart({{"a", 0, {{1, 30}, {4, 40}}}}, {.x = "launch", .y = "ms"});
  CHECK_THAT(chart, contains("M250.0 250.0h0M1000.0 0.0h0"));
}

TEST_CASE("a chart of zeros has an axis", "[report]") {
  CHECK_THAT(point_chart({{"a", 0, {{0, 0}}}}, {.x = "x", .y = "y"}), contains("M0.0 1000.0h0"));
}
