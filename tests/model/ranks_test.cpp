// However many ranks share the experts and the tokens, and whichever dispatcher carries them: the same model.
#include <map>

#include "model/policy_rank.hpp"
#include "support/catch.hpp"
#include "support/fake_clock.hpp"
#include "support/numbers.hpp"
#include "support/threaded_ranks.hpp"

namespace mrb::test {

namespace {

constexpr double kDistanceMax = 1e-5;
constexpr double kTemperature = 0.8;
constexpr std::uint64_t kSeed = 11;

// What a batch of sequences gives, put together from all ranks.
struct Outcome {
  std::map<std::size_t, std::vector<float>> log_probs;  // by sequence
  std::map<std::string, std::vector<float>> gradients;  // by tensor; all experts
  std::vector<std::vector<std::int64_t>> load;
  std::map<std::size_t, std::vector<float>> next_logits;  // by sequence: prefilled, then two tokens decoded
};

// Which rank has which sequences.
using Owner = std::function<int(std::size_t sequence)>;

std::vector<std::vector<std::int32_t>> sequences() {
  return draw_sequences(12, every_part().vocab, {6, 3, 9, 2, 5, 4});
}

std::vector<std::size_t> owned(int rank, const Owner& owner) {
  std::vector<std::size_t> mine;
  for (std::size_t s = 0; s < sequences().size(); ++s) {
    if (owner(s) == rank) mine.push_back(s);
  }
  return mine;
}

void train(PolicyRank& rank, const std::vector<std::size_t>& mine, Outcome& outcome) {
  const auto all = sequences();
  Batch batch;
  std::vector<float> factors;
  for (const std::size_t s : mine) {
    batch.add(all[s]);
    for (std::size_t t = 0; t + 1 < all[s].size(); ++t) factors.push_back(0.1f * static_cast<float>(s) - 0.3f);
  }
  const std::vector<std::vector<float>> balance(2, {0.01f, -0.02f, 0.03f, 0, 0.02f, 0.01f, -0.01f, 0.04f});

  std::vector<float> log_probs;
  auto tape = rank.policy.forward(batch.packed, batch.scored, kTemperature, log_probs);
  rank.policy.backward(std::move(tape), factors, balance);

  auto next = log_probs.begin();
  for (const std::size_t s : mine) {
    const auto end = next + static_cast<std::ptrdiff_t>(all[s].size()) - 1;
    outcome.log_probs[s].assign(next, end);
    next = end;
  }
  outcome.load = rank.policy.take_router_load();
  for (const ParameterTensor& tensor : rank.policy.parameters().tensors()) {
    const Matrix gradient = rank.policy.parameters().gradient(tensor);
    outcome.gradients[tensor.name].assign(gradient.data, gradient.data + gradient.size());
  }
}

void generate(PolicyRank& rank, const std::vector<std::size_t>& mine, Outcome& outcome) {
  const auto all = sequences();
  Batch batch;
  std::vector<int> slots;
  for (const std::size_t s : mine) {
    slots.push_back(static_cast<int>(slots.size()));
    batch.add(all[s]);
  }
  KvCache cache(*rank.compute, rank.policy.shape(), static_cast<int>(slots.size()), 16);
  rank.policy.prefill(batch.packed, slots, cache);
  rank.policy.decode(std::vector<std::int32_t>(slots.size(), 1), slots, cache);
  const Tensor logits = rank.policy.decode(std::vector<std::int32_t>(slots.size(), 2), slots, cache);
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const float* row = logits.view().row(static_cast<std::int64_t>(i));
    outcome.next_logits[mine[i]].assign(row, row + logits.view().columns);
  }
}

// Replicated gradients are summed over ranks, loads too, experts follow each other.
Outcome merged(const std::vector<Outcome>& ranks, const std::vector<ParameterTensor>& tensors) {
  Outcome all = ranks[0];
  for (std::size_t r = 1; r < ranks.size(); ++r) {
    all.log_probs.insert(ranks[r].log_probs.begin(), ranks[r].log_probs.end());
    all.next_logits.insert(ranks[r].next_logits.begin(), ranks[r].next_logits.end());
    for (std::size_t layer = 0; layer < all.load.size(); ++layer) {
      for (std::size_t e = 0; e < all.load[layer].size(); ++e) all.load[layer][e] += ranks[r].load[layer][e];
    }
    for (const ParameterTensor& tensor : tensors) {
      auto& sum = all.gradients[tensor.name];
      const auto& piece = ranks[r].gradients.at(tensor.name);
      if (tensor.is_expert) {
        sum.insert(sum.end(), piece.begin(), piece.end());
      } else {
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += piece[i];
      }
    }
  }
  return all;
}

Outcome run(int ranks, const std::string& dispatcher, const Owner& owner) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks));
  std::vector<ParameterTensor> tensors;
  run_ranks(ranks, [&](Bootstrap& bootstrap) {
    PolicyRank rank(bootstrap, every_part(), {.dispatcher = dispatcher, .seed = kSeed});
    enlarge_weights(rank.policy);
    Outcome& outcome = outcomes[static_cast<std::size_t>(bootstrap.rank())];
    const auto mine = owned(bootstrap.rank(), owner);
    train(rank, mine, outcome);
    generate(rank, mine, outcome);
    if (bootstrap.rank() == 0) tensors = rank.policy.parameters().tensors();
    bootstrap.barrier();
  });
  return merged(outcomes, tensors);
}

void check_same(const Outcome& actual, const Outcome& expected) {
  CHECK(actual.load == expected.load);
  REQUIRE(actual.log_probs.size() == expected.log_probs.size());
  for (const auto& [sequence, values] : expected.log_probs) {
    INFO("sequence " << sequence);
    CHECK(relative_distance(actual.log_probs.at(sequence), values) < kDistanceMax);
    CHECK(relative_distance(actual.next_logits.at(sequence), expected.next_logits.at(sequence)) < kDistanceMax);
  }
  for (const auto& [name, values] : expected.gradients) {
    INFO(name);
    CHECK(relative_distance(actual.gradients.at(name), values) < kDistanceMax);
  }
}

}  // namespace

TEST_CASE("any number of ranks and any dispatcher compute the same", "[model]") {
  const Outcome expected = run(1, "reference", [](std::size_t) { return 0; });
  for (const RegistryLine& line : dispatcher_lines()) {
    for (const int ranks : {1, 2, 4}) {
      if (line.name == "reference" && ranks > 1) continue;  // it is for one rank
      INFO(line.name << " on " << ranks << " ranks");
      check_same(run(ranks, line.name, [&](std::size_t s) { return static_cast<int>(s) % ranks; }), expected);
    }
  }
}

TEST_CASE("ranks without tokens lend their experts to the others", "[model]") {
  const Outcome expected = run(1, "reference", [](std::size_t) { return 0; });
  for (const RegistryLine& line : dispatcher_lines()) {
    if (line.name == "reference") continue;
    INFO(line.name);
    check_same(run(4, line.name, [](std::size_t) { return 2; }), expected);
  }
}

TEST_CASE("exchanges are timed inside the phase of the caller", "[model]") {
  const FakeClock clock(1);
  SoloPolicy solo(every_part(), {}, clock);
  const Batch batch = batch_of(sequences());
  solo.rank.phases.begin_step();
  std::unique_ptr<Tape> tape;
  {
    const PhaseClock::Scope phase(solo.rank.phases, "forward");
    std::vector<float> log_probs;
    tape = solo.policy.forward(batch.packed, batch.scored, 1.0, log_probs);
  }
  {
    const PhaseClock::Scope phase(solo.rank.phases, "backward");
    solo.policy.backward(std::move(tape), std::vector<float>(batch.scored.rows.size(), 1.0f), {});
  }
  const auto times = solo.rank.phases.end_step();
  // The clock moves by 1 at each reading, a phase is left by one: two layers with experts, once each way.
  for (const char* name : {"forward.dispatch", "forward.combine", "backward.dispatch", "backward.combine"}) {
    INFO(name);
    REQUIRE(times.phase_ns.count(name) == 1);
    CHECK(times.phase_ns.at(name) == 2);
  }
}

}  // namespace mrb::test
