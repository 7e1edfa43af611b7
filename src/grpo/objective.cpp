#include "grpo/objective.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace mrb {

namespace {

constexpr double kLogRatioMax = 20;

}  // namespace

TokenLoss clipped_loss(double new_log_prob, double old_log_prob, double advantage, const Clipping& clipping) {
  const double difference = new_log_prob - old_log_prob;
  const double ratio = std::exp(std::clamp(difference, -kLogRatioMax, kLogRatioMax));
  const double held = std::clamp(ratio, 1 - clipping.low, 1 + clipping.high);
  const double free_loss = -ratio * advantage;
  const double held_loss = -held * advantage;
  TokenLoss result{.loss = free_loss, .derivative = free_loss, .clipped = false};
  if (std::abs(difference) > kLogRatioMax) result.derivative = 0;
  if (held_loss > free_loss) result = {.loss = held_loss, .derivative = 0, .clipped = true};
  if (clipping.dual > 0 && advantage < 0 && result.loss > -clipping.dual * advantage) {
    result = {.loss = -clipping.dual * advantage, .derivative = 0, .clipped = true};
  }
  return result;
}

TokenLoss k3_loss(double new_log_prob, double reference_log_prob) {
  const double free = reference_log_prob - new_log_prob;
  const double d = std::clamp(free, -kLogRatioMax, kLogRatioMax);
  return {.loss = std::exp(d) - d - 1, .derivative = free == d ? 1 - std::exp(d) : 0};
}

double token_weight(std::string_view aggregation, std::int64_t batch_tokens, std::int64_t batch_sequences,
                    std::int64_t sequence_tokens) {
  if (aggregation == "token_mean") return 1.0 / static_cast<double>(batch_tokens);
  if (aggregation == "sequence_mean") return 1.0 / static_cast<double>(batch_sequences * sequence_tokens);
  throw Error(ErrorKind::config, fmt::format("there is no aggregation called '{}'", aggregation),
              "use one of: token_mean, sequence_mean");
}

}  // namespace mrb
