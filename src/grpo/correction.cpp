#include "grpo/correction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"

namespace mrb {

namespace {

constexpr double kLogRatioMax = 20;

[[noreturn]] void refuse(std::string_view correction) {
  throw Error(ErrorKind::config, fmt::format("there is no correction called '{}'", correction),
              "use one of: none, truncate_token, truncate_sequence, truncate_geometric, mask_token, mask_sequence, "
              "mask_geometric, decoupled");
}

}  // namespace

std::vector<double> correction_weights(std::string_view correction, const CorrectionBounds& bounds,
                                       std::span<const float> old_log_probs, std::span<const float> rollout_log_probs) {
  std::vector<double> ratios(old_log_probs.size(), 0.0);
  if (correction == "none") {
    std::fill(ratios.begin(), ratios.end(), 1.0);
    return ratios;
  }
  for (std::size_t i = 0; i < ratios.size(); ++i) ratios[i] = double{old_log_probs[i]} - rollout_log_probs[i];

  const std::size_t underscore = correction.find('_');
  const std::string_view bounding = correction.substr(0, underscore);
  const std::string_view level = correction == "decoupled" ? "token" : correction.substr(underscore + 1);
  if (level == "sequence" || level == "geometric") {
    const double sum = std::accumulate(ratios.begin(), ratios.end(), 0.0);
    const double count = level == "geometric" ? static_cast<double>(ratios.size()) : 1;
    std::fill(ratios.begin(), ratios.end(), sum / count);
  } else if (level != "token") {
    refuse(correction);
  }
  for (double& ratio : ratios) {
    ratio = std::exp(std::clamp(ratio, -kLogRatioMax, kLogRatioMax));
    if (bounding == "truncate") {
      ratio = std::min(ratio, bounds.high);
    } else if (bounding == "mask") {
      ratio = ratio < bounds.low || ratio > bounds.high ? 0 : ratio;
    } else if (correction != "decoupled") {
      refuse(correction);
    }
  }
  return ratios;
}

}  // namespace mrb
