// The one table of everything that can be configured. YAML, environment, flags, schema, documentation and the
// product of lists are all derived from it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"

namespace mrb {

enum class FieldKind {
  workload,  // decides what is computed; an axis
  method,    // decides how; an axis, and what variants are compared by
  session    // one value for the whole run
};

struct Field {
  std::string key;  // "grpo.prompts"; "transport" is the section's name field, "transport.name" in YAML's long form
  FieldKind kind = FieldKind::session;
  std::string sentence;
  std::string type;                  // of JSON Schema: integer, number, string, boolean
  std::string accepted;              // "1 to 4096"
  std::vector<std::string> choices;  // empty: any value of the type
  std::optional<double> low, high;   // of numbers

  // A value's text in its one spelling, or nothing when it is not accepted.
  std::function<std::optional<std::string>(const std::string&)> canonical;
  std::function<std::string(const Config&)> get;
  std::function<void(Config&, const std::string&)> set;  // canonical text only

  // What holds when nobody gives a value, in words, where that is not always the value in `Config`; otherwise empty.
  std::string default_in_words;

  // Whether the field means anything in this configuration; null: always.
  std::function<bool(const Config&)> applies;

  // What makes it mean something, as "key: value"; then a value that is given where it means nothing is a fault. Empty:
  // such a value is not looked at.
  std::string needs;

  // The key of the field whose choice gives this one's value when nobody does: "model", "grpo.preset"; empty: none.
  std::string preset;

  bool names_section = false;  // "transport": in YAML it may stand alone, or as `name` in the section's mapping

  bool is_axis() const { return kind != FieldKind::session; }
  std::string section() const { return key.substr(0, key.find('.')); }
  std::string flag() const;      // "--grpo-prompts"
  std::string variable() const;  // "MRB_GRPO_PROMPTS"
};

const std::vector<Field>& fields();

// Null when there is no such key.
const Field* find_field(std::string_view key);

// The key that is spelt most like it.
std::string nearest(std::string_view word, const std::vector<std::string>& words);
std::string nearest_key(std::string_view key);

}  // namespace mrb
