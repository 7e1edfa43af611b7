#include "config/yaml_reader.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <set>
#include <sstream>
#include <utility>

#include "base/error.hpp"
#include "config/list_syntax.hpp"
#include "config/text_file.hpp"

namespace mrb {

namespace {

constexpr std::size_t kDepthMax = 16;   // of mappings and lists, whether they belong there or not: ours need 4
constexpr std::size_t kPathMax = 4096;  // the longest that Linux takes

[[noreturn]] void refuse_yaml(const std::string& where, const std::string& problem, const std::string& fix) {
  throw Error(ErrorKind::config, fmt::format("{}: {}", where, problem), fix);
}

[[noreturn]] void refuse_empty(const std::string& path) {
  refuse_yaml(path, "the file is empty", "make a complete one: moe-rl-bench config init > my.yaml");
}

// Turns the events of one document into what was given. What does not belong where it stands is a fault, and is passed
// over with everything inside it.
class GivenBuilder final : public YAML::EventHandler {
 public:
  GivenBuilder(std::string path, Faults& faults) : path_(std::move(path)), faults_(faults) {}

  std::vector<Given> take() { return std::move(given_); }

  std::string at(const YAML::Mark& mark) const {
    return mark.is_null() ? path_ : fmt::format("{}:{}:{}", path_, mark.line + 1, mark.column + 1);
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (std::exchange(has_begun_, true)) {
      refuse_yaml(at(mark), "the file goes on behind the end of its document",
                  "keep one document: look for a line `---`, or for what is left over behind a closing bracket");
    }
  }

  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    if (place() == Place::root) refuse_empty(path_);
    if (place() == Place::value) {
      faults_.add(open_.back().key_where, fmt::format("'{}' has no value", shown(full_key())),
                  "give it one, or leave the key out");
    } else if (place() != Place::passed_over) {
      add_misplaced(mark, "nothing");
    }
    end_item();
  }

  // One fault for all of them: whoever uses one uses many.
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    if (place() != Place::passed_over && !std::exchange(has_alias_, true)) {
      faults_.add(at(mark), "aliases (`*name`) are not followed", "write the value out");
    }
    if (place() == Place::key || place() == Place::item) open_.back().is_bad = true;
    end_item();
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, const std::string& text) override {
    check_tag(mark, tag);
    switch (place()) {
      case Place::root:
        refuse_root(mark);
      case Place::key:
        take_key(mark, text);
        break;
      case Place::value:
        given_.push_back({full_key(), {text}, false, at(mark), open_.back().key_where});
        break;
      case Place::item:
        given_.back().values.push_back(text);
        break;
      case Place::passed_over:
        break;
    }
    end_item();
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    begin_collection(mark, tag);
    if (place() == Place::root) refuse_root(mark);
    if (place() != Place::value) return pass_over(mark, "a list");
    given_.push_back({full_key(), {}, true, at(mark), open_.back().key_where});
    open_.push_back({.is_list = true});
  }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, YAML::EmitterStyle::value) override {
    begin_collection(mark, tag);
    if (place() == Place::root) {
      open_.push_back({});
    } else if (place() == Place::value && key_opens_section()) {
      open_.push_back({.path = full_key()});
    } else {
      pass_over(mark, "a mapping");
    }
  }

  void OnSequenceEnd() override { end_collection(); }
  void OnMapEnd() override { end_collection(); }

 private:
  enum class Place { root, key, value, item, passed_over };

  // A mapping or a list that has begun.
  struct Open {
    bool is_list = false;
    std::string path;  // of a mapping: "" for the whole file, "grpo", "baseline", "baseline.transport"
    std::set<std::string> seen;
    bool awaits_key = true;
    std::string key;  // whose value comes next
    std::string key_where;
    bool is_bad = false;  // the key, or something in the list: a fault was added, and the value counts for nothing
  };

  Place place() const {
    if (depth_passed_over_ > 0) return Place::passed_over;
    if (open_.empty()) return Place::root;
    if (open_.back().is_list) return Place::item;
    if (open_.back().awaits_key) return Place::key;
    return open_.back().is_bad ? Place::passed_over : Place::value;
  }

  std::string full_key() const {
    const Open& mapping = open_.back();
    return mapping.path.empty() ? mapping.key : mapping.path + "." + mapping.key;
  }

  // Sections stand at the top, and once more under `baseline`.
  bool key_opens_section() const {
    const Open& mapping = open_.back();
    return (mapping.path.empty() || mapping.path == "baseline") && mapping.key.find('.') == std::string::npos;
  }

  void take_key(const YAML::Mark& mark, const std::string& text) {
    Open& mapping = open_.back();
    mapping.key = text;
    mapping.key_where = at(mark);
    mapping.is_bad = true;
    if (text == "<<") {
      faults_.add(at(mark), "merge keys (`<<`) are not followed", "write the keys out");
    } else if (!mapping.seen.insert(text).second) {
      faults_.add(at(mark), fmt::format("the key '{}' stands here a second time", shown(text)), "keep one of them");
    } else {
      mapping.is_bad = false;
    }
  }

  [[noreturn]] void refuse_root(const YAML::Mark& mark) const {
    refuse_yaml(at(mark), "a configuration is a mapping of keys to values", "write it like this: `ranks: 4`");
  }

  void add_misplaced(const YAML::Mark& mark, const std::string& what) {
    if (place() == Place::key) {
      faults_.add(at(mark), fmt::format("{} stands where a key belongs", what), "write keys like `ranks:`");
      open_.back().is_bad = true;
    } else if (place() == Place::value) {
      faults_.add(at(mark), fmt::format("{} stands where '{}' needs a value", what, shown(full_key())),
                  "give it a plain value, or a list of them");
    } else {
      faults_.add(at(mark), fmt::format("{} stands in the list of '{}'", what, shown(given_.back().key)),
                  "give plain values: [a, b]");
      open_.back().is_bad = true;
    }
  }

  void check_tag(const YAML::Mark& mark, const std::string& tag) {
    if (place() == Place::passed_over || tag.empty() || tag == "?" || tag == "!") return;  // none, plain, quoted
    faults_.add(at(mark), fmt::format("the tag '{}' is not understood", shown(tag)), "leave it out");
  }

  void begin_collection(const YAML::Mark& mark, const std::string& tag) {
    if (open_.size() + depth_passed_over_ >= kDepthMax) {
      refuse_yaml(at(mark), "this is nested too deeply",
                  "a configuration has sections of values and lists of values, nothing deeper");
    }
    check_tag(mark, tag);
  }

  void pass_over(const YAML::Mark& mark, const std::string& what) {
    if (place() != Place::passed_over) add_misplaced(mark, what);
    ++depth_passed_over_;
  }

  void end_collection() {
    if (depth_passed_over_ > 0) {
      --depth_passed_over_;
    } else {
      if (open_.back().is_list) end_list();
      open_.pop_back();
    }
    end_item();
  }

  void end_list() {
    const Given& list = given_.back();
    const bool fits = !list.values.empty() && list.values.size() <= kListValuesMax;
    if (!fits && !open_.back().is_bad) {
      faults_.add(list.where, fmt::format("'{}' has a list of {} values", shown(list.key), list.values.size()),
                  fmt::format("give 1 to {}", kListValuesMax));
    }
    if (!fits || open_.back().is_bad) given_.pop_back();
  }

  // In a mapping keys and values take turns.
  void end_item() {
    if (depth_passed_over_ > 0 || open_.empty() || open_.back().is_list) return;
    Open& mapping = open_.back();
    mapping.awaits_key = !mapping.awaits_key;
    if (mapping.awaits_key) mapping.is_bad = false;
  }

  std::string path_;
  Faults& faults_;
  std::vector<Given> given_;
  std::vector<Open> open_;             // innermost last
  std::size_t depth_passed_over_ = 0;  // how many mappings and lists have begun in what is passed over
  bool has_begun_ = false;
  bool has_alias_ = false;
};

}  // namespace

std::vector<Given> read_yaml(const std::string& path, Faults& faults) {
  std::istringstream text(read_text_file(path));
  GivenBuilder builder(shown(path, kPathMax), faults);
  try {
    YAML::Parser parser(text);
    if (!parser.HandleNextDocument(builder)) refuse_empty(path);
    parser.HandleNextDocument(builder);  // the builder refuses a second one
  } catch (const YAML::Exception& error) {
    refuse_yaml(builder.at(error.mark), "this is not YAML: " + error.msg,
                "compare with the output of moe-rl-bench config init");
  }
  return builder.take();
}

}  // namespace mrb
