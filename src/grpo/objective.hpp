// The objectives of GRPO and its variants, token by token, with their derivatives. Losses: lower is better.
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
  bool clipped = false;   // the clipping held the ratio: no gradient, or with cispo one that no longer grows with it
};

// -min(r A, clip(r) A), r = exp(new - old); for A < 0 at most -dual A (Ye et al.: dual-clip PPO). The difference of
// log-probabilities is held within +-20 before exp, as verl does.
TokenLoss clipped_loss(double new_log_prob, double old_log_prob, double advantage, const Clipping&);

// -clip(r) A new, with clip(r) taken for a constant, so that every token keeps a gradient (MiniMax: CISPO). The bounds
// are 1 - low and 1 + high, as in verl; TRL's is an absolute one. `dual` plays no part.
TokenLoss cispo_loss(double new_log_prob, double old_log_prob, double advantage, const Clipping&);

// Estimates of the KL divergence from one token (Schulman: Approximating KL divergence), d = new - reference:
//   k1       d: its derivative is 1 whatever the policies, so its gradient is noise around nothing
//   k2       d^2 / 2
//   k3       exp(-d) + d - 1, with d held within +-20 and the value at most 10, as verl does; held, it has no gradient
//   k3_plus  the value of k3 with the derivative of k2 (verl), whose mean is the gradient of the divergence
TokenLoss kl_loss(std::string_view estimator, double new_log_prob, double reference_log_prob);

// Counts of a whole optimiser step's batch, over all ranks, however it is cut up.
struct BatchSize {
  std::int64_t tokens = 0;  // of answers
  std::int64_t sequences = 0;
};

// The weight of one token of a sequence of `sequence_tokens` in the batch's loss:
//   token_mean            1 / all tokens                          (DAPO; verl and TRL by default)
//   sequence_mean         1 / (all sequences * this one's tokens)  (GRPO as first published)
//   sequence_sum_mean     1 / all sequences                       (verl: seq-mean-token-sum)
//   constant_length_sum   1 / length_max                          (Dr.GRPO as in verl)
//   constant_length_mean  1 / (all sequences * length_max)        (Dr.GRPO as in TRL)
double token_weight(std::string_view aggregation, const BatchSize&, std::int64_t sequence_tokens,
                    std::int64_t length_max);

}  // namespace mrb
