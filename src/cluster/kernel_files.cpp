#include "cluster/kernel_files.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <iterator>
#include <sstream>

namespace mrb {

namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<std::string> lines_of(const std::string& text, char end) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line, end);) lines.push_back(line);
  return lines;
}

std::string first_line(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back()))) line.pop_back();
  return line;
}

std::string value_of(const std::string& text, std::string_view name) {
  for (const std::string& line : lines_of(text)) {
    if (line.compare(0, name.size(), name) != 0) continue;
    const std::size_t value = line.find_first_not_of(" \t:", name.size());
    return value == std::string::npos ? "" : line.substr(value);
  }
  return "";
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<fs::path> cgroup_folders(const std::string& root, const std::string& controller) {
  std::vector<fs::path> folders;
  // "4:cpu,cpuacct:/path", or "0::/path" for version 2
  for (const std::string& line : lines_of(text_of(root + "/proc/self/cgroup"))) {
    const std::size_t names_at = line.find(':') + 1, path_at = line.find(':', names_at) + 1;
    if (names_at == 0 || path_at == 0) continue;
    const std::string names = line.substr(names_at, path_at - 1 - names_at);
    if (!names.empty() && ("," + names + ",").find("," + controller + ",") == std::string::npos) continue;
    const std::array<std::string, 2> mounts = {names.empty() ? "" : "/" + names,
                                               names.empty() ? "/unified" : "/" + controller};
    for (fs::path group = line.substr(path_at);; group = group.parent_path()) {
      for (const std::string& mount : mounts) folders.emplace_back(root + "/sys/fs/cgroup" + mount + group.string());
      if (!group.has_relative_path()) break;
    }
  }
  return folders;
}

}  // namespace mrb
