#include "model/parameters.hpp"

#include <cmath>

#include "model/policy_rank.hpp"
#include "support/catch.hpp"

namespace mrb::test {

namespace {

struct Drawn {
  Drawn(const ModelShape& shape, int ranks, int rank, std::uint64_t seed = 1)
      : compute(make_compute("cpu", {})), parameters(*compute, shape, {shape.experts, ranks}, rank) {
    parameters.draw(seed);
  }

  std::vector<float> values(const std::string& name) const {
    const Matrix weight = parameters.weight(parameters.find(name));
    return {weight.data, weight.data + weight.size()};
  }

  std::unique_ptr<ComputeBackend> compute;
  Parameters parameters;
};

double deviation(const std::vector<float>& values) {
  double squares = 0;
  for (const float value : values) squares += double{value} * double{value};
  return std::sqrt(squares / static_cast<double>(values.size()));
}

}  // namespace

TEST_CASE("tensors fill the memory without gaps, the replicated ones first", "[model]") {
  const Drawn drawn(every_part(), 2, 1);
  std::int64_t next = 0, replicated = 0;
  bool experts_began = false;
  for (const ParameterTensor& tensor : drawn.parameters.tensors()) {
    INFO(tensor.name);
    CHECK(tensor.offset == next);
    next += tensor.rows * tensor.columns;
    experts_began = experts_began || tensor.is_expert;
    CHECK(tensor.is_expert == experts_began);
    if (!tensor.is_expert) replicated = next;
  }
  CHECK(static_cast<std::size_t>(next) == drawn.parameters.weights().size());
  CHECK(drawn.parameters.gradients().size() == drawn.parameters.weights().size());
  CHECK(drawn.parameters.replicated_count() == replicated);
}

TEST_CASE("one rank holds as many weights as the model is said to have, norms apart", "[model]") {
  for (const char* name : {"tiny", "small"}) {
    const ModelShape shape = find_model_preset(name).value();
    const Drawn drawn(shape, 1, 0);
    const std::int64_t norms = (2 * shape.layers + 1) * shape.hidden;
    CHECK(static_cast<std::int64_t>(drawn.parameters.weights().size()) == count_parameters(shape).total + norms);
  }
}

TEST_CASE("a weight is the same however many ranks share the experts", "[model]") {
  const Drawn whole(every_part(), 1, 0);
  const auto all = whole.values("layers.2.experts.down");
  std::vector<float> pieces;
  for (int rank = 0; rank < 4; ++rank) {
    const Drawn part(every_part(), 4, rank);
    const auto piece = part.values("layers.2.experts.down");
    pieces.insert(pieces.end(), piece.begin(), piece.end());
    CHECK(part.values("layers.1.attention.qkv") == whole.values("layers.1.attention.qkv"));
  }
  CHECK(pieces == all);
}

TEST_CASE("seeds, tensors and experts all have weights of their own", "[model]") {
  const Drawn drawn(every_part(), 1, 0);
  CHECK(drawn.values("layers.1.attention.qkv") != drawn.values("layers.2.attention.qkv"));
  CHECK(drawn.values("embedding") != Drawn(every_part(), 1, 0, 2).values("embedding"));
  const auto experts = drawn.values("layers.1.experts.gate_up");
  const auto middle = experts.begin() + static_cast<std::ptrdiff_t>(experts.size() / 2);
  CHECK(!std::equal(experts.begin(), middle, middle));
}

TEST_CASE("weights begin with a deviation of 0.02, less where layers add up, and norms with 1", "[model]") {
  const ModelShape shape;  // tiny: two layers, so the second kind is halved
  const Drawn drawn(shape, 1, 0);
  CHECK(deviation(drawn.values("layers.0.attention.qkv")) == Approx(0.02).epsilon(0.03));
  CHECK(deviation(drawn.values("layers.1.experts.gate_up")) == Approx(0.02).epsilon(0.03));
  CHECK(deviation(drawn.values("layers.1.experts.down")) == Approx(0.01).epsilon(0.03));
  CHECK(deviation(drawn.values("layers.0.attention.output")) == Approx(0.01).epsilon(0.03));
  CHECK(drawn.values("final_norm") == std::vector<float>(static_cast<std::size_t>(shape.hidden), 1.0f));
}

TEST_CASE("a tied head has no weights of its own", "[model]") {
  ModelShape shape = every_part();
  shape.tied_head = true;
  const Drawn drawn(shape, 1, 0);
  CHECK_THROWS_WITH(drawn.parameters.find("head"), contains("no weights called 'head'"));
}

}  // namespace mrb::test
