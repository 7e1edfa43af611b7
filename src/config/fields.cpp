#include "config/fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>

namespace mrb {

namespace {

template <class T>
std::optional<T> parse_number(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

// A number in [low, high]. `Access` gives the member: [](Config& c) -> int& { return c.ranks; }
template <class Access>
Field number(std::string key, FieldKind kind, double low, double high, std::string sentence, Access access) {
  using T = std::remove_reference_t<decltype(access(std::declval<Config&>()))>;
  Field field;
  field.key = std::move(key);
  field.kind = kind;
  field.sentence = std::move(sentence);
  field.type = std::is_integral_v<T> ? "integer" : "number";
  field.low = low;
  field.high = high;
  const std::string_view whole = std::is_integral_v<T> ? "a whole number, " : "";
  field.accepted = high == std::numeric_limits<double>::infinity() ? fmt::format("{}{} or more", whole, low)
                                                                   : fmt::format("{}{} to {}", whole, low, high);
  field.canonical = [low, high](const std::string& text) -> std::optional<std::string> {
    const auto value = parse_number<T>(text);
    if (!value || !std::isfinite(static_cast<double>(*value))) return std::nullopt;
    if (static_cast<double>(*value) < low || static_cast<double>(*value) > high) return std::nullopt;
    return fmt::format("{}", *value);
  };
  field.get = [access](const Config& config) { return fmt::format("{}", access(const_cast<Config&>(config))); };
  field.set = [access](Config& config, const std::string& text) { access(config) = *parse_number<T>(text); };
  return field;
}

template <class Access>
Field choice(std::string key, FieldKind kind, std::vector<std::string> choices, std::string sentence, Access access) {
  Field field;
  field.key = std::move(key);
  field.kind = kind;
  field.sentence = std::move(sentence);
  field.type = "string";
  for (const auto& name : choices) field.accepted += (field.accepted.empty() ? "one of: " : ", ") + name;
  if (choices.empty()) field.accepted = "text";
  field.canonical = [choices](const std::string& text) -> std::optional<std::string> {
    if (choices.empty() || std::find(choices.begin(), choices.end(), text) != choices.end()) return text;
    return std::nullopt;
  };
  field.choices = std::move(choices);
  field.get = [access](const Config& config) { return access(const_cast<Config&>(config)); };
  field.set = [access](Config& config, const std::string& text) { access(config) = text; };
  return field;
}

template <class Access>
Field yes_or_no(std::string key, FieldKind kind, std::string sentence, Access access) {
  Field field = choice(std::move(key), kind, {"true", "false"}, std::move(sentence),
                       [](Config& config) -> std::string& { return config.model.name; });
  field.type = "boolean";
  field.get = [access](const Config& config) { return access(const_cast<Config&>(config)) ? "true" : "false"; };
  field.set = [access](Config& config, const std::string& text) { access(config) = text == "true"; };
  return field;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const auto& preset : model_presets()) names.push_back(preset.shape.name);
  return names;
}

constexpr double kNoLimit = std::numeric_limits<double>::infinity();
constexpr double kInt = std::numeric_limits<int>::max();

void add_model_fields(std::vector<Field>& table) {
  using enum FieldKind;
  Field name = choice("model", workload, preset_names(), "Preset whose shape is used; the keys below change it",
                      [](Config& c) -> std::string& { return c.model.name; });
  name.names_section = true;
  name.set = [](Config& config, const std::string& text) { config.model = *find_model_preset(text); };
  table.push_back(name);
  const auto size = [&](const char* key, double low, double high, const char* sentence, auto access) {
    table.push_back(number(std::string("model.") + key, workload, low, high, sentence, access));
  };
  size("layers", 1, 1000, "Layers", [](Config& c) -> int& { return c.model.layers; });
  size("dense_layers", 0, 1000, "How many of them, the first ones, have no experts", [](Config& c) -> int& { return c.model.dense_layers; });
  size("hidden", 1, 65536, "Width of the hidden state", [](Config& c) -> int& { return c.model.hidden; });
  size("heads", 1, 1024, "Query heads", [](Config& c) -> int& { return c.model.heads; });
  size("kv_heads", 1, 1024, "Key-value heads; heads is a multiple of it", [](Config& c) -> int& { return c.model.kv_heads; });
  size("head_dim", 2, 1024, "Width of a head, even", [](Config& c) -> int& { return c.model.head_dim; });
  size("experts", 1, 4096, "Experts per layer, over all ranks", [](Config& c) -> int& { return c.model.experts; });
  size("top_k", 1, 4096, "Experts that each token visits", [](Config& c) -> int& { return c.model.top_k; });
  size("expert_ff", 1, 1048576, "Inner width of an expert", [](Config& c) -> int& { return c.model.expert_ff; });
  size("shared_ff", 0, 1048576, "Inner width of the expert that every token visits; 0: none", [](Config& c) -> int& { return c.model.shared_ff; });
  size("dense_ff", 0, 1048576, "Inner width of dense layers", [](Config& c) -> int& { return c.model.dense_ff; });
  size("vocab", 8, 1048576, "Tokens of the vocabulary", [](Config& c) -> int& { return c.model.vocab; });
  table.push_back(yes_or_no("model.tied_head", workload, "The head is the transposed embedding", [](Config& c) -> bool& { return c.model.tied_head; }));
  size("rope_theta", 1, 1e12, "Base of the rotary positions", [](Config& c) -> double& { return c.model.rope_theta; });
  size("norm_eps", 1e-12, 1, "Added to the mean square in RMSNorm", [](Config& c) -> double& { return c.model.norm_eps; });
}

void add_grpo_fields(std::vector<Field>& table) {
  using enum FieldKind;
  const auto add = [&](const char* key, FieldKind kind, double low, double high, const char* sentence, auto access) {
    table.push_back(number(std::string("grpo.") + key, kind, low, high, sentence, access));
  };
  const auto pick = [&](const char* key, std::vector<std::string> choices, const char* sentence, auto access) {
    table.push_back(choice(std::string("grpo.") + key, workload, std::move(choices), sentence, access));
  };
  add("prompts", workload, 1, 1048576, "Prompts per step, over all ranks", [](Config& c) -> int& { return c.grpo.prompts; });
  add("group_size", workload, 1, 65536, "Answers sampled per prompt", [](Config& c) -> int& { return c.grpo.group_size; });
  add("prompt_tokens", workload, 1, 1048576, "Length of each prompt", [](Config& c) -> int& { return c.grpo.prompt_tokens; });
  add("response_tokens_min", workload, 1, 1048576, "Each answer's longest length is drawn from this ...", [](Config& c) -> int& { return c.grpo.response_tokens_min; });
  add("response_tokens_max", workload, 1, 1048576, "... to this; it may end before, by its end token", [](Config& c) -> int& { return c.grpo.response_tokens_max; });
  add("temperature", workload, 0.01, 100, "Of sampling and of log-probabilities", [](Config& c) -> double& { return c.grpo.temperature; });
  pick("advantage", {"grpo", "grpo_population", "dr_grpo", "leave_one_out"}, "How answers of a group are compared", [](Config& c) -> std::string& { return c.grpo.advantage; });
  add("advantage_eps", workload, 0, 1, "Added to the group's standard deviation", [](Config& c) -> double& { return c.grpo.advantage_eps; });
  add("clip_low", workload, 0, 1, "The ratio is clipped below 1 - clip_low", [](Config& c) -> double& { return c.grpo.clip_low; });
  add("clip_high", workload, 0, 100, "The ratio is clipped above 1 + clip_high", [](Config& c) -> double& { return c.grpo.clip_high; });
  add("dual_clip", workload, 0, 1000, "Bound on the loss of bad answers; 0: none", [](Config& c) -> double& { return c.grpo.dual_clip; });
  add("kl_coef", workload, 0, 1000, "Weight of the k3 estimate against the initial policy", [](Config& c) -> double& { return c.grpo.kl_coef; });
  pick("aggregation", {"token_mean", "sequence_mean"}, "How tokens are averaged in the loss", [](Config& c) -> std::string& { return c.grpo.aggregation; });
  add("epochs", workload, 1, 1000, "Passes over the step's batch", [](Config& c) -> int& { return c.grpo.epochs; });
  add("minibatches", workload, 1, 1048576, "Optimiser steps per pass", [](Config& c) -> int& { return c.grpo.minibatches; });
  add("micro_batch_tokens", method, 1, kInt, "Most tokens whose activations a rank holds at once", [](Config& c) -> int& { return c.grpo.micro_batch_tokens; });
  add("router_aux_coef", workload, 0, 1000, "Weight of the load-balancing loss", [](Config& c) -> double& { return c.grpo.router_aux_coef; });
}

void add_optimizer_fields(std::vector<Field>& table) {
  using enum FieldKind;
  const auto add = [&](const char* key, double low, double high, const char* sentence, auto access) {
    table.push_back(number(std::string("optimizer.") + key, workload, low, high, sentence, access));
  };
  add("learning_rate", 0, 10, "Of AdamW", [](Config& c) -> double& { return c.optimizer.learning_rate; });
  add("beta1", 0, 0.9999, "Decay of the first moment", [](Config& c) -> double& { return c.optimizer.beta1; });
  add("beta2", 0, 0.99999, "Decay of the second moment", [](Config& c) -> double& { return c.optimizer.beta2; });
  add("eps", 1e-16, 1, "Added to the root of the second moment", [](Config& c) -> double& { return c.optimizer.eps; });
  add("weight_decay", 0, 10, "Decoupled weight decay", [](Config& c) -> double& { return c.optimizer.weight_decay; });
  add("clip_norm", 0, 1e6, "Largest norm of the whole gradient; 0: not clipped", [](Config& c) -> double& { return c.optimizer.clip_norm; });
}

std::vector<Field> make_fields() {
  using enum FieldKind;
  std::vector<Field> table;
  table.push_back(number("ranks", session, 1, 4096, "Processes, started by mpirun when there is more than one", [](Config& c) -> int& { return c.ranks; }));
  table.push_back(number("seed", session, 0, 9007199254740992.0, "Decides weights, prompts, lengths, sampling and the order of launches", [](Config& c) -> std::uint64_t& { return c.seed; }));
  add_model_fields(table);
  add_grpo_fields(table);
  add_optimizer_fields(table);
  table.push_back(choice("dispatcher", method, {}, "Moves tokens to experts and back", [](Config& c) -> std::string& { return c.dispatcher.name; }));
  table.back().names_section = true;
  table.push_back(choice("transport", method, {}, "Moves bytes between ranks", [](Config& c) -> std::string& { return c.transport.name; }));
  table.back().names_section = true;
  table.push_back(choice("transport.provider", method, {"", "tcp", "shm", "efa"}, "Provider of libfabric: tcp, shm or efa; what is asked for is used", [](Config& c) -> std::string& { return c.transport.provider; }));
  table.back().applies = [](const Config& config) { return config.transport.name == "libfabric"; };
  table.back().accepted = "one of: tcp, shm, efa";
  table.push_back(number("transport.timeout_s", session, 0.1, 86400, "Longest wait for any one message", [](Config& c) -> double& { return c.transport.timeout_s; }));
  table.push_back(choice("compute", method, {}, "Where the maths runs", [](Config& c) -> std::string& { return c.compute.name; }));
  table.back().names_section = true;
  table.push_back(choice("compute.dtype", workload, {"f32", "bf16"}, "Of the factors of matrix products; sums are f32", [](Config& c) -> std::string& { return c.compute.dtype; }));
  table.push_back(number("compute.threads", method, 0, 4096, "Per rank; 0 shares this node's cores among its ranks", [](Config& c) -> int& { return c.compute.threads; }));
  table.push_back(number("measure.blocks", session, 1, 10000, "Blocks; each launches every variant twice, in the order A B B A", [](Config& c) -> int& { return c.measure.blocks; }));
  table.push_back(number("measure.warmup_steps", session, 0, 100000, "Steps of each launch that are not counted", [](Config& c) -> int& { return c.measure.warmup_steps; }));
  table.push_back(number("measure.steps", session, 1, 1000000, "Steps of each launch that are counted", [](Config& c) -> int& { return c.measure.steps; }));
  table.push_back(number("measure.time_limit_s", session, 0, kNoLimit, "Begin no block after this; 0: no limit", [](Config& c) -> double& { return c.measure.time_limit_s; }));
  table.push_back(choice("output.dir", session, {}, "Each run makes a new folder in it", [](Config& c) -> std::string& { return c.output.dir; }));
  return table;
}

// Levenshtein's distance.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::string upper_with_underscores(std::string text) {
  for (char& c : text) c = c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

std::string Field::flag() const {
  std::string text = "--" + key;
  std::replace_if(text.begin(), text.end(), [](char c) { return c == '.' || c == '_'; }, '-');
  return text;
}

std::string Field::variable() const { return "MRB_" + upper_with_underscores(key); }

const std::vector<Field>& fields() {
  static const std::vector<Field> table = make_fields();
  return table;
}

const Field* find_field(std::string_view key) {
  const auto& table = fields();
  const auto found = std::find_if(table.begin(), table.end(), [&](const Field& field) {
    return field.key == key || (field.names_section && field.key + ".name" == key);
  });
  return found == table.end() ? nullptr : &*found;
}

std::string nearest(std::string_view word, const std::vector<std::string>& words) {
  const auto longest = word.substr(0, 100);  // longer than any name: what follows makes no difference
  return *std::min_element(words.begin(), words.end(), [&](const std::string& a, const std::string& b) {
    return edit_distance(longest, a) < edit_distance(longest, b);
  });
}

std::string nearest_key(std::string_view key) {
  std::vector<std::string> keys = {"baseline"};
  for (const Field& field : fields()) keys.push_back(field.key);
  return nearest(key, keys);
}

}  // namespace mrb
