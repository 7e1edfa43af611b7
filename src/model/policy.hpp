// The Mixture-of-Experts policy on one rank: its share of the experts, a copy of everything else.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/phase_clock.hpp"
#include "compute/backend.hpp"
#include "config/model_shape.hpp"
#include "dispatch/dispatcher.hpp"
#include "model/kv_cache.hpp"
#include "model/parameters.hpp"

namespace mrb {

// Sequences laid end to end: sequence s is tokens[offsets[s]] to tokens[offsets[s + 1]], its positions start at 0.
// Empty is allowed: offsets = {0}.
struct PackedTokens {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> offsets = {0};

  std::int64_t token_count() const { return static_cast<std::int64_t>(tokens.size()); }
};

// Which positions are scored: log_probs[i] is of the token targets[i] after position rows[i] of the packed tokens.
struct ScoredTokens {
  std::vector<std::int32_t> rows;
  std::vector<std::int32_t> targets;
};

// What forward() keeps for backward().
class Tape {
 public:
  virtual ~Tape() = default;
};

struct PolicyParts {
  ComputeBackend& compute;
  Dispatcher& dispatcher;
  PhaseClock& phases;  // dispatch and combine are timed as phases inside the caller's
};

// Every method that computes is collective over the ranks of the dispatcher, also for a rank with no tokens.
class Policy {
 public:
  // Weights are drawn from (seed, tensor, expert), so they are the same for any number of ranks. The parts must
  // outlive the policy.
  Policy(const ModelShape&, const ExpertPlacement&, int rank, std::uint64_t seed, PolicyParts);
  ~Policy();

  const ModelShape& shape() const;
  Parameters& parameters();

  // Takes the weights as they are in parameters() into use: products run on a packed copy. Call it after every
  // change of the weights. Returns the bytes packed.
  std::size_t publish_weights();

  // log p(target) of every scored token at this temperature.
  std::vector<float> log_probs(const PackedTokens&, const ScoredTokens&, double temperature);

  // The same, keeping what backward() needs.
  std::unique_ptr<Tape> forward(const PackedTokens&, const ScoredTokens&, double temperature,
                                std::vector<float>& log_probs);

  // Adds d loss / d weights to parameters().gradients, given d loss / d log_probs of the tape's scored tokens.
  // `balance` is, by MoE layer, the gradient that RouterOps::route_backward adds to probabilities; empty: none.
  // Consumes the tape. Gradients of this rank's tokens only: the replicated ones are still to be summed over ranks;
  // the experts' are complete.
  void backward(std::unique_ptr<Tape>, std::span<const float> dlog_probs,
                const std::vector<std::vector<float>>& balance);

  // Runs the prompts, of one token each at least, and fills the cache: sequence s goes to slot slots[s]. Returns
  // logits [sequences][vocab] after each prompt's last token.
  Tensor prefill(const PackedTokens&, std::span<const int> slots, KvCache&);

  // One more token for each slot. Returns logits [slots][vocab].
  Tensor decode(std::span<const std::int32_t> tokens, std::span<const int> slots, KvCache&);

  // By MoE layer and expert: copies this rank routed since the last call.
  std::vector<std::vector<std::int64_t>> take_router_load();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace mrb
