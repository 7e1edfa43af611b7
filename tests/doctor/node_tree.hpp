// A node made of files: /proc, /sys, /dev and /etc of another machine, from a short description.
#pragma once

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "support/temporary_file.hpp"

namespace mrb::test {

// A line each:
//
//   PATH = CONTENT    a file; \n and \0 in CONTENT are a line's end and a zero
//   PATH -> TARGET    a link
//   -PATH             what was there, folder or file, is gone
//
// {0..7} in PATH makes one of each number; {1} and {2} in the rest of the line are the first and second range's number.
class NodeTree {
 public:
  // `type`: a file of tests/doctor/nodes, on top of common.txt there.
  explicit NodeTree(const std::string& type) {
    for (const std::string& name : {std::string("common"), type}) {
      std::ifstream file(std::string(MRB_SOURCE_DIR) + "/tests/doctor/nodes/" + name + ".txt");
      if (!file) throw std::runtime_error("there is no node " + name);
      apply({std::istreambuf_iterator<char>(file), {}});
    }
  }
  NodeTree() = default;  // an empty one

  const std::string& root() const { return folder_.path(); }

  void apply(const std::string& description) {
    std::size_t begin = 0;
    while (begin < description.size()) {
      const std::size_t end = std::min(description.find('\n', begin), description.size());
      expand(description.substr(begin, end - begin), 1);
      begin = end + 1;
    }
  }

 private:
  static void replace(std::string& text, const std::string& from, const std::string& to) {
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
      text.replace(at, from.size(), to);
    }
  }

  void expand(const std::string& line, int range) {
    if (line.empty() || line[0] == '#') return;
    const std::size_t dots = line.find(".."), open = line.rfind('{', dots), close = line.find('}', dots);
    const std::size_t path_end = line.find(' ');
    const bool is_range = dots != std::string::npos && open != std::string::npos && close < path_end && open < dots;
    if (!is_range) return make(line);
    const int first = std::stoi(line.substr(open + 1)), last = std::stoi(line.substr(dots + 2));
    for (int number = first; number <= last; ++number) {
      std::string one = line.substr(0, open) + std::to_string(number) + line.substr(close + 1);
      replace(one, "{" + std::to_string(range) + "}", std::to_string(number));
      expand(one, range + 1);
    }
  }

  void make(const std::string& line) const {
    namespace fs = std::filesystem;
    if (line[0] == '-') {
      fs::remove_all(root() + line.substr(1));
      return;
    }
    const std::size_t link = line.find(" -> "), file = line.find(" =");
    const std::string path = root() + line.substr(0, std::min(link, file));
    fs::create_directories(fs::path(path).parent_path());
    if (link < file) {
      fs::remove(path);
      fs::create_directories((fs::path(path).parent_path() / line.substr(link + 4)).lexically_normal());
      fs::create_symlink(line.substr(link + 4), path);
      return;
    }
    std::string content = file + 3 <= line.size() ? line.substr(file + 3) : "";
    replace(content, "\\n", "\n");
    replace(content, "\\0", std::string(1, '\0'));
    std::ofstream(path, std::ios::binary) << content << (content.empty() || content.back() == '\0' ? "" : "\n");
  }

  TemporaryFolder folder_;
};

}  // namespace mrb::test
