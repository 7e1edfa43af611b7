#include "grpo/batch.hpp"

#include <numeric>
#include <utility>

#include "base/random.hpp"

namespace mrb {

std::vector<std::vector<int>> draw_minibatches(std::uint64_t seed, int step, int epoch, int sequences,
                                               int minibatches) {
  std::vector<int> order(static_cast<std::size_t>(sequences));
  std::iota(order.begin(), order.end(), 0);
  Random random({seed, Random::order, static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(epoch)});
  for (std::size_t left = order.size(); left > 1; --left) std::swap(order[left - 1], order[random.below(left)]);

  std::vector<std::vector<int>> parts;
  for (int part = 0; part < minibatches; ++part) {
    const auto begin = order.begin() + std::int64_t{sequences} * part / minibatches;
    const auto end = order.begin() + std::int64_t{sequences} * (part + 1) / minibatches;
    parts.emplace_back(begin, end);
  }
  return parts;
}

std::vector<MicroBatch> pack(std::span<const Trajectory* const> answers, int tokens_max) {
  std::vector<MicroBatch> batches;
  for (const Trajectory* answer : answers) {
    const auto length = static_cast<std::int64_t>(answer->prompt.size() + answer->answer.size()) - 1;
    if (batches.empty() || batches.back().packed.token_count() + length > tokens_max) batches.emplace_back();
    MicroBatch& batch = batches.back();
    auto& tokens = batch.packed.tokens;
    auto row = static_cast<std::int32_t>(tokens.size() + answer->prompt.size()) - 1;
    tokens.insert(tokens.end(), answer->prompt.begin(), answer->prompt.end());
    tokens.insert(tokens.end(), answer->answer.begin(), answer->answer.end() - 1);
    batch.packed.offsets.push_back(static_cast<std::int32_t>(tokens.size()));
    for (const std::int32_t target : answer->answer) {
      batch.scored.rows.push_back(row++);
      batch.scored.targets.push_back(target);
    }
    batch.answers.push_back(answer);
  }
  return batches;
}

}  // namespace mrb
