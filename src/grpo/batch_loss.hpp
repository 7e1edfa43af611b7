// The loss of a micro-batch: objective, off-policy correction and KL divergence put together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "config/config.hpp"
#include "grpo/batch.hpp"
#include "grpo/objective.hpp"

namespace mrb {

struct BatchLoss {
  double loss = 0;                  // this micro-batch's part of the batch's
  std::vector<double> derivatives;  // of it, by every new log-probability
  std::int64_t clipped_tokens = 0;
  double kl = 0;  // sum over tokens, unweighted; 0 when kl_coef is 0
};

// For every answer y, with the weights of token_weight and rho of correction_weights:
//   sum over its tokens of weight * (rho * objective + kl_coef * kl)
// The objective is, by its name,
//   clip   clipped_loss, the ratio of each token
//   gspo   clipped_loss without dual clip, of one ratio for the answer: s = exp(mean of new - old), so that a token's
//          derivative is weight * -A s (Zheng et al.: Group sequence policy optimization)
//   cispo  cispo_loss
// `new_log_probs` are by scored token, in the order of MicroBatch::scored. Since `whole` counts the whole batch, the
// parts of any cut add up to the same loss.
BatchLoss batch_loss(const GrpoConfig&, const MicroBatch&, std::span<const double> new_log_probs,
                     const BatchSize& whole);

}  // namespace mrb
