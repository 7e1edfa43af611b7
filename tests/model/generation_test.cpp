// Prefill and decode must give what the full forward pass gives at the same positions.
#include <numeric>

#include "model/policy_rank.hpp"
#include "support/catch.hpp"
#include "support/numbers.hpp"

namespace mrb::test {

namespace {

constexpr double kDistanceMax = 1e-5;

PackedTokens pack(const std::vector<std::vector<std::int32_t>>& sequences) {
  return batch_of(sequences).packed;
}

// Logits after each sequence's last token, from prefill alone, by sequence.
std::vector<std::vector<float>> last_logits(SoloPolicy& solo, const std::vector<std::vector<std::int32_t>>& sequences) {
  std::vector<int> slots(sequences.size());
  std::iota(slots.begin(), slots.end(), 0);
  KvCache cache(*solo.rank.compute, solo.policy.shape(), static_cast<int>(slots.size()), 32);
  const Tensor logits = solo.policy.prefill(pack(sequences), slots, cache);
  std::vector<std::vector<float>> rows;
  for (std::int64_t i = 0; i < logits.rows(); ++i) {
    rows.emplace_back(logits.view().row(i), logits.view().row(i) + logits.view().columns);
  }
  return rows;
}

std::span<const float> row(const Tensor& logits, std::int64_t i) {
  return {logits.view().row(i), static_cast<std::size_t>(logits.view().columns)};
}

std::vector<std::int32_t> with(std::vector<std::int32_t> tokens, std::int32_t next) {
  tokens.push_back(next);
  return tokens;
}

}  // namespace

TEST_CASE("decoding gives the logits of the whole sequence, in slots of different lengths", "[model]") {
  SoloPolicy solo(every_part());
  enlarge_weights(solo.policy);
  auto sequences = draw_sequences(6, solo.policy.shape().vocab, {3, 8, 1});
  const std::vector<int> slots = {4, 0, 2};  // any order, with gaps
  KvCache cache(*solo.rank.compute, solo.policy.shape(), 5, 16);
  const Tensor prefilled = solo.policy.prefill(pack(sequences), slots, cache);
  const auto expected = last_logits(solo, sequences);
  for (std::size_t s = 0; s < slots.size(); ++s) {
    CHECK(relative_distance(row(prefilled, static_cast<std::int64_t>(s)), expected[s]) < kDistanceMax);
  }

  for (std::int32_t step = 0; step < 6; ++step) {
    std::vector<std::int32_t> next;
    for (std::size_t s = 0; s < slots.size(); ++s) {
      next.push_back((step * 5 + static_cast<std::int32_t>(s) * 3) % solo.policy.shape().vocab);
      sequences[s].push_back(next.back());
    }
    const Tensor logits = solo.policy.decode(next, slots, cache);
    const auto whole = last_logits(solo, sequences);
    for (std::size_t s = 0; s < slots.size(); ++s) {
      INFO("step " << step << ", sequence " << s);
      CHECK(cache.length(slots[s]) == static_cast<int>(sequences[s].size()));
      CHECK(relative_distance(row(logits, static_cast<std::int64_t>(s)), whole[s]) < kDistanceMax);
    }
  }
}

TEST_CASE("log-probabilities are those of the logits at the same positions", "[model]") {
  SoloPolicy solo(every_part());
  enlarge_weights(solo.policy);
  const double temperature = 0.7;
  const auto sequence = draw_sequences(8, solo.policy.shape().vocab, {7})[0];
  const Batch batch = batch_of({sequence});
  const auto log_probs = solo.policy.log_probs(batch.packed, batch.scored, temperature);
  for (std::size_t i = 0; i < batch.scored.rows.size(); ++i) {
    const auto end = sequence.begin() + batch.scored.rows[i] + 1;
    const auto logits = last_logits(solo, {{sequence.begin(), end}})[0];
    double sum = 0;
    for (const float logit : logits) sum += std::exp(double{logit} / temperature);
    const double logit = logits[static_cast<std::size_t>(batch.scored.targets[i])];
    CHECK(log_probs[i] == Approx(logit / temperature - std::log(sum)).epsilon(1e-5));
  }
}

TEST_CASE("a copied slot goes on as the original does, and both go their own way", "[model]") {
  SoloPolicy solo(every_part());
  enlarge_weights(solo.policy);
  const auto prompts = draw_sequences(9, solo.policy.shape().vocab, {5, 2});
  KvCache cache(*solo.rank.compute, solo.policy.shape(), 3, 16);
  solo.policy.prefill(pack(prompts), std::vector<int>{0, 1}, cache);
  cache.copy_slot(0, 2, cache.length(0));
  CHECK(cache.length(2) == 5);

  solo.policy.decode(std::vector<std::int32_t>{3, 4}, std::vector<int>{2, 0}, cache);
  const Tensor logits = solo.policy.decode(std::vector<std::int32_t>{1, 1}, std::vector<int>{0, 2}, cache);

  const auto expected = last_logits(solo, {with(with(prompts[0], 4), 1), with(with(prompts[0], 3), 1)});
  CHECK(relative_distance(row(logits, 0), expected[0]) < kDistanceMax);
  CHECK(relative_distance(row(logits, 1), expected[1]) < kDistanceMax);
}

TEST_CASE("changed weights are used once they are published, all of them", "[model]") {
  const auto prompt = draw_sequences(11, every_part().vocab, {5});
  SoloPolicy solo(every_part());
  for (const ParameterTensor& tensor : solo.policy.parameters().tensors()) {
    INFO(tensor.name);
    const auto before = last_logits(solo, prompt);
    const Matrix weight = solo.policy.parameters().weight(tensor);
    for (std::int64_t i = 0; i < weight.size(); ++i) weight.data[i] *= 1.5f;
    CHECK(solo.policy.publish_weights() > 0);
    CHECK(last_logits(solo, prompt) != before);
  }
  // A policy whose weights were changed at once says the same: nothing of the old ones is left.
  SoloPolicy other(every_part());
  const auto weights = solo.policy.parameters().weights();
  std::copy(weights.begin(), weights.end(), other.policy.parameters().weights().begin());
  other.policy.publish_weights();
  CHECK(last_logits(other, prompt) == last_logits(solo, prompt));
}

TEST_CASE("the cache takes two numbers for every layer, slot, token and key width", "[model]") {
  SoloPolicy solo(every_part());
  const KvCache cache(*solo.rank.compute, solo.policy.shape(), 7, 10);
  CHECK(cache.bytes() == 2u * 3 * 7 * 10 * (2 * 8) * sizeof(float));
}

TEST_CASE("a slot that is full says so before it runs into the next", "[model]") {
  SoloPolicy solo(every_part());
  const auto prompts = draw_sequences(10, solo.policy.shape().vocab, {4});
  KvCache cache(*solo.rank.compute, solo.policy.shape(), 2, 4);
  solo.policy.prefill(pack(prompts), std::vector<int>{0}, cache);
  CHECK_THROWS_WITH(solo.policy.decode(std::vector<std::int32_t>{1}, std::vector<int>{0}, cache),
                    contains("slot 0 of the cache holds 4 tokens at most, not 5"));
}

}  // namespace mrb::test
