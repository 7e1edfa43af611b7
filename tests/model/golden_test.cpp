// The policy against torch: tests/reference/README.md says how the files were made.
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>

#include "model/policy_rank.hpp"
#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/threaded_ranks.hpp"

namespace mrb::test {

namespace {

constexpr double kDistanceMax = 1e-5;
constexpr double kWeightUnit = 1.0 / 1024;

// Named lists of numbers, one a line.
class Golden {
 public:
  explicit Golden(const std::string& name) {
    std::ifstream file(std::string(MRB_SOURCE_DIR) + "/tests/reference/model_" + name + ".txt");
    REQUIRE(file.good());
    for (std::string text; std::getline(file, text);) {
      std::istringstream line(text);
      std::string key;
      line >> key;
      for (double value; line >> value;) lines_[key].push_back(value);
    }
  }

  const std::vector<double>& list(const std::string& name) const { return lines_.at(name); }
  double number(const std::string& name) const { return list(name).at(0); }
  std::vector<std::int32_t> integers(const std::string& name) const { return {list(name).begin(), list(name).end()}; }

  ModelShape shape() const {
    const auto integer = [&](const char* name) { return static_cast<int>(number(std::string("shape.") + name)); };
    ModelShape shape;
    shape.layers = integer("layers");
    shape.dense_layers = integer("dense_layers");
    shape.hidden = integer("hidden");
    shape.heads = integer("heads");
    shape.kv_heads = integer("kv_heads");
    shape.head_dim = integer("head_dim");
    shape.experts = integer("experts");
    shape.top_k = integer("top_k");
    shape.expert_ff = integer("expert_ff");
    shape.shared_ff = integer("shared_ff");
    shape.dense_ff = integer("dense_ff");
    shape.vocab = integer("vocab");
    shape.tied_head = integer("tied_head") != 0;
    shape.rope_theta = number("shape.rope_theta");
    shape.norm_eps = number("shape.norm_eps");
    return shape;
  }

  PackedTokens packed() const { return {integers("tokens"), integers("offsets")}; }
  ScoredTokens scored() const { return {integers("rows"), integers("targets")}; }

 private:
  std::map<std::string, std::vector<double>> lines_;
};

// How the model is spread.
struct Spread {
  std::string dispatcher;
  int ranks = 1;
};

// What one rank has of the input: with N ranks, every Nth sequence.
struct Share {
  Share(const Golden& golden, int rank, int ranks) {
    const PackedTokens all = golden.packed();
    std::map<std::int32_t, std::int32_t> here;  // row of the whole input -> row of the share
    for (std::size_t s = static_cast<std::size_t>(rank); s + 1 < all.offsets.size();
         s += static_cast<std::size_t>(ranks)) {
      for (std::int32_t row = all.offsets[s]; row < all.offsets[s + 1]; ++row) {
        here[row] = static_cast<std::int32_t>(packed.tokens.size());
        rows.push_back(static_cast<std::size_t>(row));
        packed.tokens.push_back(all.tokens[static_cast<std::size_t>(row)]);
      }
      packed.offsets.push_back(static_cast<std::int32_t>(packed.tokens.size()));
    }
    const ScoredTokens all_scored = golden.scored();
    for (std::size_t i = 0; i < all_scored.rows.size(); ++i) {
      const auto found = here.find(all_scored.rows[i]);
      if (found == here.end()) continue;
      scored.rows.push_back(found->second);
      scored.targets.push_back(all_scored.targets[i]);
      factors.push_back(static_cast<float>(golden.list("factors")[i]));
      scores.push_back(i);
    }
  }

  PackedTokens packed;
  std::vector<std::size_t> rows;  // of the whole input
  ScoredTokens scored;
  std::vector<float> factors;
  std::vector<std::size_t> scores;  // of the whole input
};

// What all ranks give together.
struct Outcome {
  std::vector<float> logits;
  std::vector<float> log_probs;
  std::vector<double> load;
  std::map<std::string, std::vector<float>> gradients;
};

// Throws where a test would REQUIRE, because ranks are threads.
void set_weights(Policy& policy, const Golden& golden, const Spread& spread, int rank) {
  for (const ParameterTensor& tensor : policy.parameters().tensors()) {
    const auto& numerators = golden.list("weight." + tensor.name);
    const Matrix weight = policy.parameters().weight(tensor);
    const auto size = static_cast<std::size_t>(weight.size());
    if (numerators.size() != (tensor.is_expert ? size * static_cast<std::size_t>(spread.ranks) : size)) {
      throw std::logic_error(tensor.name + " has another size in the file");
    }
    const std::size_t first = tensor.is_expert ? size * static_cast<std::size_t>(rank) : 0;
    for (std::size_t i = 0; i < size; ++i) {
      weight.data[i] = static_cast<float>(numerators[first + i] * kWeightUnit);
    }
  }
  policy.publish_weights();
}

// Every beginning of every sequence, so that prefill() gives the logits of all positions.
PackedTokens beginnings(const PackedTokens& packed) {
  PackedTokens all;
  for (std::size_t s = 0; s + 1 < packed.offsets.size(); ++s) {
    const auto first = packed.tokens.begin() + packed.offsets[s];
    for (std::int32_t length = 1; length <= packed.offsets[s + 1] - packed.offsets[s]; ++length) {
      all.tokens.insert(all.tokens.end(), first, first + length);
      all.offsets.push_back(static_cast<std::int32_t>(all.tokens.size()));
    }
  }
  return all;
}

// The gradient of the balancing loss by the probabilities of one token, by layer with experts.
std::vector<std::vector<float>> balance_gradient(const Golden& golden, const ModelShape& shape) {
  const auto& load = golden.list("load");
  const double tokens = static_cast<double>(golden.list("tokens").size());
  std::vector<std::vector<float>> balance;
  for (std::size_t i = 0; i < load.size(); ++i) {
    if (i % static_cast<std::size_t>(shape.experts) == 0) balance.emplace_back();
    const double fraction = load[i] / (tokens * shape.top_k);
    balance.back().push_back(static_cast<float>(golden.number("aux_coef") * shape.experts * fraction / tokens));
  }
  return balance;
}

// Each rank writes to rows of its own.
void prefill(PolicyRank& rank, const Share& share, Outcome& outcome) {
  const PackedTokens all = beginnings(share.packed);
  std::vector<int> slots(all.offsets.size() - 1);
  for (std::size_t s = 0; s < slots.size(); ++s) slots[s] = static_cast<int>(s);
  KvCache cache(*rank.compute, rank.policy.shape(), static_cast<int>(slots.size()), 16);
  const Tensor logits = rank.policy.prefill(all, slots, cache);
  const auto vocab = static_cast<std::size_t>(logits.view().columns);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    std::copy_n(logits.view().row(static_cast<std::int64_t>(i)), vocab, outcome.logits.data() + share.rows[i] * vocab);
  }
}

void train(PolicyRank& rank, const Golden& golden, const Share& share, Outcome& outcome) {
  rank.policy.take_router_load();
  std::vector<float> log_probs;
  auto tape = rank.policy.forward(share.packed, share.scored, golden.number("temperature"), log_probs);
  rank.policy.backward(std::move(tape), share.factors, balance_gradient(golden, rank.policy.shape()));
  for (std::size_t i = 0; i < log_probs.size(); ++i) outcome.log_probs[share.scores[i]] = log_probs[i];
}

// Called rank after rank: replicated gradients and loads are summed, experts follow each other.
void collect(PolicyRank& rank, Outcome& outcome) {
  for (const ParameterTensor& tensor : rank.policy.parameters().tensors()) {
    const Matrix gradient = rank.policy.parameters().gradient(tensor);
    auto& all = outcome.gradients[tensor.name];
    if (tensor.is_expert || all.empty()) {
      all.insert(all.end(), gradient.data, gradient.data + gradient.size());
    } else {
      for (std::size_t i = 0; i < all.size(); ++i) all[i] += gradient.data[i];
    }
  }
  std::size_t place = 0;
  for (const auto& layer : rank.policy.take_router_load()) {
    for (const std::int64_t copies : layer) {
      if (place == outcome.load.size()) outcome.load.push_back(0);
      outcome.load[place++] += static_cast<double>(copies);
    }
  }
}

Outcome run(const Golden& golden, const Spread& spread) {
  Outcome outcome;
  outcome.logits.resize(golden.list("logits").size(), NAN);
  outcome.log_probs.resize(golden.list("log_probs").size(), NAN);
  run_ranks(spread.ranks, [&](Bootstrap& bootstrap) {
    PolicyRank rank(bootstrap, golden.shape(), {.dispatcher = spread.dispatcher});
    set_weights(rank.policy, golden, spread, bootstrap.rank());
    const Share share(golden, bootstrap.rank(), spread.ranks);
    prefill(rank, share, outcome);
    train(rank, golden, share, outcome);
    for (int turn = 0; turn < spread.ranks; ++turn) {
      bootstrap.barrier();
      if (turn == bootstrap.rank()) collect(rank, outcome);
    }
    bootstrap.barrier();  // nobody frees memory that a peer may still write to
  });
  return outcome;
}

}  // namespace

TEST_CASE("logits, log-probabilities, loss, load and every gradient are those of torch", "[model]") {
  const auto name = GENERATE("shared", "tied");
  const auto spread = GENERATE(Spread{"reference", 1}, Spread{"alltoall", 1}, Spread{"rank_dedup", 1},
                               Spread{"alltoall", 2}, Spread{"rank_dedup", 2});
  INFO(name << ", " << spread.dispatcher << " on " << spread.ranks << " ranks");
  const Golden golden(name);

  const Outcome outcome = run(golden, spread);

  CHECK(relative_distance(outcome.logits, golden.list("logits")) < kDistanceMax);
  CHECK(relative_distance(outcome.log_probs, golden.list("log_probs")) < kDistanceMax);
  CHECK(outcome.load == golden.list("load"));
  double loss = 0;
  for (std::size_t i = 0; i < outcome.log_probs.size(); ++i) {
    loss += golden.list("factors")[i] * double{outcome.log_probs[i]};
  }
  CHECK(loss == Approx(golden.number("loss")).epsilon(kDistanceMax));
  for (const auto& [tensor, gradient] : outcome.gradients) {
    INFO(tensor);
    CHECK(relative_distance(gradient, golden.list("gradient." + tensor)) < kDistanceMax);
  }
}

}  // namespace mrb::test
