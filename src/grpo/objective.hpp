// The clipped objective of GRPO, token by token, with its derivatives. Losses: lower is better.
#pragma once

#include <cstdint>
#include <string_view>

namespace mrb {

struct Clipping {
  double low = 0.2;   // the ratio is held above 1 - low ...
  double high = 0.2;  // ... and below 1 + high
  double dual = 0;    // bound on the loss of bad answers, in units of -advantage; 0: none
};

struct TokenLoss {
  double loss = 0;
  double derivative = 0;  // by the new log-probability
  bool clipped = false;   // the clipping stopped its gradient
};

// -min(r A, clip(r) A), r = exp(new - old); for A < 0 at most -dual A (Ye et al.: dual-clip PPO). The difference of
// log-probabilities is held within +-20 before exp, as verl does.
TokenLoss clipped_loss(double new_log_prob, double old_log_prob, double advantage, const Clipping&);

// The estimate k3 = exp(d) - d - 1 of the KL divergence, d = reference - new (Schulman: Approximating KL
// divergence), d held within +-20.
TokenLoss k3_loss(double new_log_prob, double reference_log_prob);

// The weight of one token in a batch's loss, from counts over the whole batch, however it is cut up:
//   token_mean     1 / all tokens                          (DAPO)
//   sequence_mean  1 / (all sequences * this one's tokens)  (GRPO as first published)
double token_weight(std::string_view aggregation, std::int64_t batch_tokens, std::int64_t batch_sequences,
                    std::int64_t sequence_tokens);

}  // namespace mrb
