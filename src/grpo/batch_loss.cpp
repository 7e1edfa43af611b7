#include "grpo/batch_loss.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "grpo/correction.hpp"

namespace mrb {

namespace {

// By token. Those of gspo share one, whose derivative by each of n log-probabilities is an n-th of that by their mean:
// n equal tokens' losses make up for it.
std::vector<TokenLoss> policy_losses(const GrpoConfig& grpo, const Trajectory& answer,
                                     std::span<const double> new_log_probs) {
  const std::size_t count = new_log_probs.size();
  const Clipping clipping{grpo.clip_low, grpo.clip_high, grpo.dual_clip};
  if (grpo.objective == "gspo") {
    double difference = 0;
    for (std::size_t i = 0; i < count; ++i) difference += new_log_probs[i] - answer.old_log_probs[i];
    const Clipping single{.low = clipping.low, .high = clipping.high, .dual = 0};
    return std::vector(count, clipped_loss(difference / static_cast<double>(count), 0, answer.advantage, single));
  }
  const auto loss = grpo.objective == "clip" ? clipped_loss : grpo.objective == "cispo" ? cispo_loss : nullptr;
  if (loss == nullptr) {
    throw Error(ErrorKind::config, fmt::format("there is no objective called '{}'", grpo.objective),
                "use one of: clip, gspo, cispo");
  }
  std::vector<TokenLoss> losses;
  for (std::size_t i = 0; i < count; ++i) {
    losses.push_back(loss(new_log_probs[i], answer.old_log_probs[i], answer.advantage, clipping));
  }
  return losses;
}

}  // namespace

BatchLoss batch_loss(const GrpoConfig& grpo, const MicroBatch& batch, std::span<const double> new_log_probs,
                     const BatchSize& whole) {
  BatchLoss sum;
  sum.derivatives.reserve(new_log_probs.size());
  for (const Trajectory* answer : batch.answers) {
    const std::size_t length = answer->answer.size();
    const auto news = new_log_probs.subspan(sum.derivatives.size(), length);
    const double weight =
        token_weight(grpo.aggregation, whole, static_cast<std::int64_t>(length), grpo.response_tokens_max);
    const auto losses = policy_losses(grpo, *answer, news);
    const auto corrections = correction_weights(grpo.correction, {grpo.correction_low, grpo.correction_high},
                                                answer->old_log_probs, answer->rollout_log_probs);
    for (std::size_t i = 0; i < length; ++i) {
      double loss = corrections[i] * losses[i].loss;
      double derivative = corrections[i] * losses[i].derivative;
      if (grpo.kl_coef > 0) {
        const TokenLoss kl = kl_loss(grpo.kl_estimator, news[i], answer->reference_log_probs[i]);
        loss += grpo.kl_coef * kl.loss;
        derivative += grpo.kl_coef * kl.derivative;
        sum.kl += kl.loss;
      }
      sum.loss += weight * loss;
      sum.derivatives.push_back(weight * derivative);
      sum.clipped_tokens += losses[i].clipped ? 1 : 0;
    }
  }
  return sum;
}

}  // namespace mrb
