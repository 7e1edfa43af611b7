// The folder order is the architecture: a file may include its own folder and the ones before it, never one after it.
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <string>

#include "support/catch.hpp"

namespace {

namespace fs = std::filesystem;

const std::map<std::string, int> kLayer = {{"base", 0},     {"config", 1},    {"manifest", 2}, {"stats", 3},
                                           {"cluster", 4},  {"transport", 5}, {"compute", 6},  {"dispatch", 7},
                                           {"model", 8},    {"grpo", 9},      {"bench", 10},   {"doctor", 11},
                                           {"planner", 12}, {"tune", 13},     {"report", 14},  {"cli", 15}};

}  // namespace

TEST_CASE("includes only point to earlier folders", "[layers]") {
  const fs::path src = fs::path(MRB_SOURCE_DIR) / "src";
  const std::regex include(R"inc(#include "(\w+)/)inc");
  int includes_seen = 0;
  for (const auto& entry : fs::recursive_directory_iterator(src)) {
    const auto folder = entry.path().lexically_relative(src).begin()->string();
    if (!entry.is_regular_file() || !kLayer.contains(folder)) continue;
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      std::smatch match;
      if (!std::regex_search(line, match, include)) continue;
      INFO(entry.path().string() << ": " << line);
      REQUIRE(kLayer.contains(match[1]));
      CHECK(kLayer.at(match[1]) <= kLayer.at(folder));
      ++includes_seen;
    }
  }
  CHECK(includes_seen > 100);  // the pattern still matches how this project writes its includes
}

TEST_CASE("every folder of src is a layer", "[layers]") {
  for (const auto& entry : fs::directory_iterator(fs::path(MRB_SOURCE_DIR) / "src")) {
    if (entry.is_directory()) CHECK(kLayer.contains(entry.path().filename().string()));
  }
}
