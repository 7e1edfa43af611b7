#include "grpo/lengths.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/error.hpp"
#include "base/random.hpp"
#include "compute/tokens.hpp"
#include "config/length_file.hpp"

namespace mrb {

namespace {

std::uint64_t key(int value) {
  return static_cast<std::uint64_t>(value);
}

// The share of a standard normal distribution below z.
double normal_share(double z) {
  return std::erfc(-z / std::numbers::sqrt2) / 2;
}

double lognormal(double mean, double cv, double z) {
  const double variance = std::log1p(cv * cv);
  return std::exp(std::log(mean) - variance / 2 + std::sqrt(variance) * z);
}

int at_share(const std::vector<int>& ascending, double share) {
  const auto place = static_cast<std::size_t>(share * static_cast<double>(ascending.size()));
  return ascending[std::min(place, ascending.size() - 1)];
}

}  // namespace

ResponseLengths::ResponseLengths(const GrpoConfig& config) : config_(config) {
  if (config.lengths != "empirical") return;
  LengthFile file = read_length_file(config.length_file);
  if (!file.problem.empty()) throw Error(ErrorKind::config, file.problem, file.fix);
  recorded_ = std::move(file.lengths);
  std::sort(recorded_.begin(), recorded_.end());
}

int ResponseLengths::longest(const SequenceId& id) const {
  const int most = config_.response_tokens_max;
  if (config_.lengths == "fixed") return most;
  if (config_.lengths == "until_end") {
    Random random({id.seed, Random::lengths, key(id.step), key(id.sequence)});
    return config_.response_tokens_min + static_cast<int>(random.below(key(most - config_.response_tokens_min + 1)));
  }
  const double z = standard_normal(id);
  const double length = config_.lengths == "lognormal" ? lognormal(config_.length_mean, config_.length_cv, z)
                                                       : at_share(recorded_, normal_share(z));
  return static_cast<int>(std::clamp(std::round(length), 1.0, static_cast<double>(most)));
}

std::int32_t ResponseLengths::excluded_token() const {
  return config_.lengths == "until_end" ? kNoToken : kEndToken;
}

double ResponseLengths::standard_normal(const SequenceId& id) const {
  const int prompt = id.sequence / config_.group_size;
  Random of_prompt({id.seed, Random::prompt_lengths, key(id.step), key(prompt)});
  Random of_sample({id.seed, Random::lengths, key(id.step), key(id.sequence)});
  const double rho = config_.length_correlation;
  return std::sqrt(rho) * of_prompt.normal() + std::sqrt(1 - rho) * of_sample.normal();
}

}  // namespace mrb
