#include "config/length_file.hpp"

#include "config/loading.hpp"

using namespace mrb;
using mrb::test::contains;
using mrb::test::TemporaryFile;
using mrb::test::TemporaryFolder;

namespace {

std::string problem_of(const std::string& text) {
  const TemporaryFile file(text);
  const LengthFile read = read_length_file(file.path());
  CHECK(read.fix.empty() == read.problem.empty());
  return read.problem;
}

}  // namespace

TEST_CASE("lengths are read in order, one per line", "[config]") {
  const TemporaryFile file("12\r\n\n7 \n1048576");
  const LengthFile read = read_length_file(file.path());
  CHECK(read.problem.empty());
  CHECK(read.lengths == std::vector<int>{12, 7, 1048576});
}

TEST_CASE("what is no length is shown with its line, and the others are counted", "[config]") {
  CHECK_THAT(problem_of("12\n0\n"), contains(": line 2 is '0'"));
  CHECK_THAT(problem_of("length\n12\n-3\n1e3\n"), contains(": line 1 is 'length', and 2 more are no lengths either"));
  CHECK_THAT(problem_of("1048577"), contains("line 1 is '1048577'"));
  CHECK_THAT(problem_of("99999999999999999999"), contains("line 1 is"));
  CHECK_THAT(problem_of("\n\n"), contains("the file is empty"));
  CHECK_THAT(problem_of(test::repeated("1\n", 9 << 20)), contains("the file has more than 16.0 MiB"));
}

TEST_CASE("a file that is none is named before anything runs, beside every other fault", "[config]") {
  const TemporaryFolder folder;
  CHECK_THAT(read_length_file(folder.path()).problem, contains("this is not a regular file"));
  CHECK_THAT(read_length_file("/dev/zero").problem, contains("this is not a regular file"));
  const std::string path = folder.path() + "/lengths.txt";
  const std::string text = test::fault("grpo: {lengths: empirical, length_file: " + path + ", dual_clip: 0.5}");
  CHECK_THAT(text, contains("FILE:1:41: the lengths in '" + path + "': there is no such file"));
  CHECK_THAT(text, contains("fix: give a readable text file with one length in tokens per line") &&
                       contains("2 faults") && contains("dual_clip is 0.5"));
}
