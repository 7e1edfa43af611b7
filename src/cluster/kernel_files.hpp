// What the kernel says about a machine in small text files: /proc, /sys and a container's part of the cgroup tree. What
// is not there reads as empty.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace mrb {

std::string text_of(const std::filesystem::path& file);

std::vector<std::string> lines_of(const std::string& text, char end = '\n');

// Without the blanks at its end.
std::string first_line(const std::filesystem::path& file);

// The rest of the first line that begins with `name`, without blanks and colons in front ("MemTotal:   8 kB").
std::string value_of(const std::string& text, std::string_view name);

// What a folder holds, by name.
std::vector<std::string> names_in(const std::filesystem::path& folder);

// The folders of this process's groups of one controller ("cpu", "memory"), innermost first, of cgroup version 2 and 1.
// In a container the path may be the host's while only the container's own part is mounted, so some may not exist.
std::vector<std::filesystem::path> cgroup_folders(const std::string& root, const std::string& controller);

}  // namespace mrb
