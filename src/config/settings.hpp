// What the user asked for, every value with where it came from; lists are allowed on any axis.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/config.hpp"
#include "config/rules.hpp"

namespace mrb {

// Where settings come from, weakest first: defaults, the file, MRB_* variables, --set, flags.
struct SettingsSources {
  std::string file;                                              // path of a YAML file; empty: none
  std::vector<std::pair<std::string, std::string>> environment;  // name, value; only MRB_* are looked at
  std::vector<std::string> sets;                                 // "a.b=value"
  std::vector<std::pair<std::string, std::string>> flags;        // key, value
  Purpose purpose = Purpose::run;                                // which rules they must keep

  // Names that this build knows, by key ("dispatcher"): any other is a fault. Keys that are missing take any name.
  std::map<std::string, std::vector<std::string>> choices;

  // Names that this build left out, by key, with the feature that brings each back ("LIBFABRIC").
  std::map<std::string, std::map<std::string, std::string>> left_out;

  // How many ranks mpirun has started, when it has: `ranks` must agree, or is taken from it.
  std::optional<int> world_size;
};

// The values of one field.
struct Setting {
  std::string key;                  // "grpo.prompts"; the name of a section is called like the section: "transport"
  std::vector<std::string> values;  // canonical text, in the order given; none: the preset's value
  std::string origin;               // "default", "quickstart.yaml:3:7", "MRB_SEED", "--set grpo.prompts", "--seed"
};

struct Settings {
  std::vector<Setting> fields;                  // every field, in the order of the schema
  std::map<std::string, std::string> baseline;  // method key -> value; what is not named is the first value

  const Setting& at(const std::string& key) const;
};

// Reads, merges and validates. Throws one Error(config) with every fault: where, the value, the accepted range, the
// nearest key, the fix. Reading is bounded in bytes, depth and time, whatever the file holds.
Settings load_settings(const SettingsSources&);

// One value for every field: a point of the product of all lists.
struct Point {
  Config config;
  std::map<std::string, std::string> workload;  // the fields that decide what is computed, with more than one value
  std::map<std::string, std::string> method;    // the fields that decide how, with more than one value here
  bool is_baseline = false;                     // the one that others of the same workload are compared with
};

// The product, in the order of the lists, last key fastest. Points that differ only in a field that has no meaning
// for them (`transport.provider` without libfabric) are one point. Exactly one point per workload is the baseline.
std::vector<Point> expand(const Settings&);

// The YAML that gives these settings back: read by load_settings, shown by `config show`. With `Origins::shown` each
// line says in a comment where its value comes from.
enum class Origins { hidden, shown };
std::string settings_yaml(const Settings&, Origins);

// The YAML of one point, for tuned.yaml; `comment` lines come first, each behind "# ".
std::string config_yaml(const Config&, const std::vector<std::string>& comment);

// The YAML of the defaults, with every field's sentence and range: where a user begins.
std::string starter_yaml();

// One "key=value" line per field that means anything in this configuration, in the order of the schema. The workload
// lines are those of the fields that decide what is computed, and of the seed.
enum class FieldSet { all, workload, method };
std::string canonical_lines(const Config&, FieldSet);

// JSON Schema (draft-07) of the configuration file.
std::string config_json_schema();

// For flags: every key with its sentence, its default as text and whether it is an axis.
struct FieldDoc {
  std::string key;
  std::string flag;  // "--transport" for transport.name, "--grpo-prompts" for grpo.prompts
  std::string sentence;
  std::string accepted;  // "1 to 4096", "one of: f32, bf16"
  std::string default_text;
};
std::vector<FieldDoc> field_docs();

}  // namespace mrb
