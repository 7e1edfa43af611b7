#include "config/roles.hpp"

#include <charconv>
#include <numeric>

namespace mrb {

Ratio parse_ratio(const std::string& text) {
  constexpr int kMax = 4096;
  const char* const end = text.data() + text.size();
  Ratio ratio;
  const auto rollout = std::from_chars(text.data(), end, ratio.rollout);
  if (rollout.ec != std::errc() || rollout.ptr == end || *rollout.ptr != ':') return {};
  const auto train = std::from_chars(rollout.ptr + 1, end, ratio.train);
  if (train.ec != std::errc() || train.ptr != end) return {};
  if (ratio.rollout < 1 || ratio.train < 1 || ratio.rollout > kMax || ratio.train > kMax) return {};
  const int divisor = std::gcd(ratio.rollout, ratio.train);
  return {ratio.rollout / divisor, ratio.train / divisor};
}

Roles roles_of(const Config& config) {
  Roles roles;
  roles.apart = config.schedule.name != "colocated";
  roles.train_ranks = roles.rollout_ranks = config.ranks;
  if (roles.apart) {
    const Ratio ratio = parse_ratio(config.schedule.rollout_train_ratio);
    const int parts = ratio.rollout + ratio.train;
    roles.rollout_ranks = config.schedule.rollout_ranks;
    if (roles.rollout_ranks == 0 && parts > 0 && config.ranks % parts == 0) {
      roles.rollout_ranks = config.ranks / parts * ratio.rollout;
    }
    roles.train_ranks = config.ranks - roles.rollout_ranks;
  }
  const int wanted = roles.apart ? config.rollout.expert_parallel : 0;
  roles.rollout_expert_parallel = wanted > 0 ? wanted : roles.rollout_ranks;
  return roles;
}

int staleness_max(const ScheduleConfig& schedule) {
  if (schedule.name == "async") return schedule.max_staleness;
  return schedule.name == "one_step_off" ? 1 : 0;
}

}  // namespace mrb
