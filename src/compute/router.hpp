// Which experts a token visits, and with which weights.
#pragma once

#include <cstdint>
#include <span>

#include "compute/matrix.hpp"

namespace mrb {

class RouterOps {
 public:
  virtual ~RouterOps() = default;

  // probabilities[t] = softmax(logits[t]); the top_k largest in descending order (the lower expert first among
  // equals) give expert_ids[t][k] (the host's) and weights[t][k] = their probabilities divided by their sum.
  virtual void route(ConstMatrix logits, int top_k, Matrix probabilities, std::span<std::int32_t> expert_ids,
                     Matrix weights) = 0;

  // dlogits = gradient through weights, softmax and the load-balancing term: `balance[e]` is added to the gradient of
  // every token's probability of expert e (aux_coef * experts * fraction[e] / tokens; empty: no such term).
  // The balancing loss is aux_coef * experts * sum_e fraction_e * mean probability_e (Fedus et al.: Switch
  // transformers), where the fraction of routed copies is a constant.
  virtual void route_backward(ConstMatrix dweights, ConstMatrix probabilities, std::span<const std::int32_t> expert_ids,
                              ConstMatrix weights, std::span<const float> balance, Matrix dlogits) = 0;
};

}  // namespace mrb
