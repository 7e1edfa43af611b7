#include "config/settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "base/error.hpp"
#include "config/expand.hpp"
#include "config/faults.hpp"
#include "config/fields.hpp"
#include "config/length_file.hpp"
#include "config/list_syntax.hpp"
#include "config/rules.hpp"
#include "config/yaml_reader.hpp"

namespace mrb {

namespace {

// Origins of values that nobody gave.
constexpr const char* kDefault = "default";
constexpr const char* kDefaultOfOneRank = "default for one rank";

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// Gathers settings from weak to strong; what is wrong anywhere is a fault, also where something stronger overrides it.
class Loader {
 public:
  explicit Loader(const SettingsSources& sources) : sources_(sources) {
    for (const Field& field : fields()) settings_.fields.push_back({field.key, {}, kDefault});
  }

  Settings load() {
    take_file();
    take_environment();
    for (const std::string& set : sources_.sets) take_set(set);
    for (const auto& [key, value] : sources_.flags) take_text(key, value, find_field(key)->flag());
    settle_ranks();
    fill_in_defaults();
    check_transport();
    check_length_files();
    check_baseline();
    check_points();
    faults_.report();
    return std::move(settings_);
  }

 private:
  Setting& setting(const std::string& key) {
    return settings_.fields[static_cast<std::size_t>(find_field(key) - fields().data())];
  }

  void take_file() {
    if (sources_.file.empty()) return;
    // Where each field was given: `transport: mpi` and `transport.name: mpi` are two spellings of one.
    std::map<std::string, std::string> first_given;
    for (const Given& given : read_yaml(sources_.file, faults_)) {
      const bool is_baseline = given.key.starts_with(kBaselinePrefix);
      const Field* field = find_field(is_baseline ? given.key.substr(kBaselinePrefix.size()) : given.key);
      if (field != nullptr) {
        const auto [first, is_new] =
            first_given.emplace((is_baseline ? "baseline." : "") + field->key, given.key_where);
        if (!is_new) {
          faults_.add(given.key_where, fmt::format("the key '{}' was already given at {}", given.key, first->second),
                      "keep one of them");
          continue;
        }
      }
      take(given);
    }
  }

  void take_environment() {
    for (const auto& [name, value] : sources_.environment) {
      if (!name.starts_with("MRB_")) continue;
      std::vector<std::string> names;
      for (const Field& field : fields()) names.push_back(field.variable());
      const auto found = std::find(names.begin(), names.end(), name);
      if (found != names.end()) {
        take_text(fields()[static_cast<std::size_t>(found - names.begin())].key, value, name);
      } else {
        faults_.add(shown(name), "this variable sets nothing",
                    fmt::format("did you mean {}? Unset it otherwise", nearest(name, names)));
      }
    }
  }

  void take_set(const std::string& set) {
    const std::size_t equals = set.find('=');
    if (equals == std::string::npos || equals == 0) {
      faults_.add("--set " + shown(set), "there is no '=' behind a key", "write it like --set grpo.prompts=32");
      return;
    }
    const std::string key = set.substr(0, equals);
    take_text(key, set.substr(equals + 1), "--set " + shown(key));
  }

  void take_text(const std::string& key, const std::string& text, const std::string& where) {
    take({.key = key, .values = {text}, .where = where, .key_where = where});
  }

  void take(const Given& given) {
    if (given.key.starts_with(kBaselinePrefix)) return take_baseline(given);
    const Field* field = find_field(given.key);
    if (field == nullptr) {
      add_unknown(given);
      return;
    }
    const std::vector<std::string> values = canonical_values(*field, given);
    if (!field->is_axis() && values.size() > 1) {
      add_fault(*field, given.where,
                fmt::format("'{}' has {} values: {}", field->key, values.size(), shown(joined(values))),
                "give one: it holds for the whole run and is no axis");
      return;
    }
    if (values.empty()) return;
    setting(field->key).values = values;
    setting(field->key).origin = given.where;
  }

  void add_unknown(const Given& given) {
    const auto in_it = std::find_if(fields().begin(), fields().end(), [&](const Field& field) {
      return field.key.starts_with(given.key + ".") || (given.key == "baseline" && field.kind == FieldKind::method);
    });
    if (in_it == fields().end()) {
      faults_.add(given.where, fmt::format("there is no key '{}'", shown(given.key)),
                  fmt::format("did you mean '{}'?", nearest_key(given.key)));
    } else {
      const std::string example = given.key == "baseline" ? "baseline." + in_it->key : in_it->key;
      faults_.add(given.where, fmt::format("'{}' is a section, and has no value itself", given.key),
                  fmt::format("set the keys in it, such as {}", example));
    }
  }

  void take_baseline(const Given& given) {
    const std::string key = given.key.substr(kBaselinePrefix.size());
    const Field* field = find_field(key);
    if (field == nullptr || field->kind != FieldKind::method) {
      std::vector<std::string> names;
      for (const Field& other : fields()) {
        if (other.kind == FieldKind::method) names.push_back(other.key);
      }
      faults_.add(given.where, fmt::format("the baseline cannot name '{}'", shown(key)),
                  fmt::format("did you mean '{}'? A baseline names: {}", nearest(key, names), joined(names)));
    } else if (given.values.size() != 1) {
      faults_.add(given.where, fmt::format("the baseline's '{}' has {} values", field->key, given.values.size()),
                  "give the one to compare with");
    } else {
      baseline_[field->key] = {given.values[0], given.where};
    }
  }

  // Those that are accepted, each once; the others become faults.
  std::vector<std::string> canonical_values(const Field& field, const Given& given) {
    std::vector<std::string> texts = given.values;
    if (!given.is_list && (field.is_axis() || field.type != "string")) {
      const SplitList list = split_list(given.values[0]);
      if (!list.problem.empty()) {
        add_fault(field, given.where, fmt::format("'{}': {}", field.key, list.problem), list.fix);
        return {};
      }
      texts = list.values;
    }
    std::vector<std::string> values;
    for (const std::string& text : texts) {
      const auto value = canonical(field, text, given.where);
      if (value && !contains(values, *value)) values.push_back(*value);
    }
    return values;
  }

  std::optional<std::string> canonical(const Field& field, const std::string& text, const std::string& where) {
    const auto left_out = sources_.left_out.find(field.key);
    if (left_out != sources_.left_out.end() && left_out->second.contains(text)) {
      add_fault(field, where, fmt::format("{} '{}' was left out of this build", field.key, text),
                fmt::format("configure with -DMRB_WITH_{}=ON and build again", left_out->second.at(text)));
      return std::nullopt;
    }
    const auto known = sources_.choices.find(field.key);
    const bool is_listed = known != sources_.choices.end();
    const auto& choices = is_listed ? known->second : field.choices;
    const auto value = field.canonical(text);
    if (value && (!is_listed || contains(choices, *value))) return value;
    const std::string accepted = is_listed ? "one of: " + joined(choices) : field.accepted;
    add_fault(field, where, fmt::format("'{}' cannot be '{}'", field.key, shown(text)),
              choices.empty() ? "give " + accepted
                              : fmt::format("did you mean '{}'? It is {}", nearest(text, choices), accepted));
    return std::nullopt;
  }

  // A fault of one field's value. Rules that the field takes part in are not judged then: they would report the value
  // that stands in for it.
  void add_fault(const Field& field, const std::string& where, const std::string& problem, const std::string& fix) {
    faults_.add(where, problem, fix);
    faulty_.insert(field.key);
  }

  bool is_faulty(const std::string& key) const {
    return faulty_.contains(key) || faulty_.contains(find_field(key)->preset);
  }

  void settle_ranks() {
    Setting& ranks = setting("ranks");
    if (!sources_.world_size || is_faulty("ranks")) return;
    const std::string started = std::to_string(*sources_.world_size);
    if (ranks.values.empty()) {
      ranks.values = {started};
      ranks.origin = "mpirun";
    } else if (ranks.values[0] != started) {
      faults_.add(ranks.origin, fmt::format("'ranks' is {}, and mpirun started {}", ranks.values[0], started),
                  fmt::format("start mpirun -np {}, or leave ranks out", ranks.values[0]));
    }
  }

  void fill_in_defaults() {
    const Config defaults;
    for (const Field& field : fields()) {
      Setting& filled = setting(field.key);
      if (!filled.values.empty()) continue;
      const std::string preset = field.preset.empty() ? "none" : joined(setting(field.preset).values);
      if (preset != "none") {
        filled.origin = field.preset == "model" ? "the model preset" : fmt::format("the {} preset", preset);
      } else if (field.key == "transport" && setting("ranks").values[0] == "1") {
        filled = {field.key, {"loopback"}, kDefaultOfOneRank};
      } else {
        filled.values = {field.get(defaults)};
      }
    }
  }

  // What belongs to libfabric alone would do nothing without it. Defaults may stand: a resolved configuration has them.
  void check_transport() {
    const Setting& transport = setting("transport");
    if (is_faulty("transport") || contains(transport.values, "libfabric")) return;
    for (const char* key : {"transport.provider", "transport.rails", "transport.progress"}) {
      const Setting& given = setting(key);
      if (given.origin == kDefault || given.values == std::vector{find_field(key)->get(Config{})}) continue;
      faults_.add(
          given.origin,
          fmt::format("'{}' is {}, and the transport is {}", key, joined(given.values), joined(transport.values)),
          "leave it out, or use transport: libfabric");
    }
  }

  bool executes() const { return sources_.purpose == Purpose::run || sources_.purpose == Purpose::tune; }

  // Before anything runs, and before each rank reads it for itself.
  void check_length_files() {
    if (!executes() || !contains(setting("grpo.lengths").values, "empirical")) return;
    const Setting& given = setting("grpo.length_file");
    for (const std::string& path : given.values) {
      if (path.empty()) continue;
      const LengthFile file = read_length_file(path);
      if (!file.problem.empty()) faults_.add(given.origin, file.problem, file.fix);
    }
  }

  void check_baseline() {
    for (const auto& [key, given] : baseline_) {
      const auto& [text, where] = given;
      const auto& values = setting(key).values;
      const auto value = find_field(key)->canonical(text);
      if (value && contains(values, *value)) {
        settings_.baseline[key] = *value;
      } else if (!is_faulty(key)) {
        faults_.add(where, fmt::format("the baseline's '{}' is '{}', which is not among its values", key, shown(text)),
                    fmt::format("use one of: {}", joined(values)));
      }
    }
  }

  void check_points() {
    double points = 1;
    std::string lists;
    for (const Setting& axis : settings_.fields) {
      if (axis.values.size() < 2) continue;
      points *= static_cast<double>(axis.values.size());
      lists += fmt::format("{}{} values of {}", lists.empty() ? "" : " x ", axis.values.size(), axis.key);
    }
    if (points > static_cast<double>(kPointsMax)) {
      faults_.add("configuration", fmt::format("{} make {} combinations", lists, points),
                  fmt::format("give shorter lists, of at most {} combinations", kPointsMax));
      return;
    }
    const std::vector<Point> all = expand(settings_);
    check_unused(all);
    const auto fits = [&](const Point& point) { return misfits(point.config, sources_.purpose).empty(); };
    if (sources_.purpose == Purpose::tune && std::any_of(all.begin(), all.end(), fits)) return;
    for (const Point& point : all) {
      for (const Misfit& misfit : misfits(point.config, sources_.purpose)) add_misfit(misfit);
    }
  }

  // What means nothing in any combination would be set aside in silence. Defaults may stand, as for the transport.
  void check_unused(const std::vector<Point>& all) {
    for (const Setting& given : settings_.fields) {
      const Field& field = *find_field(given.key);
      const std::string controlling = field.needs.substr(0, field.needs.find(':'));
      if (controlling.empty() || is_faulty(controlling) || given.values.empty() || given.origin == kDefault) continue;
      if (given.values == std::vector{field.get(Config{})}) continue;
      if (std::any_of(all.begin(), all.end(), [&](const Point& point) { return field.applies(point.config); }))
        continue;
      faults_.add(given.origin,
                  fmt::format("'{}' is {}, and means nothing here", given.key, shown(joined(given.values))),
                  fmt::format("leave it out, or set {} or the like", field.needs));
    }
  }

  void add_misfit(const Misfit& misfit) {
    const auto& keys = misfit.keys;
    if (std::any_of(keys.begin(), keys.end(), [&](const std::string& key) { return is_faulty(key); })) return;
    // The defaults fit each other, so one of the fields was given, or a preset was.
    std::string where = setting("model").origin;
    for (const std::string& key : keys) {
      if (setting(key).values.empty()) where = setting(find_field(key)->preset).origin;
    }
    for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
      const auto& [name, values, origin] = setting(*key);
      if (!values.empty() && origin != kDefault && origin != kDefaultOfOneRank) where = origin;
    }
    faults_.add(where, misfit.problem, misfit.fix);
  }

  static constexpr std::string_view kBaselinePrefix = "baseline.";

  const SettingsSources& sources_;
  Settings settings_;
  Faults faults_;
  std::set<std::string> faulty_;                                         // keys
  std::map<std::string, std::pair<std::string, std::string>> baseline_;  // key -> value, where
};

}  // namespace

const Setting& Settings::at(const std::string& key) const {
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const Setting& s) { return s.key == key; });
  if (found == fields.end())
    throw Error(ErrorKind::internal, fmt::format("there is no setting '{}'", key), "report this");
  return *found;
}

Settings load_settings(const SettingsSources& sources) {
  return Loader(sources).load();
}

}  // namespace mrb
