// How long answers get: until the end token, or drawn, so that a benchmark can have the tail of real answers with a
// policy that knows nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "config/config.hpp"
#include "grpo/prompts.hpp"

namespace mrb {

// By the name of grpo.lengths:
//   until_end  The longest is drawn evenly from response_tokens_min to response_tokens_max; the answer ends there or
//              at its end token.
//   fixed      response_tokens_max tokens.
//   lognormal  exp(mu + s z) tokens, s^2 = ln(1 + cv^2), mu = ln(mean) - s^2 / 2, with length_mean and length_cv.
//   empirical  The length at the share Phi(z) of the sorted lengths in length_file, each line as likely as any other.
// z = sqrt(rho) prompt effect + sqrt(1 - rho) sample effect, both standard normal: rho, length_correlation, correlates
// the z of two answers in a group, and so the logarithms of lognormal lengths. Lengths are rounded, and at least 1 and
// at most response_tokens_max.
//
// An answer of a drawn length has exactly that many tokens, so that every variant and schedule does the same work: the
// end token cannot be drawn. Other tokens are, in the proportions that the policy gives them, p(v) / (1 - p(end)),
// while the log-probabilities recorded are the policy's own, log p(v), which the trainer recomputes.
class ResponseLengths {
 public:
  // Reads length_file when it is asked for; throws Error(config).
  explicit ResponseLengths(const GrpoConfig&);

  // The longest that the answer may get. A function of (seed, step, sequence) and the configuration.
  int longest(const SequenceId&) const;

  // What sampling must exclude: the end token, or kNoToken (compute/tokens.hpp) when answers may end by it.
  std::int32_t excluded_token() const;

 private:
  double standard_normal(const SequenceId&) const;

  GrpoConfig config_;
  std::vector<int> recorded_;  // ascending; empty unless empirical
};

}  // namespace mrb
