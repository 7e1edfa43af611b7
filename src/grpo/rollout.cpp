#include "grpo/rollout.hpp"

#include "compute/tokens.hpp"
#include "grpo/prompts.hpp"

namespace mrb {

namespace {

// The answers of this rank and their state in the cache: trajectory i is in slot i.
class Rollout {
 public:
  Rollout(const Config& config, int step, RolloutParts parts)
      : config_(config),
        step_(step),
        parts_(parts),
        prompts_(prompts_of_rank(config.grpo.prompts, parts.rank, parts.ranks)),
        cache_(parts.compute, config.model, (prompts_.end - prompts_.first) * config.grpo.group_size,
               config.grpo.prompt_tokens + config.grpo.response_tokens_max) {}

  void prefill() {
    const PhaseClock::Scope phase(parts_.phases, "prefill");
    const int group_size = config_.grpo.group_size;
    PackedTokens packed;
    std::vector<int> first_slots;
    std::vector<std::int32_t> logit_rows;  // of each answer: its prompt's
    for (int prompt = prompts_.first; prompt < prompts_.end; ++prompt) {
      const auto tokens = draw_prompt(config_.seed, step_, prompt, config_.grpo, config_.model.vocab);
      packed.tokens.insert(packed.tokens.end(), tokens.begin(), tokens.end());
      packed.offsets.push_back(static_cast<std::int32_t>(packed.tokens.size()));
      first_slots.push_back((prompt - prompts_.first) * group_size);
      for (int sample = 0; sample < group_size; ++sample) {
        const int sequence = prompt * group_size + sample;
        trajectories_.push_back({.sequence = sequence,
                                 .longest = parts_.lengths.longest({config_.seed, step_, sequence}),
                                 .prompt = tokens});
        logit_rows.push_back(prompt - prompts_.first);
      }
    }
    const Tensor logits = parts_.policy.prefill(packed, first_slots, cache_);
    for (const int slot : first_slots) {
      for (int sample = 1; sample < group_size; ++sample) cache_.copy_slot(slot, slot + sample);
    }
    const Tensor by_answer(parts_.compute, static_cast<std::int64_t>(logit_rows.size()), config_.model.vocab);
    parts_.compute.operations().tokens.embed(logits.view(), logit_rows, by_answer.view());
    for (int slot = 0; slot < static_cast<int>(trajectories_.size()); ++slot) running_.push_back(slot);
    sample(by_answer);
  }

  void decode() {
    const PhaseClock::Scope phase(parts_.phases, "decode");
    while (parts_.collectives.all_reduce_max(static_cast<std::int64_t>(running_.size())) > 0) {
      std::vector<std::int32_t> last_tokens;
      for (const int slot : running_) last_tokens.push_back(at(slot).answer.back());
      sample(parts_.policy.decode(last_tokens, running_, cache_));
    }
  }

  std::vector<Trajectory> take() { return std::move(trajectories_); }

 private:
  Trajectory& at(int slot) { return trajectories_[static_cast<std::size_t>(slot)]; }

  // Adds a token to every running answer, and keeps those running that may go on.
  void sample(const Tensor& logits) {
    std::vector<double> uniforms;
    for (const int slot : running_) {
      const Trajectory& answer = at(slot);
      uniforms.push_back(draw_uniform({config_.seed, step_, answer.sequence}, static_cast<int>(answer.answer.size())));
    }
    std::vector<std::int32_t> tokens(running_.size());
    std::vector<float> log_probs(running_.size());
    parts_.compute.operations().tokens.sample(logits.view(), config_.grpo.temperature, parts_.lengths.excluded_token(),
                                              uniforms, tokens, log_probs);
    std::vector<int> still_running;
    for (std::size_t i = 0; i < running_.size(); ++i) {
      Trajectory& answer = at(running_[i]);
      answer.answer.push_back(tokens[i]);
      answer.rollout_log_probs.push_back(log_probs[i]);
      const bool full = static_cast<int>(answer.answer.size()) == answer.longest;
      if (tokens[i] != kEndToken && !full) still_running.push_back(running_[i]);
    }
    running_ = std::move(still_running);
  }

  const Config& config_;
  int step_;
  RolloutParts parts_;
  PromptRange prompts_;
  KvCache cache_;
  std::vector<Trajectory> trajectories_;
  std::vector<int> running_;  // slots
};

}  // namespace

PromptRange prompts_of_rank(int prompts, int rank, int ranks) {
  const auto first = [&](int r) { return static_cast<int>(std::int64_t{prompts} * r / ranks); };
  return {first(rank), first(rank + 1)};
}

std::vector<Trajectory> roll_out(const Config& config, int step, RolloutParts parts) {
  Rollout rollout(config, step, parts);
  rollout.prefill();
  rollout.decode();
  return rollout.take();
}

}  // namespace mrb
