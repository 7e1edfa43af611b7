#include "grpo/objective.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace mrb {

namespace {

constexpr double kLogRatioMax = 20;
constexpr double kK3Max = 10;

double ratio_of(double difference) {
  return std::exp(std::clamp(difference, -kLogRatioMax, kLogRatioMax));
}

TokenLoss k3_loss(double difference) {
  const double d = std::clamp(difference, -kLogRatioMax, kLogRatioMax);
  const double value = std::exp(-d) + d - 1;
  if (value > kK3Max) return {.loss = kK3Max, .derivative = 0, .clipped = false};
  return {.loss = value, .derivative = 1 - std::exp(-d), .clipped = false};
}

}  // namespace

TokenLoss clipped_loss(double new_log_prob, double old_log_prob, double advantage, const Clipping& clipping) {
  const double difference = new_log_prob - old_log_prob;
  const double ratio = ratio_of(difference);
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

TokenLoss cispo_loss(double new_log_prob, double old_log_prob, double advantage, const Clipping& clipping) {
  const double ratio = ratio_of(new_log_prob - old_log_prob);
  const double held = std::clamp(ratio, 1 - clipping.low, 1 + clipping.high);
  return {.loss = -held * advantage * new_log_prob, .derivative = -held * advantage, .clipped = held != ratio};
}

TokenLoss kl_loss(std::string_view estimator, double new_log_prob, double reference_log_prob) {
  const double difference = new_log_prob - reference_log_prob;
  if (estimator == "k1") return {.loss = difference, .derivative = 1, .clipped = false};
  if (estimator == "k2") return {.loss = difference * difference / 2, .derivative = difference, .clipped = false};
  if (estimator == "k3") return k3_loss(difference);
  if (estimator == "k3_plus") return {.loss = k3_loss(difference).loss, .derivative = difference, .clipped = false};
  throw Error(ErrorKind::config, fmt::format("there is no KL estimator called '{}'", estimator),
              "use one of: k1, k2, k3, k3_plus");
}

double token_weight(std::string_view aggregation, const BatchSize& batch, std::int64_t sequence_tokens,
                    std::int64_t length_max) {
  const auto inverse = [](std::int64_t count) { return 1.0 / static_cast<double>(count); };
  if (aggregation == "token_mean") return inverse(batch.tokens);
  if (aggregation == "sequence_mean") return inverse(batch.sequences * sequence_tokens);
  if (aggregation == "sequence_sum_mean") return inverse(batch.sequences);
  if (aggregation == "constant_length_sum") return inverse(length_max);
  if (aggregation == "constant_length_mean") return inverse(batch.sequences * length_max);
  throw Error(ErrorKind::config, fmt::format("there is no aggregation called '{}'", aggregation),
              "use one of: token_mean, sequence_mean, sequence_sum_mean, constant_length_sum, constant_length_mean");
}

}  // namespace mrb
