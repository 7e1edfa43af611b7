#include "grpo/learner.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <vector>

#include "compute/optimizer.hpp"
#include "grpo/advantages.hpp"
#include "grpo/batch.hpp"
#include "grpo/batch_loss.hpp"
#include "model/policy.hpp"
#include "transport/collectives.hpp"

namespace mrb {

namespace {

// What is added up over ranks at the end of a step. All are sums, so that one reduction does.
struct StepSums {
  double first_loss = 0;
  double losses = 0;  // of all optimiser steps
  double reward = 0;
  double kl = 0;
  double clipped = 0;
  double log_prob = 0;
  double log_prob_gap = 0;
  double answer_tokens = 0;
  double age = 0;                  // of answers
  double full = 0;                 // answers of their longest length
  double checksum_pieces[4] = {};  // 16 bits each: sums of them are exact in a double
};
static_assert(sizeof(StepSums) % sizeof(double) == 0);

std::span<double> numbers_of(StepSums& sums) {
  return {reinterpret_cast<double*>(&sums), sizeof(StepSums) / sizeof(double)};
}

// FNV-1a over an answer and its place; the step's checksum is the sum over answers, in whatever order.
std::uint64_t checksum(const Trajectory& answer) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  const auto mix = [&](std::int64_t value) { hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x100000001b3u; };
  mix(answer.sequence);
  for (const std::int32_t token : answer.prompt) mix(token);
  for (const std::int32_t token : answer.answer) mix(token);
  return hash;
}

std::uint64_t checksum_from(const double (&pieces)[4]) {
  std::uint64_t sum = 0;
  for (int i = 0; i < 4; ++i) sum += static_cast<std::uint64_t>(pieces[i]) << (16 * i);
  return sum;
}

std::vector<const Trajectory*> pointers(const std::vector<Trajectory>& answers) {
  std::vector<const Trajectory*> all;
  for (const Trajectory& answer : answers) all.push_back(&answer);
  return all;
}

}  // namespace

struct Learner::State {
  State(const Config& given, LearnerParts learner_parts)
      : config(given),
        parts(learner_parts),
        rank(parts.channel.rank()),
        ranks(parts.channel.size()),
        phases(parts.phases),
        collectives(parts.channel),
        placement{config.model.experts, ranks},
        policy(config.model, placement, rank, config.seed, policy_parts()),
        first_moments(parts.compute, 1, size_of(policy.parameters().weights())),
        second_moments(parts.compute, 1, first_moments.view().columns) {
    first_moments.zero();
    second_moments.zero();
    if (config.grpo.kl_coef > 0) reference.emplace(config.model, placement, rank, config.seed, policy_parts());
  }

  PolicyParts policy_parts() { return {parts.compute, parts.dispatcher, phases}; }
  static std::int64_t size_of(std::span<const float> values) { return static_cast<std::int64_t>(values.size()); }

  StepResult learn(int step, std::vector<Trajectory>& answers);
  void count(const std::vector<Trajectory>&);
  void score(Policy&, std::vector<Trajectory>&, std::vector<float> Trajectory::*log_probs);
  void advantages(std::vector<Trajectory>&);
  std::vector<double> of_all_ranks(const std::vector<Trajectory>&, double (*number)(const Trajectory&));
  void share_router_load();
  void train(const std::vector<Trajectory>&, const std::vector<int>& sequences);
  std::vector<float> token_losses(const MicroBatch&, std::span<const float> new_log_probs, std::int64_t batch_tokens,
                                  std::int64_t batch_sequences, double& loss);
  std::vector<std::vector<float>> balance_gradient(std::int64_t batch_tokens, std::int64_t batch_sequences) const;
  void reduce_gradients();
  void update_weights();
  std::size_t agreed_count(std::size_t mine) {
    return static_cast<std::size_t>(collectives.all_reduce_max(static_cast<std::int64_t>(mine)));
  }

  Config config;
  LearnerParts parts;
  int rank;
  int ranks;
  PhaseClock& phases;
  Collectives collectives;
  ExpertPlacement placement;
  Policy policy;
  std::optional<Policy> reference;  // the initial policy, when the loss looks at it
  Tensor first_moments;
  Tensor second_moments;
  std::int64_t optimizer_steps = 0;

  // Of the step at hand:
  StepSums sums;
  int updates_this_step = 0;
  double gradient_norm = 0;
  std::int64_t age_max = 0;
  std::vector<double> answer_lengths;            // of all ranks' answers, by sequence
  std::vector<std::vector<double>> router_load;  // copies of all ranks, in the pass that gave the old log-probabilities
};

Learner::Learner(const Config& config, LearnerParts parts) : state_(std::make_unique<State>(config, parts)) {}
Learner::~Learner() = default;
Policy& Learner::policy() {
  return state_->policy;
}
StepResult Learner::learn(int step, std::vector<Trajectory> answers) {
  return state_->learn(step, answers);
}

StepResult Learner::State::learn(int step, std::vector<Trajectory>& answers) {
  const GrpoConfig& grpo = config.grpo;
  const int sequences = grpo.prompts * grpo.group_size;
  sums = {};
  updates_this_step = 0;

  count(answers);
  {
    const PhaseClock::Scope phase(phases, "log_probs");
    policy.take_router_load();
    score(policy, answers, &Trajectory::old_log_probs);
    if (config.grpo.router_aux_coef > 0) share_router_load();
  }
  if (reference) {
    const PhaseClock::Scope phase(phases, "reference_log_probs");
    score(*reference, answers, &Trajectory::reference_log_probs);
  }
  advantages(answers);
  for (int epoch = 0; epoch < grpo.epochs; ++epoch) {
    for (const auto& minibatch : draw_minibatches(config.seed, step, epoch, sequences, grpo.minibatches)) {
      train(answers, minibatch);
    }
  }

  StepResult result;
  {
    const PhaseClock::Scope phase(phases, "idle");
    collectives.all_reduce_sum(numbers_of(sums));
    age_max = collectives.all_reduce_max(age_max);
  }
  const double trained_tokens = sums.answer_tokens * grpo.epochs;
  result.step = step;
  result.loss = sums.first_loss;
  result.loss_mean = sums.losses / (grpo.epochs * grpo.minibatches);
  result.reward_mean = sums.reward / sequences;
  result.kl_mean = sums.kl / trained_tokens;
  result.clip_ratio = sums.clipped / trained_tokens;
  result.gradient_norm = gradient_norm;
  result.log_prob_mean = sums.log_prob / sums.answer_tokens;
  result.log_prob_gap = sums.log_prob_gap / sums.answer_tokens;
  result.prompt_tokens = std::int64_t{grpo.prompts} * grpo.prompt_tokens;
  result.response_tokens = std::llround(sums.answer_tokens);
  result.trained_tokens = std::llround(trained_tokens);
  result.token_checksum = checksum_from(sums.checksum_pieces);
  result.age_mean = sums.age / sequences;
  result.age_max = static_cast<int>(age_max);
  result.full_ratio = sums.full / sequences;
  return result;
}

// What is known of the answers before any of them is trained.
void Learner::State::count(const std::vector<Trajectory>& answers) {
  const PhaseClock::Scope phase(phases, "advantages");
  age_max = 0;
  for (const Trajectory& answer : answers) {
    const int age = answer.step - answer.first_version;
    age_max = std::max<std::int64_t>(age_max, age);
    sums.age += age;
    sums.full += static_cast<int>(answer.answer.size()) == answer.longest ? 1 : 0;
    sums.reward += answer.reward;
    sums.answer_tokens += static_cast<double>(answer.answer.size());
    const std::uint64_t hash = checksum(answer);
    for (int i = 0; i < 4; ++i) sums.checksum_pieces[i] += static_cast<double>(hash >> (16 * i) & 0xffffu);
  }
}

// Fills in the log-probabilities that `scorer` gives every answer token.
void Learner::State::score(Policy& scorer, std::vector<Trajectory>& answers,
                           std::vector<float> Trajectory::*log_probs) {
  const auto all = pointers(answers);
  auto batches = pack(all, config.grpo.micro_batch_tokens);
  batches.resize(agreed_count(batches.size()));  // empty ones, for the experts' sake
  std::size_t next = 0;
  for (const MicroBatch& batch : batches) {
    const auto values = scorer.log_probs(batch.packed, batch.scored, config.grpo.temperature);
    auto value = values.begin();
    for (std::size_t i = 0; i < batch.answers.size(); ++i) {
      Trajectory& answer = answers[next++];
      const auto end = value + static_cast<std::ptrdiff_t>(answer.answer.size());
      (answer.*log_probs).assign(value, end);
      value = end;
    }
  }
}

void Learner::State::advantages(std::vector<Trajectory>& answers) {
  const PhaseClock::Scope phase(phases, "advantages");
  const auto group_size = static_cast<std::size_t>(config.grpo.group_size);
  AdvantageScale scale{.eps = config.grpo.advantage_eps};
  if (config.grpo.advantage == "batch_std") {
    scale.batch_deviation = deviation(of_all_ranks(answers, [](const Trajectory& answer) { return answer.reward; }));
  }
  for (std::size_t first = 0; first < answers.size(); first += group_size) {
    std::vector<double> rewards;
    for (std::size_t i = 0; i < group_size; ++i) rewards.push_back(answers[first + i].reward);
    const auto values = group_advantages(config.grpo.advantage, rewards, scale);
    for (std::size_t i = 0; i < group_size; ++i) answers[first + i].advantage = values[i];
  }
  for (const Trajectory& answer : answers) {
    for (std::size_t i = 0; i < answer.answer.size(); ++i) {
      sums.log_prob += answer.old_log_probs[i];
      sums.log_prob_gap += std::abs(double{answer.rollout_log_probs[i]} - answer.old_log_probs[i]);
    }
  }
  // Every rank then works out the size of any optimiser step's batch by itself.
  answer_lengths =
      of_all_ranks(answers, [](const Trajectory& answer) { return static_cast<double>(answer.answer.size()); });
}

// Collective: a number of every answer of the step, by sequence.
std::vector<double> Learner::State::of_all_ranks(const std::vector<Trajectory>& answers,
                                                 double (*number)(const Trajectory&)) {
  std::vector<double> numbers(static_cast<std::size_t>(config.grpo.prompts * config.grpo.group_size), 0);
  for (const Trajectory& answer : answers) numbers[static_cast<std::size_t>(answer.sequence)] = number(answer);
  collectives.all_reduce_sum(numbers);
  return numbers;
}

void Learner::State::share_router_load() {
  router_load.clear();
  for (const auto& layer : policy.take_router_load()) {
    router_load.emplace_back(layer.begin(), layer.end());
    collectives.all_reduce_sum(router_load.back());
  }
}

// One optimiser step on the answers `sequences`, of which this rank trains its own.
void Learner::State::train(const std::vector<Trajectory>& answers, const std::vector<int>& sequences) {
  std::int64_t batch_tokens = 0;
  std::vector<const Trajectory*> mine;
  for (const int sequence : sequences) {
    batch_tokens += std::llround(answer_lengths[static_cast<std::size_t>(sequence)]);
    const int index = answers.empty() ? -1 : sequence - answers.front().sequence;  // this rank's are contiguous
    if (index >= 0 && index < static_cast<int>(answers.size()))
      mine.push_back(&answers[static_cast<std::size_t>(index)]);
  }
  const auto batch_sequences = static_cast<std::int64_t>(sequences.size());
  const auto balance = balance_gradient(batch_tokens, batch_sequences);
  auto batches = pack(mine, config.grpo.micro_batch_tokens);
  {
    const PhaseClock::Scope phase(phases, "forward");
    const auto gradients = policy.parameters().gradients();
    std::fill(gradients.begin(), gradients.end(), 0.0f);
    batches.resize(agreed_count(batches.size()));
  }
  double loss = 0;
  for (const MicroBatch& batch : batches) {
    std::unique_ptr<Tape> tape;
    std::vector<float> dlog_probs;
    {
      const PhaseClock::Scope phase(phases, "forward");
      std::vector<float> log_probs;
      tape = policy.forward(batch.packed, batch.scored, config.grpo.temperature, log_probs);
      dlog_probs = token_losses(batch, log_probs, batch_tokens, batch_sequences, loss);
    }
    const PhaseClock::Scope phase(phases, "backward");
    policy.backward(std::move(tape), dlog_probs, balance);
  }
  if (updates_this_step++ == 0) sums.first_loss = loss;
  sums.losses += loss;
  reduce_gradients();
  update_weights();
}

// Adds this batch's part of the loss, and returns its derivative by every log-probability.
std::vector<float> Learner::State::token_losses(const MicroBatch& batch, std::span<const float> new_log_probs,
                                                std::int64_t batch_tokens, std::int64_t batch_sequences, double& loss) {
  const std::vector<double> values(new_log_probs.begin(), new_log_probs.end());
  const BatchLoss part = batch_loss(config.grpo, batch, values, {batch_tokens, batch_sequences});
  loss += part.loss;
  sums.clipped += static_cast<double>(part.clipped_tokens);
  sums.kl += part.kl;
  return {part.derivatives.begin(), part.derivatives.end()};
}

// The balancing loss is aux_coef * experts * sum_e fraction_e * (mean over the batch's tokens of probability_e), in
// every layer with experts. The fractions are those of the whole step, so they do not depend on how it is cut up.
std::vector<std::vector<float>> Learner::State::balance_gradient(std::int64_t batch_tokens,
                                                                 std::int64_t batch_sequences) const {
  if (config.grpo.router_aux_coef == 0) return {};
  // What runs through the layers: prompts, and answers but for their last tokens.
  const std::int64_t tokens = batch_tokens + batch_sequences * (config.grpo.prompt_tokens - 1);
  std::vector<std::vector<float>> balance;
  for (const auto& load : router_load) {
    double copies = 0;
    for (const double count : load) copies += count;
    auto& layer = balance.emplace_back();
    for (const double count : load) {
      const double fraction = count / copies;
      layer.push_back(static_cast<float>(config.grpo.router_aux_coef * config.model.experts * fraction /
                                         static_cast<double>(tokens)));
    }
  }
  return balance;
}

// The replicated weights saw this rank's tokens only. The experts saw every token that was sent to them.
void Learner::State::reduce_gradients() {
  const PhaseClock::Scope phase(phases, "gradient_reduction");
  const auto gradients = policy.parameters().gradients();
  const auto replicated = gradients.first(static_cast<std::size_t>(policy.parameters().replicated_count()));
  const auto experts = gradients.subspan(replicated.size());
  collectives.all_reduce_sum(replicated);
  OptimizerOps& optimizer = parts.compute.operations().optimizer;
  double squares[] = {optimizer.sum_of_squares(experts)};
  collectives.all_reduce_sum(std::span<double>(squares));
  gradient_norm = std::sqrt(squares[0] + optimizer.sum_of_squares(replicated));
}

void Learner::State::update_weights() {
  {
    const PhaseClock::Scope phase(phases, "optimizer");
    const OptimizerConfig& given = config.optimizer;
    const bool too_long = given.clip_norm > 0 && gradient_norm > given.clip_norm;
    parts.compute.operations().optimizer.adamw({.learning_rate = given.learning_rate,
                                                .beta1 = given.beta1,
                                                .beta2 = given.beta2,
                                                .eps = given.eps,
                                                .weight_decay = given.weight_decay,
                                                .gradient_scale = too_long ? given.clip_norm / gradient_norm : 1.0,
                                                .step = ++optimizer_steps},
                                               policy.parameters().weights(), policy.parameters().gradients(),
                                               {first_moments.data(), policy.parameters().weights().size()},
                                               {second_moments.data(), policy.parameters().weights().size()});
  }
  const PhaseClock::Scope phase(phases, "weight_sync");
  policy.publish_weights();
}

}  // namespace mrb
