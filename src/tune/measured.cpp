#include "tune/measured.hpp"

namespace mrb {

std::map<int, double> mean_log_times(std::span<const Observation> observations) {
  struct Sum {
    double log_s = 0;
    int launches = 0;
    double mean() const { return log_s / launches; }
  };
  std::map<int, double> block_effect, log_s;
  for (int round = 0; round < 50; ++round) {  // each from the other in turn, until they stand still
    std::map<int, Sum> candidates, blocks;
    for (const Observation& seen : observations) {
      candidates[seen.candidate].log_s += seen.log_s - block_effect[seen.block];
      ++candidates[seen.candidate].launches;
    }
    for (const auto& [c, sum] : candidates) log_s[c] = sum.mean();
    for (const Observation& seen : observations) {
      blocks[seen.block].log_s += seen.log_s - log_s[seen.candidate];
      ++blocks[seen.block].launches;
    }
    double middle = 0;
    for (const auto& [b, sum] : blocks) middle += sum.mean() / static_cast<double>(blocks.size());
    for (const auto& [b, sum] : blocks) block_effect[b] = sum.mean() - middle;
  }
  return log_s;
}

std::optional<double> kendall_tau(std::span<const std::pair<double, double>> points) {
  if (points.size() < 4) return std::nullopt;
  int agreements = 0, pairs = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j, ++pairs) {
      const double sign = (points[i].first - points[j].first) * (points[i].second - points[j].second);
      agreements += sign > 0 ? 1 : sign < 0 ? -1 : 0;
    }
  }
  return static_cast<double>(agreements) / pairs;
}

}  // namespace mrb
