// Off-policy corrections: tokens were drawn by the rollout's policy mu, whose log-probabilities differ from the
// trainer's own, because of other kernels, other rounding or older weights.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace mrb {

struct CorrectionBounds {
  double low = 0;   // of masks
  double high = 2;  // of truncation and masks
};

// What the policy loss of each token of an answer is multiplied by: a ratio rho = exp(old - mu), truncated to
// min(rho, high), or masked: rho inside [low, high], 0 outside. `old` are the trainer's log-probabilities before the
// update, `rollout` the drawing policy's.
//   none                 1
//   truncate_token       rho of the token          truncated importance sampling; verl, slime, OpenRLHF
//   truncate_sequence    rho of the answer: exp of the sum of differences
//   truncate_geometric   rho of the answer: exp of their mean
//   mask_token           IcePop
//   mask_sequence        TRL's default
//   mask_geometric
//   decoupled            rho of the token, unbounded: decoupled PPO (AReaL), whose proximal policy, the one that the
//                        clipping looks at, is the trainer's old one
// Differences are held within +-20. The weights say nothing of the loss's denominator, which stays the count of all
// tokens: a count of those that are left would make the gradient of few tokens large.
std::vector<double> correction_weights(std::string_view correction, const CorrectionBounds&,
                                       std::span<const float> old_log_probs, std::span<const float> rollout_log_probs);

}  // namespace mrb
