// The generating half of a step: continuous batching of answers over a bounded cache of keys and values.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "base/phase_clock.hpp"
#include "compute/backend.hpp"
#include "config/config.hpp"
#include "grpo/lengths.hpp"
#include "grpo/trajectory.hpp"
#include "model/kv_cache.hpp"
#include "model/policy.hpp"
#include "transport/collectives.hpp"

namespace mrb {

struct RolloutParts {
  Policy& policy;
  ComputeBackend& compute;
  PhaseClock& phases;
};

// How many answers of a rank the cache holds at once, when the rank is to generate `answers` of a step:
// rollout.kv_cache_bytes over the bytes of the longest answer with its prompt, `answers` at most, 1 at least.
int cache_slots(const Config&, int answers);

// Answers wait in a queue until the cache has room for them, and leave it one by one as they end. The samples of a group
// share their prompt: it is computed once while any of them is running.
class RolloutEngine {
 public:
  RolloutEngine(const Config&, int slots, RolloutParts);

  // Puts all samples of these prompts of the step at the end of the queue.
  void submit(int step, PromptRange);

  bool may_admit() const { return !queue_.empty() && !free_slots_.empty(); }
  bool has_waiting() const { return !queue_.empty(); }
  bool is_idle() const { return queue_.empty() && running_.empty(); }

  // Collective over the ranks that share experts. Takes answers from the queue into the cache, as many as there is room
  // for, and gives each its first token. `version` is that of the policy's weights. Phase: prefill.
  void admit(int version);

  // Collective. One more token for every answer that is running. Phase: decode.
  void decode();

  // The answers that have ended since the last call, in the order in which they ended, with their rewards.
  std::vector<Trajectory> take_ended();

 private:
  struct Waiting {
    int step = 0;
    int sequence = 0;
  };
  using PromptKey = std::pair<int, int>;  // step, prompt
  // A prompt whose samples are not all admitted yet.
  struct OpenPrompt {
    Tensor logits;  // [1][vocab] after its last token
    int version = 0;
    int unadmitted = 0;
  };

  Trajectory& at(int slot) { return trajectories_[static_cast<std::size_t>(slot)]; }
  PromptKey prompt_of(const Trajectory& answer) const {
    return {answer.step, answer.sequence / config_.grpo.group_size};
  }
  int slot_that_runs(const PromptKey&);
  void prefill(const std::vector<int>& slots, int version);
  void sample(const std::vector<int>& slots, const Tensor& logits);

  const Config& config_;
  RolloutParts parts_;
  ResponseLengths lengths_;
  KvCache cache_;
  std::vector<Trajectory> trajectories_;  // by slot
  std::vector<int> free_slots_;           // the lowest last
  std::vector<int> running_;
  std::deque<Waiting> queue_;
  std::map<PromptKey, OpenPrompt> open_;
  std::vector<Trajectory> ended_;
};

// Collective. Answers this rank's share of the step's prompts to their end, in the order of their sequences. Ranks that
// are done go on with no tokens until all are. The cache gets its memory at the start and gives it back at the end.
std::vector<Trajectory> roll_out(const Config&, int step, int version, Collectives&, int rank, int ranks, RolloutParts);

}  // namespace mrb
