#include "cli/run_binary.hpp"
#include "report/json.hpp"
#include "report/made_up_run.hpp"
#include "support/catch.hpp"

using namespace mrb;
using namespace mrb::test;

namespace {

// A stored run of one variant whose eight launches take about a second, `ratio` times as long.
class StoredFile {
 public:
  explicit StoredFile(double ratio, const std::string& processor = "Some CPU") {
    std::vector<std::int64_t> wall_ms;
    for (const double ms : {1000., 1010., 990., 1004., 996., 1008., 992., 1002.})
      wall_ms.push_back(static_cast<std::int64_t>(ms * ratio));
    RunInfo info = made_up_run();
    info.nodes[0].processor = processor;
    RunRecord record{.results = {made_up_result("alltoall", true, wall_ms)}, .status = "ok"};
    compare_results(record.results);
    std::ofstream(path()) << result_json(info, record);
  }
  std::string path() const { return folder_.path() + "/result.json"; }

 private:
  TemporaryFolder folder_;
};

Finished compare(const StoredFile& before, const StoredFile& after, const std::string& options = "") {
  return run_binary("compare " + before.path() + " " + after.path() + " " + options);
}

}  // namespace

TEST_CASE("compare says slower, as before or faster, and its exit code says it too", "[cli]") {
  const StoredFile before(1), slower(1.1), same(1.001);
  CHECK(compare(before, slower).exit_code == 1);
  CHECK(compare(before, same).exit_code == 0);
  CHECK(compare(slower, before).exit_code == 0);
  CHECK_THAT(compare(before, slower).out, contains("result: FAIL"));
  CHECK_THAT(compare(slower, before).out, contains("result: FASTER"));
}

TEST_CASE("inconclusive is an exit code of its own, or what the user makes of it", "[cli]") {
  const StoredFile before(1), near(1.03);
  CHECK(compare(before, near, "--margin 0.03 --step-margin 0.03").exit_code == 3);
  CHECK(compare(before, near, "--margin 0.03 --step-margin 0.03 --inconclusive pass").exit_code == 0);
  CHECK(compare(before, near, "--margin 0.03 --step-margin 0.03 --inconclusive fail").exit_code == 1);
}

TEST_CASE("what cannot be compared has exit code 8, and what is no result 2", "[cli]") {
  const StoredFile before(1), elsewhere(1, "Another CPU");
  const Finished refused = compare(before, elsewhere);
  CHECK(refused.exit_code == 8);
  CHECK(refused.out.empty());
  CHECK_THAT(refused.err, contains("Another CPU") && contains("fix: "));
  CHECK(compare(before, elsewhere, "--allow-mismatch").exit_code == 0);
  CHECK(run_binary("compare " + before.path() + " nowhere").exit_code == 2);
}

TEST_CASE("compare writes the forms that others read", "[cli]") {
  const StoredFile before(1), slower(1.1);
  CHECK_THAT(compare(before, slower, "--format junit").out, contains("<testsuite ") && contains("failures=\"2\""));
  CHECK_THAT(compare(before, slower, "--format github").out, contains("::error "));
  CHECK_THAT(compare(before, slower, "--format md").out, contains("| variant | metric |"));
  CHECK_THAT(compare(before, slower, "--format json").out, contains("\"verdict\": \"FAIL\""));
}
