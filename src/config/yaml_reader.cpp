#include "config/yaml_reader.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/error.hpp"
#include "base/units.hpp"

namespace mrb {

namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kFileBytesMax = 1 << 20;
constexpr int kDepthMax = 16;              // of brackets and of "- - -": ours needs 3
constexpr std::size_t kListItemsMax = 1000;

[[noreturn]] void refuse(const std::string& where, const std::string& problem, const std::string& fix) {
  throw Error(ErrorKind::config, fmt::format("{}: {}", where, problem), fix);
}

std::string read_file(const std::string& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (!fs::exists(status)) {
    refuse(path, "there is no such file", "give the path of a YAML file, or make one: moe-rl-bench config init > my.yaml");
  }
  if (fs::is_directory(status)) refuse(path, "this is a directory", "give the path of a YAML file in it");
  if (!fs::is_regular_file(status)) refuse(path, "this is not a regular file", "give the path of a YAML file");
  const std::uintmax_t bytes = fs::file_size(path, ignored);
  if (bytes > kFileBytesMax) {
    refuse(path, fmt::format("the file has {}, a configuration at most {}", bytes_text(bytes), bytes_text(kFileBytesMax)),
           "give the path of a configuration");
  }
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file.good() && !file.eof()) refuse(path, "the file cannot be read", "check its permissions");
  if (text.empty() && bytes > 0) refuse(path, "the file cannot be read", "check its permissions");
  return text;
}

// The parser recurses, so what is nested without end is refused before it sees it. Brackets inside quotes count too:
// nobody writes sixteen of them.
void check_text(const std::string& path, const std::string& text) {
  int line = 1, depth = 0;
  bool at_start = true;
  int dashes = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\r' && c != '\t') || byte == 0x7f) {
      refuse(fmt::format("{}:{}", path, line), fmt::format("a control character (byte {}) stands here", byte),
             "give a text file");
    }
    if (c == '\n') {
      ++line;
      at_start = true;
      dashes = 0;
      continue;
    }
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') depth = std::max(0, depth - 1);
    if (at_start && (c == '-' || c == '?' || c == ':')) ++dashes;
    if (c != ' ' && c != '-' && c != '?' && c != ':') at_start = false;
    if (depth > kDepthMax || dashes > kDepthMax) {
      refuse(fmt::format("{}:{}", path, line), "this is nested too deeply", "a configuration has sections of values and lists of values, nothing deeper");
    }
  }
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    refuse(path, "the file is empty", "make a complete one: moe-rl-bench config init > my.yaml");
  }
}

class Walker {
 public:
  Walker(std::string path, Faults& faults) : path_(std::move(path)), faults_(faults) {}

  std::vector<YamlEntry> walk(const YAML::Node& root) {
    if (!root.IsMap()) {
      refuse(at(root), "a configuration is a mapping of keys to values", "write it like this: `ranks: 4`");
    }
    walk_mapping(root, "");
    return std::move(entries_);
  }

 private:
  std::string at(const YAML::Node& node) const {
    const YAML::Mark mark = node.Mark();
    if (mark.is_null()) return path_;
    return fmt::format("{}:{}:{}", path_, mark.line + 1, mark.column + 1);
  }

  void walk_mapping(const YAML::Node& mapping, const std::string& section) {
    std::set<std::string> seen;
    for (const auto& pair : mapping) {
      const YAML::Node &key_node = pair.first, &value = pair.second;
      if (!key_node.IsScalar()) {
        faults_.add(at(key_node), "a key must be a word", "write keys like `ranks:`");
        continue;
      }
      const std::string word = key_node.Scalar();
      if (!seen.insert(word).second) {
        faults_.add(at(key_node), fmt::format("the key '{}' stands here a second time", shown(word)), "keep one of them");
        continue;
      }
      if (value.IsMap() && section.empty() && word.find('.') == std::string::npos) {
        walk_mapping(value, word);
        continue;
      }
      add_entry(section.empty() ? word : word == "name" && section != "baseline" ? section : section + "." + word, value);
    }
  }

  void add_entry(const std::string& key, const YAML::Node& value) {
    YamlEntry entry{.key = key, .where = at(value)};
    if (value.IsScalar()) {
      entry.values.push_back(value.Scalar());
    } else if (value.IsSequence()) {
      entry.is_list = true;
      if (value.size() == 0 || value.size() > kListItemsMax) {
        faults_.add(entry.where, fmt::format("'{}' has a list of {} values", shown(key), value.size()),
                    fmt::format("give 1 to {}", kListItemsMax));
        return;
      }
      for (const auto& item : value) {
        if (!item.IsScalar()) {
          faults_.add(at(item), fmt::format("the list of '{}' holds something that is no value", shown(key)),
                      "give plain values: [a, b]");
          return;
        }
        entry.values.push_back(item.Scalar());
      }
    } else {
      faults_.add(entry.where, fmt::format("'{}' has {}", shown(key), value.IsMap() ? "a mapping where a value belongs" : "no value"),
                  "give it a value, or leave the key out");
      return;
    }
    entries_.push_back(std::move(entry));
  }

  std::string path_;
  Faults& faults_;
  std::vector<YamlEntry> entries_;
};

}  // namespace

std::vector<YamlEntry> read_yaml(const std::string& path, Faults& faults) {
  const std::string text = read_file(path);
  check_text(path, text);
  try {
    const auto documents = YAML::LoadAll(text);
    if (documents.size() > 1) refuse(path, fmt::format("the file holds {} documents", documents.size()), "keep one: remove the lines `---`");
    if (documents.empty() || !documents[0].IsDefined() || documents[0].IsNull()) {
      refuse(path, "the file is empty", "make a complete one: moe-rl-bench config init > my.yaml");
    }
    return Walker(path, faults).walk(documents[0]);
  } catch (const YAML::Exception& error) {
    refuse(fmt::format("{}:{}:{}", path, error.mark.line + 1, error.mark.column + 1),
           fmt::format("this is not YAML: {}", error.msg), "compare with the output of moe-rl-bench config init");
  }
}

}  // namespace mrb
