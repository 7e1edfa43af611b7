#include "config/settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "base/error.hpp"
#include "config/expand.hpp"
#include "config/faults.hpp"
#include "config/fields.hpp"
#include "config/list_syntax.hpp"
#include "config/yaml_reader.hpp"

namespace mrb {

namespace {

constexpr std::size_t kValuesMax = 1000;

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// Gathers settings from weak to strong; what is wrong anywhere is a fault, also where something stronger overrides it.
class Loader {
 public:
  explicit Loader(const SettingsSources& sources) : sources_(sources) {
    for (const Field& field : fields()) settings_.fields.push_back({field.key, {}, "default"});
  }

  Settings load() {
    if (!sources_.file.empty()) {
      for (const YamlEntry& entry : read_yaml(sources_.file, faults_)) take(entry.key, entry.values, entry.is_list, entry.where, entry.where);
    }
    take_environment();
    for (const std::string& set : sources_.sets) take_set(set);
    for (const auto& [key, value] : sources_.flags) take(key, {value}, false, find_field(key)->flag(), find_field(key)->flag());
    settle_ranks();
    fill_in_defaults();
    check_baseline();
    check_points();
    faults_.report();
    return std::move(settings_);
  }

 private:
  Setting& setting(const std::string& key) {
    return *std::find_if(settings_.fields.begin(), settings_.fields.end(), [&](const Setting& s) { return s.key == key; });
  }

  void take(std::string key, const std::vector<std::string>& texts, bool is_list, const std::string& where,
            const std::string& origin) {
    if (key.starts_with("baseline.")) {
      key.erase(0, 9);
      if (texts.size() != 1) {
        faults_.add(where, fmt::format("the baseline's '{}' has {} values", key, texts.size()), "give the one to compare with");
        return;
      }
      baseline_[key] = {texts[0], where};
      return;
    }
    const Field* field = find_field(key);
    if (field == nullptr) {
      faults_.add(where, fmt::format("there is no key '{}'", shown(key)), fmt::format("did you mean '{}'?", nearest_key(key)));
      return;
    }
    std::vector<std::string> values;
    for (const std::string& text : is_list || field->is_axis() ? expanded(*field, texts, is_list, where) : texts) {
      if (const auto value = canonical(*field, text, where)) values.push_back(*value);
    }
    if (!field->is_axis() && values.size() > 1) {
      faults_.add(where, fmt::format("'{}' has {} values: {}", key, values.size(), shown(joined(values))),
                  "give one: it holds for the whole run and is no axis");
      return;
    }
    std::vector<std::string> unique;
    for (const std::string& value : values) {
      if (std::find(unique.begin(), unique.end(), value) == unique.end()) unique.push_back(value);
    }
    if (!unique.empty()) {
      setting(field->key).values = unique;
      setting(field->key).origin = origin;
    }
  }

  std::vector<std::string> expanded(const Field& field, const std::vector<std::string>& texts, bool is_list,
                                    const std::string& where) {
    if (is_list) return texts;
    const auto values = split_list(texts[0], kValuesMax);
    if (values) return *values;
    faults_.add(where, fmt::format("'{}' is a range that goes nowhere or has more than {} values: {}", field.key, kValuesMax, shown(texts[0])),
                "write ranges like 1-8*2 (1 2 4 8) or 8-64+8 (8 16 ... 64)");
    return {};
  }

  std::optional<std::string> canonical(const Field& field, const std::string& text, const std::string& where) {
    const auto missing = sources_.left_out.find(field.key);
    if (missing != sources_.left_out.end() && missing->second.contains(text)) {
      faults_.add(where, fmt::format("{} '{}' was left out of this build", field.key, text),
                  fmt::format("configure with -DMRB_WITH_{}=ON and build again", missing->second.at(text)));
      return std::nullopt;
    }
    auto choices = field.choices;
    const auto known = sources_.choices.find(field.key);
    if (known != sources_.choices.end()) choices = known->second;
    auto value = field.canonical(text);
    if (value && known != sources_.choices.end() && std::find(choices.begin(), choices.end(), *value) == choices.end()) value.reset();
    if (value) return value;
    const std::string accepted = known == sources_.choices.end() ? field.accepted : "one of: " + joined(choices);
    std::string fix = fmt::format("give {}", accepted);
    if (!choices.empty()) fix = fmt::format("did you mean '{}'? It is {}", nearest(text, choices), accepted);
    faults_.add(where, fmt::format("'{}' cannot be '{}'", field.key, shown(text)), fix);
    return std::nullopt;
  }

  void take_environment() {
    for (const auto& [name, value] : sources_.environment) {
      if (!name.starts_with("MRB_")) continue;
      const auto& table = fields();
      const auto field = std::find_if(table.begin(), table.end(), [&, n = name](const Field& f) { return f.variable() == n; });
      if (field != table.end()) {
        take(field->key, {value}, false, name, name);
        continue;
      }
      std::vector<std::string> names;
      for (const Field& f : table) names.push_back(f.variable());
      faults_.add(name, "this variable sets nothing", fmt::format("did you mean {}? Unset it otherwise", nearest(name, names)));
    }
  }

  void take_set(const std::string& set) {
    const std::size_t equals = set.find('=');
    if (equals == std::string::npos || equals == 0) {
      faults_.add("--set " + shown(set), "there is no '=' behind a key", "write it like --set grpo.prompts=32");
      return;
    }
    const std::string origin = "--set " + shown(set.substr(0, equals));
    take(set.substr(0, equals), {set.substr(equals + 1)}, false, origin, origin);
  }

  void settle_ranks() {
    Setting& ranks = setting("ranks");
    if (!sources_.world_size) return;
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
    const bool one_rank = setting("ranks").values.empty() || setting("ranks").values[0] == "1";
    for (const Field& field : fields()) {
      Setting& setting_here = setting(field.key);
      if (!setting_here.values.empty()) continue;
      if (field.is_model_override()) {
        setting_here.origin = "the model preset";
        continue;
      }
      setting_here.values = {field.get(defaults)};
      if (field.key == "transport" && one_rank) {
        setting_here.values = {"loopback"};
        setting_here.origin = "default for one rank";
      }
    }
    const auto& transports = setting("transport").values;
    const Setting& provider = setting("transport.provider");
    if (provider.origin != "default" && std::find(transports.begin(), transports.end(), "libfabric") == transports.end()) {
      faults_.add(provider.origin, fmt::format("'transport.provider' is {}, and the transport is {}", joined(provider.values), joined(transports)),
                  "leave it out, or use transport: libfabric");
    }
  }

  void check_baseline() {
    for (const auto& [key, given] : baseline_) {
      const Field* field = find_field(key);
      if (field == nullptr || field->kind != FieldKind::method) {
        std::vector<std::string> names;
        for (const Field& f : fields()) {
          if (f.kind == FieldKind::method) names.push_back(f.key);
        }
        faults_.add(given.second, fmt::format("the baseline cannot name '{}'", shown(key)),
                    fmt::format("did you mean '{}'? A baseline names: {}", nearest(key, names), joined(names)));
        continue;
      }
      const auto& values = setting(field->key).values;
      const auto value = field->canonical(given.first);
      if (!value || std::find(values.begin(), values.end(), *value) == values.end()) {
        faults_.add(given.second, fmt::format("the baseline's '{}' is '{}', which is not among its values", key, shown(given.first)),
                    fmt::format("use one of: {}", joined(values)));
        continue;
      }
      settings_.baseline[field->key] = *value;
    }
  }

  // Where the first of these keys that the user gave stands; the defaults fit each other.
  std::string where(std::initializer_list<const char*> keys) {
    for (const char* key : keys) {
      const std::string& origin = setting(key).origin;
      if (origin != "default" && origin != "the model preset") return origin;
    }
    return setting("model").origin == "default" ? "defaults" : setting("model").origin;
  }

  void check_points() {
    std::size_t points = 1;
    for (const Setting& s : settings_.fields) {
      points *= std::max<std::size_t>(1, s.values.size());
      if (points > kPointsMax) {
        faults_.add("configuration", fmt::format("the lists give more than {} combinations", kPointsMax), "give fewer or shorter lists");
        return;
      }
    }
    for (const Point& point : expand(settings_)) check(point.config);
  }

  void check(const Config& c) {
    const ModelShape& m = c.model;
    if (m.top_k > m.experts) {
      faults_.add(where({"model.top_k", "model.experts"}), fmt::format("top_k is {}, and there are {} experts", m.top_k, m.experts),
                  fmt::format("use a top_k of 1 to {}", m.experts));
    }
    if (m.experts % c.ranks != 0) {
      std::vector<std::string> fitting;
      for (int ranks = 1; ranks <= m.experts; ++ranks) {
        if (m.experts % ranks == 0) fitting.push_back(std::to_string(ranks));
      }
      faults_.add(where({"ranks", "model.experts"}), fmt::format("{} experts do not divide over {} ranks", m.experts, c.ranks),
                  fmt::format("use one of: {} ranks", joined(fitting)));
    }
    if (m.dense_layers >= m.layers) {
      faults_.add(where({"model.dense_layers", "model.layers"}), fmt::format("all {} layers are dense", m.layers), fmt::format("use dense_layers of 0 to {}", m.layers - 1));
    }
    if (m.dense_layers > 0 && m.dense_ff == 0) {
      faults_.add(where({"model.dense_layers", "model.dense_ff"}), fmt::format("{} layers are dense, and dense_ff is 0", m.dense_layers), "give model.dense_ff a width");
    }
    if (m.heads % m.kv_heads != 0) {
      faults_.add(where({"model.heads", "model.kv_heads"}), fmt::format("{} heads do not divide over {} kv_heads", m.heads, m.kv_heads), "make heads a multiple of kv_heads");
    }
    if (m.head_dim % 2 != 0) {
      faults_.add(where({"model.head_dim"}), fmt::format("head_dim is {}, and rotary positions turn pairs", m.head_dim), "make it even");
    }
    const GrpoConfig& g = c.grpo;
    if (g.response_tokens_min > g.response_tokens_max) {
      faults_.add(where({"grpo.response_tokens_min", "grpo.response_tokens_max"}),
                  fmt::format("response_tokens_min is {}, above response_tokens_max of {}", g.response_tokens_min, g.response_tokens_max), "make the smaller one the minimum");
    }
    if (std::int64_t{g.minibatches} > std::int64_t{g.prompts} * g.group_size) {
      faults_.add(where({"grpo.minibatches", "grpo.prompts", "grpo.group_size"}),
                  fmt::format("{} minibatches of {} answers leave some empty", g.minibatches, std::int64_t{g.prompts} * g.group_size), "use fewer minibatches, or more prompts");
    }
    if (!sources_.for_run) return;
    if (m.attention != "gqa") {
      faults_.add(where({"model"}), fmt::format("model '{}' has {} attention, which cannot be run here", m.name, m.attention),
                  "use a model with grouped-query attention, such as small or qwen3-30b-a3b");
    }
    if (c.transport.name == "libfabric" && c.transport.provider.empty()) {
      faults_.add(where({"transport.provider", "transport"}), "transport 'libfabric' needs a provider, and there is no default", "set transport.provider to tcp, shm or efa");
    }
  }

  const SettingsSources& sources_;
  Settings settings_;
  Faults faults_;
  std::map<std::string, std::pair<std::string, std::string>> baseline_;  // key -> value, where
};

}  // namespace

const Setting& Settings::at(const std::string& key) const {
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const Setting& s) { return s.key == key; });
  if (found == fields.end()) throw Error(ErrorKind::internal, fmt::format("there is no setting '{}'", key), "report this");
  return *found;
}

Settings load_settings(const SettingsSources& sources) { return Loader(sources).load(); }

}  // namespace mrb
