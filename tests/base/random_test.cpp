#include "base/random.hpp"

#include <vector>

#include "support/catch.hpp"

using mrb::Random;

TEST_CASE("a stream is a function of its key", "[base]") {
  Random a({7, Random::sampling, 3}), b({7, Random::sampling, 3});
  for (int i = 0; i < 100; ++i) CHECK(a.next() == b.next());
}

TEST_CASE("streams whose keys differ in one part share no numbers", "[base]") {
  const auto first = [](Random stream) { return stream.next(); };
  const std::vector<std::uint64_t> values = {first(Random({1, 2})), first(Random({2, 1})), first(Random({1, 2, 0})),
                                             first(Random({0, 1, 2})), first(Random({1}))};
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) CHECK(values[i] != values[j]);
  }
}

// 100,000 draws: the mean of a uniform is within 5 standard errors (5 * sqrt(1/12) / sqrt(n) = 0.0046) of 1/2, the
// mean and variance of a normal within 5 standard errors (0.016 and 0.022) of 0 and 1.
TEST_CASE("uniform and normal numbers have the moments they should", "[base]") {
  Random stream({11, Random::weights});
  constexpr int kDraws = 100000;
  double uniform_sum = 0, normal_sum = 0, square_sum = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double u = stream.uniform();
    REQUIRE((u >= 0 && u < 1));
    uniform_sum += u;
    const double n = stream.normal();
    normal_sum += n;
    square_sum += n * n;
  }
  CHECK(uniform_sum / kDraws == mrb::test::Approx(0.5).margin(0.0046));
  CHECK(normal_sum / kDraws == mrb::test::Approx(0).margin(0.016));
  CHECK(square_sum / kDraws == mrb::test::Approx(1).margin(0.022));
}

// 60,000 throws of a die: each face 10,000 times within 5 standard deviations (91.3 each).
TEST_CASE("below() is even and stays below its end", "[base]") {
  Random stream({5});
  int faces[6] = {};
  for (int i = 0; i < 60000; ++i) ++faces[stream.below(6)];
  for (const int count : faces) CHECK(std::abs(count - 10000) < 457);
  for (int i = 0; i < 100; ++i) CHECK(stream.below(1) == 0);
}
