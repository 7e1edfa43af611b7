#include "config/fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>

#include "config/faults.hpp"
#include "config/grpo_presets.hpp"
#include "config/roles.hpp"

namespace mrb {

namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();
constexpr double kIntMax = std::numeric_limits<int>::max();
constexpr double kJsonIntegerMax = 9007199254740991.0;  // beyond it a double, and so JSON, skips whole numbers
constexpr std::size_t kTextMax = 4096;                  // the longest path that Linux takes

template <class T>
std::optional<T> parse_number(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The shortest text that gives the number back. YAML 1.1 takes 1e-06 for a word, and 1.0e-06 for a number.
template <class T>
std::string number_text(T value) {
  std::string text = fmt::format("{}", value);
  const std::size_t exponent = text.find('e');
  if (exponent != std::string::npos && text.find('.') == std::string::npos) text.insert(exponent, ".0");
  return text;
}

Field make_field(std::string key, FieldKind kind, std::string type, std::string sentence) {
  Field field;
  field.key = std::move(key);
  field.kind = kind;
  field.type = std::move(type);
  field.sentence = std::move(sentence);
  return field;
}

// A number in [low, high]. `access` gives the member: [](Config& c) -> int& { return c.ranks; }
template <class Access>
Field number(std::string key, FieldKind kind, double low, double high, std::string sentence, Access access) {
  using T = std::remove_reference_t<decltype(access(std::declval<Config&>()))>;
  Field field = make_field(std::move(key), kind, std::is_integral_v<T> ? "integer" : "number", std::move(sentence));
  field.low = low;
  if (high != kUnlimited) field.high = high;
  field.accepted = fmt::format("{}{}{}", std::is_integral_v<T> ? "a whole number, " : "", number_text(low),
                               high == kUnlimited ? " or more" : " to " + number_text(high));
  field.canonical = [low, high](const std::string& text) -> std::optional<std::string> {
    const auto value = parse_number<T>(text);
    if (!value || !std::isfinite(static_cast<double>(*value))) return std::nullopt;
    if (static_cast<double>(*value) < low || static_cast<double>(*value) > high) return std::nullopt;
    return number_text(*value == 0 ? T{0} : *value);  // and not -0
  };
  field.get = [access](const Config& config) { return number_text(access(const_cast<Config&>(config))); };
  field.set = [access](Config& config, const std::string& text) { access(config) = *parse_number<T>(text); };
  return field;
}

template <class Access>
void access_text(Field& field, Access access) {
  field.get = [access](const Config& config) { return access(const_cast<Config&>(config)); };
  field.set = [access](Config& config, const std::string& text) { access(config) = text; };
}

void accept_choices(Field& field, std::vector<std::string> choices) {
  for (const auto& name : choices) field.accepted += (field.accepted.empty() ? "one of: " : ", ") + name;
  field.canonical = [choices](const std::string& text) -> std::optional<std::string> {
    if (std::find(choices.begin(), choices.end(), text) == choices.end()) return std::nullopt;
    return text;
  };
  field.choices = std::move(choices);
}

template <class Access>
Field choice(std::string key, FieldKind kind, std::vector<std::string> choices, std::string sentence, Access access) {
  Field field = make_field(std::move(key), kind, "string", std::move(sentence));
  accept_choices(field, std::move(choices));
  access_text(field, access);
  return field;
}

// One of the names in a registry that is further down than this folder.
template <class Access>
Field name(std::string key, std::string sentence, Access access) {
  Field field = make_field(std::move(key), FieldKind::method, "string", std::move(sentence));
  field.names_section = true;
  field.accepted = "a name shown by moe-rl-bench list";
  field.canonical = [](const std::string& text) -> std::optional<std::string> {
    const bool is_name = !text.empty() && text.size() <= kTextMax && std::all_of(text.begin(), text.end(), [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
    });
    return is_name ? std::optional(text) : std::nullopt;
  };
  access_text(field, access);
  return field;
}

template <class Access>
Field text(std::string key, FieldKind kind, std::string sentence, Access access) {
  Field field = make_field(std::move(key), kind, "string", std::move(sentence));
  field.accepted = fmt::format("text of 1 to {} bytes of UTF-8", kTextMax);
  field.canonical = [](const std::string& given) -> std::optional<std::string> {
    if (given.empty() || given.size() > kTextMax || !is_printable(given)) return std::nullopt;
    return given;
  };
  access_text(field, access);
  return field;
}

template <class Access>
Field yes_or_no(std::string key, FieldKind kind, std::string sentence, Access access) {
  Field field = make_field(std::move(key), kind, "boolean", std::move(sentence));
  accept_choices(field, {"true", "false"});
  field.get = [access](const Config& config) { return access(const_cast<Config&>(config)) ? "true" : "false"; };
  field.set = [access](Config& config, const std::string& given) { access(config) = given == "true"; };
  return field;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const auto& preset : model_presets()) names.push_back(preset.shape.name);
  return names;
}

using Table = std::vector<Field>;
using enum FieldKind;

void add_model_fields(Table& table) {
  Field preset = choice("model", workload, preset_names(), "Preset whose shape is used; the keys below change it",
                        [](Config& c) -> std::string& { return c.model.name; });
  preset.names_section = true;
  preset.set = [](Config& config, const std::string& given) { config.model = *find_model_preset(given); };
  table.push_back(preset);

  const auto add = [&](const char* key, double low, double high, const char* sentence, auto member) {
    table.push_back(number(
        std::string("model.") + key, workload, low, high,
        sentence, [member](Config & c) -> auto& { return c.model.*member; }));
  };
  using M = ModelShape;
  add("layers", 1, 1000, "Layers", &M::layers);
  add("dense_layers", 0, 999, "How many of them, the first ones, have no experts", &M::dense_layers);
  add("hidden", 1, 65536, "Width of the hidden state", &M::hidden);
  add("heads", 1, 1024, "Query heads", &M::heads);
  add("kv_heads", 1, 1024, "Key-value heads; heads is a multiple of it", &M::kv_heads);
  add("head_dim", 2, 1024, "Width of a head, even", &M::head_dim);
  add("experts", 1, 4096, "Experts per layer, over all ranks", &M::experts);
  add("top_k", 1, 4096, "Experts that each token visits", &M::top_k);
  add("expert_ff", 1, 1048576, "Inner width of an expert", &M::expert_ff);
  add("shared_ff", 0, 1048576, "Inner width of the expert that every token visits; 0: none", &M::shared_ff);
  add("dense_ff", 0, 1048576, "Inner width of dense layers", &M::dense_ff);
  add("vocab", 8, 1048576, "Tokens of the vocabulary", &M::vocab);
  table.push_back(yes_or_no("model.tied_head", workload, "Whether the head is the transposed embedding",
                            [](Config& c) -> bool& { return c.model.tied_head; }));
  add("rope_theta", 1, 1e12, "Base of the rotary positions", &M::rope_theta);
  add("norm_eps", 1e-12, 1, "Added to the mean square in RMSNorm", &M::norm_eps);
  for (Field& field : table) {
    if (!field.key.starts_with("model.")) continue;
    field.preset = "model";
    field.default_in_words = "the preset's";
  }
}

void add_grpo_fields(Table& table) {
  const auto add = [&](const char* key, FieldKind kind, double low, double high, const char* sentence, auto member) {
    table.push_back(number(
        std::string("grpo.") + key, kind, low, high,
        sentence, [member](Config & c) -> auto& { return c.grpo.*member; }));
  };
  const auto pick = [&](const char* key, std::vector<std::string> choices, const char* sentence, auto member) {
    table.push_back(choice(
        std::string("grpo.") + key, workload, std::move(choices),
        sentence, [member](Config & c) -> auto& { return c.grpo.*member; }));
  };
  using G = GrpoConfig;
  const auto only_if = [&](const char* needs, bool (*holds)(const G&)) {
    table.back().needs = needs;
    table.back().applies = [holds](const Config& config) { return holds(config.grpo); };
  };
  const auto from_preset = [&](auto... keys) {
    for (const std::string key : {keys...}) {
      Field& field = *std::find_if(table.begin(), table.end(), [&](const Field& f) { return f.key == "grpo." + key; });
      field.preset = "grpo.preset";
      field.default_in_words = field.get(Config{}) + ", or the preset's";
    }
  };
  pick("preset", grpo_preset_names(), "Framework whose choices some of the keys below have unless given", &G::preset);
  table.back().set = [](Config& config, const std::string& given) { apply_grpo_preset(given, config.grpo); };
  add("prompts", workload, 1, 1048576, "Prompts per step, over all ranks", &G::prompts);
  add("group_size", workload, 1, 65536, "Answers sampled per prompt", &G::group_size);
  add("prompt_tokens", workload, 1, 1048576, "Length of each prompt", &G::prompt_tokens);
  add("response_tokens_max", workload, 1, 1048576, "No answer is longer", &G::response_tokens_max);
  pick("lengths", {"until_end", "fixed", "lognormal", "empirical"},
       "Answers end by their end token, or have response_tokens_max tokens, or a drawn number of them", &G::lengths);
  add("response_tokens_min", workload, 1, 1048576,
      "until_end: each answer's longest length is drawn from this to response_tokens_max", &G::response_tokens_min);
  only_if("grpo.lengths: until_end", [](const G& grpo) { return grpo.lengths == "until_end"; });
  add("length_mean", workload, 1, 1048576, "lognormal: mean, before response_tokens_max cuts", &G::length_mean);
  only_if("grpo.lengths: lognormal", [](const G& grpo) { return grpo.lengths == "lognormal"; });
  add("length_cv", workload, 0, 10, "lognormal: standard deviation over mean", &G::length_cv);
  only_if("grpo.lengths: lognormal", [](const G& grpo) { return grpo.lengths == "lognormal"; });
  add("length_correlation", workload, 0, 1,
      "lognormal, empirical: within a group, of the normal numbers behind the lengths", &G::length_correlation);
  only_if("grpo.lengths: lognormal",
          [](const G& grpo) { return grpo.lengths == "lognormal" || grpo.lengths == "empirical"; });
  table.push_back(text("grpo.length_file", workload, "empirical: path of a file with one length per line",
                       [](Config& c) -> std::string& { return c.grpo.length_file; }));
  only_if("grpo.lengths: empirical", [](const G& grpo) { return grpo.lengths == "empirical"; });
  table.back().default_in_words = "none";
  add("temperature", workload, 0.01, 100, "Of sampling and of log-probabilities", &G::temperature);
  add("overlong_tokens", workload, 0, 1048576,
      "The last so many tokens below response_tokens_max cost reward, up to 1; 0: none", &G::overlong_tokens);
  pick("advantage",
       {"grpo", "grpo_population", "dr_grpo", "leave_one_out", "leave_one_out_std", "pass_at_k", "batch_std"},
       "How answers of a group are compared", &G::advantage);
  add("advantage_eps", workload, 0, 1, "Added to the standard deviation", &G::advantage_eps);
  only_if("grpo.advantage: grpo",
          [](const G& grpo) { return grpo.advantage != "dr_grpo" && grpo.advantage != "leave_one_out"; });
  pick("objective", {"clip", "gspo", "cispo"}, "What is optimised: ratios by token, by answer, or as fixed weights",
       &G::objective);
  add("clip_low", workload, 0, 1, "The ratio is clipped below 1 - clip_low", &G::clip_low);
  add("clip_high", workload, 0, 100, "The ratio is clipped above 1 + clip_high", &G::clip_high);
  add("dual_clip", workload, 0, 1000, "clip: bound on the loss of bad answers, above 1; 0: none", &G::dual_clip);
  only_if("grpo.objective: clip", [](const G& grpo) { return grpo.objective == "clip"; });
  add("kl_coef", workload, 0, 1000, "Weight of the KL divergence from the initial policy", &G::kl_coef);
  pick("kl_estimator", {"k1", "k2", "k3", "k3_plus"}, "How the divergence is estimated", &G::kl_estimator);
  only_if("grpo.kl_coef: 0.001", [](const G& grpo) { return grpo.kl_coef > 0; });
  pick("aggregation",
       {"token_mean", "sequence_mean", "sequence_sum_mean", "constant_length_sum", "constant_length_mean"},
       "How tokens are averaged in the loss", &G::aggregation);
  pick("correction",
       {"none", "truncate_token", "truncate_sequence", "truncate_geometric", "mask_token", "mask_sequence",
        "mask_geometric", "decoupled"},
       "What corrects for the rollout's other log-probabilities", &G::correction);
  add("correction_low", workload, 0, 1, "Masks drop ratios below this", &G::correction_low);
  only_if("grpo.correction: mask_token", [](const G& grpo) { return grpo.correction.starts_with("mask"); });
  add("correction_high", workload, 1, 1e6, "Masks drop ratios above this; truncation cuts them to it",
      &G::correction_high);
  only_if("grpo.correction: truncate_token",
          [](const G& grpo) { return grpo.correction != "none" && grpo.correction != "decoupled"; });
  add("epochs", workload, 1, 1000, "Passes over the step's batch", &G::epochs);
  add("minibatches", workload, 1, 1048576, "Optimiser steps per pass", &G::minibatches);
  add("micro_batch_tokens", method, 1, kIntMax, "Most tokens a rank works on at once; a longer answer goes alone",
      &G::micro_batch_tokens);
  add("router_aux_coef", workload, 0, 1000, "Weight of the load-balancing loss", &G::router_aux_coef);
  add("reward_delay_ms", method, 0, 600000, "Slept in the phase reward of every step, as long as a slow verifier takes",
      &G::reward_delay_ms);
  table.back().applies = [](const Config& config) { return config.grpo.reward_delay_ms > 0; };
  from_preset("advantage", "advantage_eps", "clip_low", "clip_high", "dual_clip", "aggregation", "correction",
              "correction_low", "correction_high");
}

void add_optimizer_fields(Table& table) {
  const auto add = [&](const char* key, double low, double high, const char* sentence, auto member) {
    table.push_back(number(
        std::string("optimizer.") + key, workload, low, high,
        sentence, [member](Config & c) -> auto& { return c.optimizer.*member; }));
  };
  using O = OptimizerConfig;
  add("learning_rate", 0, 10, "Of AdamW", &O::learning_rate);
  add("beta1", 0, 0.9999, "Decay of the first moment", &O::beta1);
  add("beta2", 0, 0.99999, "Decay of the second moment", &O::beta2);
  add("eps", 1e-16, 1, "Added to the root of the second moment", &O::eps);
  add("weight_decay", 0, 10, "Decoupled weight decay", &O::weight_decay);
  add("clip_norm", 0, 1e6, "Largest norm of the whole gradient; 0: not clipped", &O::clip_norm);
}

void add_schedule_fields(Table& table) {
  Field schedule = choice("schedule", method, {"colocated", "disaggregated", "one_step_off", "async"},
                          "Which ranks generate and which train, and which side waits for which",
                          [](Config& c) -> std::string& { return c.schedule.name; });
  schedule.names_section = true;
  table.push_back(schedule);
  const auto apart = [](const Config& config) { return config.schedule.name != "colocated"; };
  const auto async = [](const Config& config) { return config.schedule.name == "async"; };

  Field ratio = make_field("schedule.rollout_train_ratio", method, "string",
                           "Ranks that generate to ranks that train, such as 3:1; the sides are apart");
  ratio.accepted = "two whole numbers with a colon, such as 3:1";
  ratio.canonical = [](const std::string& given) -> std::optional<std::string> {
    const Ratio parsed = parse_ratio(given);
    if (parsed.rollout == 0) return std::nullopt;
    return fmt::format("{}:{}", parsed.rollout, parsed.train);
  };
  access_text(ratio, [](Config& c) -> std::string& { return c.schedule.rollout_train_ratio; });
  ratio.applies = [apart](const Config& config) { return apart(config) && config.schedule.rollout_ranks == 0; };
  table.push_back(ratio);
  table.push_back(number("schedule.rollout_ranks", method, 0, 4095,
                         "Ranks that generate, the others train; 0: by rollout_train_ratio",
                         [](Config& c) -> int& { return c.schedule.rollout_ranks; }));
  table.back().applies = apart;
  table.push_back(number("schedule.max_staleness", method, 0, 64,
                         "async: updates that the weights may be behind when an answer is begun; bounds what is begun",
                         [](Config& c) -> int& { return c.schedule.max_staleness; }));
  table.back().applies = async;
  table.push_back(yes_or_no("schedule.in_flight", method,
                            "async: take new weights between two tokens, and the next step's prompts as room comes",
                            [](Config& c) -> bool& { return c.schedule.in_flight; }));
  table.back().applies = async;
  table.push_back(number("schedule.timeout_s", session, 1, 86400, "Longest wait of one side for the other",
                         [](Config& c) -> double& { return c.schedule.timeout_s; }));

  table.push_back(text("rollout.dispatcher", method, "Of the ranks that generate, when they are apart; same: as it is",
                       [](Config& c) -> std::string& { return c.rollout.dispatcher; }));
  table.back().applies = apart;
  table.push_back(number("rollout.expert_parallel", method, 0, 4096,
                         "Ranks that share one copy of the experts to generate; 0: all that generate",
                         [](Config& c) -> int& { return c.rollout.expert_parallel; }));
  table.back().applies = apart;
  table.push_back(number("rollout.kv_cache_bytes", method, 0, kJsonIntegerMax,
                         "Per rank; answers wait for room in it; 0: room for all answers of a step",
                         [](Config& c) -> std::int64_t& { return c.rollout.kv_cache_bytes; }));
  table.push_back(number("rollout.bucket_bytes", method, 4096, 1LL << 40,
                         "New weights travel to the ranks that generate in pieces of at most so many bytes",
                         [](Config& c) -> std::int64_t& { return c.rollout.bucket_bytes; }));
  table.back().applies = apart;
}

// The options of one dispatcher mean nothing to the others.
void add_dispatcher_fields(Table& table) {
  const auto of = [](std::initializer_list<const char*> names) {
    return [names = std::vector<std::string>(names.begin(), names.end())](const Config& config) {
      return std::find(names.begin(), names.end(), config.dispatcher.name) != names.end();
    };
  };
  // Rounding decides what is computed, so these are work, not method.
  const auto dtype = [&](const char* key, const char* sentence, std::string DispatcherConfig::*member) {
    table.push_back(choice(key, workload, {"f32", "bf16", "fp8", "fp8_pow2"}, sentence,
                           [member](Config& c) -> std::string& { return c.dispatcher.*member; }));
  };
  dtype("dispatcher.dispatch_dtype", "Of rows on the wire to the experts; fp8 is E4M3 with scales of 128 elements",
        &DispatcherConfig::dispatch_dtype);
  dtype("dispatcher.combine_dtype", "Of rows on their way back; sums are f32", &DispatcherConfig::combine_dtype);
  table.push_back(number("dispatcher.tokens_max", method, 0, 1 << 24,
                         "low_latency and proxy: most tokens of a rank in one call; 0: what the run needs",
                         [](Config& c) -> int& { return c.dispatcher.tokens_max; }));
  table.back().applies = of({"low_latency", "proxy"});
  table.push_back(choice("dispatcher.batching", method, {"token", "expert", "rank"},
                         "low_latency: the rows that go into one put",
                         [](Config& c) -> std::string& { return c.dispatcher.batching; }));
  table.back().applies = of({"low_latency"});
  table.push_back(choice("dispatcher.dedup", method, {"none", "rank", "node"},
                         "proxy: one row per copy, or one for all copies of a token on one rank or node",
                         [](Config& c) -> std::string& { return c.dispatcher.dedup; }));
  table.back().applies = of({"proxy"});
  table.push_back(number("dispatcher.prefix_rows", method, 0, 1 << 20,
                         "proxy: rows sent to each rank before the counts are known",
                         [](Config& c) -> int& { return c.dispatcher.prefix_rows; }));
  table.back().applies = of({"proxy"});
}

// Off, none of them decides anything.
void add_chaos_fields(Table& table) {
  const auto add = [&](const char* key, FieldKind kind, double low, double high, const char* sentence, auto member) {
    table.push_back(number(
        std::string("chaos.") + key, kind, low, high,
        sentence, [member](Config & c) -> auto& { return c.chaos.*member; }));
    table.back().applies = [](const Config& config) { return config.chaos.seed > 0; };
  };
  using C = ChaosConfig;
  add("seed", method, 0, kJsonIntegerMax, "Holds, reorders, splits and refuses puts at random, to test; 0: off",
      &C::seed);
  add("late_start_ms", method, 0, 60000, "Each rank starts up to so much late", &C::late_start_ms);
  add("stop_rank", method, -1, 4095, "This rank makes no progress any more after ...; -1: none", &C::stop_rank);
  add("stop_after_puts", method, 0, kJsonIntegerMax, "... so many puts of a launch", &C::stop_after_puts);
}

void add_method_fields(Table& table) {
  table.push_back(name("dispatcher", "Moves tokens to experts and back",
                       [](Config& c) -> std::string& { return c.dispatcher.name; }));
  add_dispatcher_fields(table);
  table.push_back(
      name("transport", "Moves bytes between ranks", [](Config& c) -> std::string& { return c.transport.name; }));
  table.back().default_in_words = "mpi; loopback for one rank";
  table.push_back(choice("transport.provider", method, {"tcp", "shm", "efa"},
                         "Provider of libfabric; what is asked for is used",
                         [](Config& c) -> std::string& { return c.transport.provider; }));
  const auto of_libfabric = [](const Config& config) { return config.transport.name == "libfabric"; };
  table.back().applies = of_libfabric;
  table.back().default_in_words = "none";
  table.push_back(number("transport.rails", method, 0, 64, "libfabric: network interfaces to use; 0: all there are",
                         [](Config& c) -> int& { return c.transport.rails; }));
  table.back().applies = of_libfabric;
  table.push_back(choice("transport.progress", method, {"poll", "thread"},
                         "libfabric: who polls it, the rank when it waits or a thread all the time",
                         [](Config& c) -> std::string& { return c.transport.progress; }));
  table.back().applies = of_libfabric;
  table.push_back(number("transport.timeout_s", session, 0.1, 86400, "Longest wait for any one message",
                         [](Config& c) -> double& { return c.transport.timeout_s; }));
  add_chaos_fields(table);
  table.push_back(name("compute", "Where the maths runs", [](Config& c) -> std::string& { return c.compute.name; }));
  table.push_back(choice("compute.dtype", workload, {"f32", "bf16"}, "Of the factors of matrix products; sums are f32",
                         [](Config& c) -> std::string& { return c.compute.dtype; }));
  table.push_back(number("compute.threads", method, 0, 4096, "Per rank; 0 shares this node's cores among its ranks",
                         [](Config& c) -> int& { return c.compute.threads; }));
}

void add_session_fields(Table& table) {
  const auto add = [&](const char* key, double low, double high, const char* sentence, auto member) {
    table.push_back(number(
        std::string("measure.") + key, session, low, high,
        sentence, [member](Config & c) -> auto& { return c.measure.*member; }));
  };
  using M = MeasureConfig;
  add("blocks", 1, 10000, "Blocks; each launches every variant twice, in the order A B B A", &M::blocks);
  add("warmup_steps", 0, 100000, "Steps of each launch that are not counted", &M::warmup_steps);
  add("steps", 1, 1000000, "Steps of each launch that are counted", &M::steps);
  add("time_limit_s", 0, kUnlimited, "Begin no block after this; 0: no limit", &M::time_limit_s);
  table.push_back(text("output.dir", session, "Each run makes a new folder in it",
                       [](Config& c) -> std::string& { return c.output.dir; }));
}

Table make_fields() {
  Table table;
  table.push_back(number("ranks", session, 1, 4096, "Processes, started by mpirun when there is more than one",
                         [](Config& c) -> int& { return c.ranks; }));
  table.push_back(number("ranks_per_node", method, 0, 4096,
                         "As the dispatchers see it; 0: as it is. Fewer than there are emulate more nodes",
                         [](Config& c) -> int& { return c.ranks_per_node; }));
  table.push_back(number("seed", session, 0, kJsonIntegerMax,
                         "Decides weights, prompts, lengths, sampling and the order of launches",
                         [](Config& c) -> std::uint64_t& { return c.seed; }));
  add_model_fields(table);
  add_grpo_fields(table);
  add_optimizer_fields(table);
  add_schedule_fields(table);
  add_method_fields(table);
  add_session_fields(table);
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

}  // namespace

std::string Field::flag() const {
  std::string flag = "--" + key;
  std::replace_if(
      flag.begin(), flag.end(), [](char c) { return c == '.' || c == '_'; }, '-');
  return flag;
}

std::string Field::variable() const {
  std::string variable = "MRB_" + key;
  for (char& c : variable) c = c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return variable;
}

const std::vector<Field>& fields() {
  static const Table table = make_fields();
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
  const auto beginning = word.substr(0, 100);  // longer than any name: what follows makes no difference
  return *std::min_element(words.begin(), words.end(), [&](const std::string& a, const std::string& b) {
    return edit_distance(beginning, a) < edit_distance(beginning, b);
  });
}

std::string nearest_key(std::string_view key) {
  std::vector<std::string> keys = {"baseline"};
  for (const Field& field : fields()) keys.push_back(field.key);
  return nearest(key, keys);
}

}  // namespace mrb
