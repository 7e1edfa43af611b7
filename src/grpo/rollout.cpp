#include "grpo/rollout.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "compute/tokens.hpp"
#include "grpo/prompts.hpp"
#include "grpo/reward.hpp"

namespace mrb {

PromptRange prompts_of_rank(int prompts, int rank, int ranks) {
  const auto first = [&](int r) { return static_cast<int>(std::int64_t{prompts} * r / ranks); };
  return {first(rank), first(rank + 1)};
}

int cache_slots(const Config& config, int answers) {
  const std::int64_t budget = config.rollout.kv_cache_bytes;
  if (budget == 0) return std::max(1, answers);
  const std::int64_t longest = config.grpo.prompt_tokens + config.grpo.response_tokens_max;
  const std::int64_t slot_bytes = longest * kv_bytes_per_token(config.model, sizeof(float));
  return static_cast<int>(std::clamp<std::int64_t>(budget / slot_bytes, 1, std::max(1, answers)));
}

RolloutEngine::RolloutEngine(const Config& config, int slots, RolloutParts parts)
    : config_(config),
      parts_(parts),
      lengths_(config.grpo),
      cache_(parts.compute, config.model, slots, config.grpo.prompt_tokens + config.grpo.response_tokens_max),
      trajectories_(static_cast<std::size_t>(slots)) {
  for (int slot = slots - 1; slot >= 0; --slot) free_slots_.push_back(slot);
}

void RolloutEngine::submit(int step, PromptRange prompts) {
  const int group_size = config_.grpo.group_size;
  for (int sequence = prompts.first * group_size; sequence < prompts.end * group_size; ++sequence) {
    queue_.push_back({step, sequence});
  }
}

void RolloutEngine::admit(int version) {
  const PhaseClock::Scope phase(parts_.phases, "prefill");
  std::vector<int> slots;
  while (may_admit()) {
    const Waiting next = queue_.front();
    queue_.pop_front();
    const int slot = free_slots_.back();
    free_slots_.pop_back();
    slots.push_back(slot);
    at(slot) = {.step = next.step,
                .sequence = next.sequence,
                .longest = lengths_.longest({config_.seed, next.step, next.sequence}),
                .prompt = draw_prompt(config_.seed, next.step, next.sequence / config_.grpo.group_size, config_.grpo,
                                      config_.model.vocab)};
  }
  prefill(slots, version);

  const std::int64_t vocab = config_.model.vocab;
  const Tensor logits(parts_.compute, static_cast<std::int64_t>(slots.size()), vocab);
  const std::int32_t first_row[] = {0};
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const auto prompt = open_.find(prompt_of(at(slots[i])));
    const Matrix row{logits.data() + static_cast<std::int64_t>(i) * vocab, 1, vocab};
    parts_.compute.operations().tokens.embed(prompt->second.logits.view(), first_row, row);
    at(slots[i]).first_version = prompt->second.version;
    if (--prompt->second.unadmitted == 0) open_.erase(prompt);
  }
  sample(slots, logits);
}

// The prompt's keys and values for every slot: computed where no running sample of the prompt has them, else copied.
void RolloutEngine::prefill(const std::vector<int>& slots, int version) {
  PackedTokens packed;
  std::vector<int> first_slots;
  std::map<PromptKey, int> source_of;  // the slot that has the prompt, or will have it
  for (const int slot : slots) {
    const PromptKey key = prompt_of(at(slot));
    if (source_of.contains(key)) continue;
    const int resident = slot_that_runs(key);
    source_of[key] = resident >= 0 ? resident : slot;
    if (resident >= 0) continue;
    const auto& tokens = at(slot).prompt;
    packed.tokens.insert(packed.tokens.end(), tokens.begin(), tokens.end());
    packed.offsets.push_back(static_cast<std::int32_t>(packed.tokens.size()));
    first_slots.push_back(slot);
  }
  const Tensor logits = parts_.policy.prefill(packed, first_slots, cache_);
  for (std::size_t i = 0; i < first_slots.size(); ++i) {
    const auto [entry, is_new] = open_.try_emplace(prompt_of(at(first_slots[i])));
    OpenPrompt& prompt = entry->second;
    if (is_new) prompt.unadmitted = config_.grpo.group_size;
    prompt.version = version;
    prompt.logits = Tensor(parts_.compute, 1, config_.model.vocab);
    const std::int32_t row[] = {static_cast<std::int32_t>(i)};
    parts_.compute.operations().tokens.embed(logits.view(), row, prompt.logits.view());
  }
  for (const int slot : slots) {
    const int source = source_of.at(prompt_of(at(slot)));
    if (source != slot) cache_.copy_slot(source, slot, config_.grpo.prompt_tokens);
  }
}

int RolloutEngine::slot_that_runs(const PromptKey& key) {
  const auto found = std::ranges::find_if(running_, [&](int slot) { return prompt_of(at(slot)) == key; });
  return found == running_.end() ? -1 : *found;
}

void RolloutEngine::decode() {
  const PhaseClock::Scope phase(parts_.phases, "decode");
  const std::vector<int> slots = running_;
  std::vector<std::int32_t> last_tokens;
  for (const int slot : slots) last_tokens.push_back(at(slot).answer.back());
  running_.clear();
  sample(slots, parts_.policy.decode(last_tokens, slots, cache_));
}

// Adds a token to the answer in every slot, and keeps those running that may go on.
void RolloutEngine::sample(const std::vector<int>& slots, const Tensor& logits) {
  std::vector<double> uniforms;
  for (const int slot : slots) {
    const Trajectory& answer = at(slot);
    uniforms.push_back(
        draw_uniform({config_.seed, answer.step, answer.sequence}, static_cast<int>(answer.answer.size())));
  }
  std::vector<std::int32_t> tokens(slots.size());
  std::vector<float> log_probs(slots.size());
  parts_.compute.operations().tokens.sample(logits.view(), config_.grpo.temperature, lengths_.excluded_token(),
                                            uniforms, tokens, log_probs);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    Trajectory& answer = at(slots[i]);
    answer.answer.push_back(tokens[i]);
    answer.rollout_log_probs.push_back(log_probs[i]);
    if (tokens[i] != kEndToken && static_cast<int>(answer.answer.size()) < answer.longest) {
      running_.push_back(slots[i]);
    } else {
      ended_.push_back(std::move(answer));
      free_slots_.push_back(slots[i]);
    }
  }
}

std::vector<Trajectory> RolloutEngine::take_ended() {
  const PhaseClock::Scope phase(parts_.phases, "reward");
  if (config_.grpo.reward_delay_ms > 0 && !ended_.empty()) {
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(config_.grpo.reward_delay_ms));
  }
  for (Trajectory& answer : ended_) {
    answer.reward = class_reward(answer.prompt, answer.answer, answer.longest) +
                    overlong_penalty(static_cast<int>(answer.answer.size()), config_.grpo.response_tokens_max,
                                     config_.grpo.overlong_tokens);
  }
  return std::exchange(ended_, {});
}

std::vector<Trajectory> roll_out(const Config& config, int step, int version, Collectives& collectives, int rank,
                                 int ranks, RolloutParts parts) {
  const PromptRange prompts = prompts_of_rank(config.grpo.prompts, rank, ranks);
  const auto engine = [&] {
    const PhaseClock::Scope phase(parts.phases, "mode_switch");
    return std::make_unique<RolloutEngine>(config, cache_slots(config, prompts.count() * config.grpo.group_size),
                                           parts);
  }();
  engine->submit(step, prompts);
  while (true) {
    std::int64_t work[] = {engine->may_admit() ? 1 : 0, engine->is_idle() ? 0 : 1};
    {
      const PhaseClock::Scope phase(parts.phases, "decode");
      collectives.all_reduce_max(work);
    }
    if (work[1] == 0) break;
    if (work[0] > 0) engine->admit(version);
    engine->decode();
  }
  auto answers = engine->take_ended();
  std::ranges::sort(answers, {}, &Trajectory::sequence);
  return answers;
}

}  // namespace mrb
