#include "report/results_folder.hpp"

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "base/error.hpp"
#include "support/catch.hpp"
#include "support/temporary_file.hpp"

using namespace mrb;
namespace fs = std::filesystem;

namespace {

std::string text_of(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("ids sort by time and do not repeat", "[report]") {
  const std::string id = ResultsFolder::new_id();
  CHECK(std::regex_match(id, std::regex(R"(\d{8}T\d{6}Z-[0-9a-f]{6})")));
  CHECK(id != ResultsFolder::new_id());
}

TEST_CASE("a run's folder is made with all above it", "[report]") {
  const test::TemporaryFolder temporary;
  const ResultsFolder folder(temporary.path() + "/a/b", "run");
  CHECK(folder.path() == temporary.path() + "/a/b/run");
  CHECK(fs::is_directory(folder.path()));
}

TEST_CASE("a folder is never used twice", "[report]") {
  const test::TemporaryFolder temporary;
  const ResultsFolder folder(temporary.path(), "run");
  CHECK_THROWS_WITH(ResultsFolder(temporary.path(), "run"),
                    test::contains("it exists already") && test::contains("fix: set output.dir"));
}

TEST_CASE("a folder that cannot be made is refused with the system's words", "[report]") {
  const test::TemporaryFolder temporary;
  std::ofstream(temporary.path() + "/file") << "in the way";
  try {
    ResultsFolder(temporary.path() + "/file", "run");
    FAIL("it was made");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::environment);
    CHECK_THAT(error.what(), test::contains("cannot be made"));
  }
}

TEST_CASE("a file is replaced as a whole, and leaves nothing else behind", "[report]") {
  const test::TemporaryFolder temporary;
  const ResultsFolder folder(temporary.path(), "run");
  folder.write("result.json", "a much longer text");
  folder.write("result.json", "short");
  CHECK(text_of(folder.path() + "/result.json") == "short");
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("what cannot be written is an error, and the old text stays", "[report]") {
  const test::TemporaryFolder temporary;
  const ResultsFolder folder(temporary.path(), "run");
  folder.write("result.json", "old");
  fs::create_directory(folder.path() + "/result.json.part");  // also root cannot write a directory
  CHECK_THROWS_WITH(folder.write("result.json", "new"), test::contains("cannot be written"));
  CHECK(text_of(folder.path() + "/result.json") == "old");
}
