// Outside judges: the moments of the lognormal distribution in closed form, and a table of simulated means of maxima.
#include "grpo/lengths.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.hpp"
#include "compute/tokens.hpp"
#include "support/catch.hpp"
#include "support/temporary_file.hpp"

using namespace mrb;
using mrb::test::Approx;

namespace {

GrpoConfig lognormal(double mean, double cv, double correlation, int length_max) {
  GrpoConfig grpo;
  grpo.lengths = "lognormal";
  grpo.length_mean = mean;
  grpo.length_cv = cv;
  grpo.length_correlation = correlation;
  grpo.response_tokens_max = length_max;
  return grpo;
}

// Of one step of `prompts` groups.
std::vector<double> drawn(const GrpoConfig& grpo, int prompts, int step = 0) {
  const ResponseLengths lengths(grpo);
  std::vector<double> values;
  for (int sequence = 0; sequence < prompts * grpo.group_size; ++sequence) {
    values.push_back(lengths.longest({7, step, sequence}));
  }
  return values;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double variance(const std::vector<double>& values) {
  double squares = 0;
  const double middle = mean(values);
  for (const double value : values) squares += (value - middle) * (value - middle);
  return squares / static_cast<double>(values.size());
}

// Of the logarithms of answers 2i and 2i + 1 of the same group.
double correlation_of_pairs(const std::vector<double>& values) {
  std::vector<double> a, b;
  for (std::size_t i = 0; i + 1 < values.size(); i += 2) {
    a.push_back(std::log(values[i]));
    b.push_back(std::log(values[i + 1]));
  }
  double products = 0;
  const double mean_a = mean(a), mean_b = mean(b);
  for (std::size_t i = 0; i < a.size(); ++i) products += (a[i] - mean_a) * (b[i] - mean_b);
  return products / static_cast<double>(a.size()) / std::sqrt(variance(a) * variance(b));
}

}  // namespace

TEST_CASE("longest lengths take both ends of their range", "[grpo]") {
  GrpoConfig grpo;
  grpo.response_tokens_min = 3;
  grpo.response_tokens_max = 5;
  const auto lengths = drawn(grpo, 10);
  CHECK(std::set<double>(lengths.begin(), lengths.end()) == std::set<double>{3, 4, 5});
  CHECK(ResponseLengths(grpo).excluded_token() == kNoToken);
}

TEST_CASE("fixed lengths are all the longest, and do not end before", "[grpo]") {
  GrpoConfig grpo;
  grpo.lengths = "fixed";
  grpo.response_tokens_max = 11;
  for (const double length : drawn(grpo, 2)) CHECK(length == 11);
  CHECK(ResponseLengths(grpo).excluded_token() == kEndToken);
}

// Groups of two, so that pairs are independent. With cv 1 the variance of the logarithms is ln 2, and the correlation of
// the lengths themselves (2^0.5 - 1) / (2 - 1).
TEST_CASE("lognormal lengths have the mean, the spread and the correlation asked for", "[grpo]") {
  GrpoConfig grpo = lognormal(1000, 1, 0.5, 1048576);
  grpo.group_size = 2;
  const auto lengths = drawn(grpo, 20'000);
  CHECK(mean(lengths) == Approx(1000).epsilon(0.02));
  CHECK(std::sqrt(variance(lengths)) / mean(lengths) == Approx(1).epsilon(0.05));
  CHECK(correlation_of_pairs(lengths) == Approx(0.5).margin(0.02));
  for (const double rho : {0.0, 1.0}) {
    grpo.length_correlation = rho;
    CHECK(correlation_of_pairs(drawn(grpo, 20'000)) == Approx(rho).margin(0.02));
  }
}

// Above 2000 of mean 1000 and cv 1: z > (ln 2 + ln 2 / 2) / sqrt(ln 2) = 1.248832, a share of 0.105864.
TEST_CASE("lengths above the cap are cut to it", "[grpo]") {
  const auto lengths = drawn(lognormal(1000, 1, 0, 2000), 2'500);
  CHECK(*std::max_element(lengths.begin(), lengths.end()) == 2000);
  CHECK(*std::min_element(lengths.begin(), lengths.end()) >= 1);
  const auto at_cap = static_cast<double>(std::count(lengths.begin(), lengths.end(), 2000));
  CHECK(at_cap / static_cast<double>(lengths.size()) == Approx(0.105864).margin(0.005));
}

TEST_CASE("a spread of nothing gives the mean", "[grpo]") {
  for (const double length : drawn(lognormal(12.4, 0, 0.5, 100), 2)) CHECK(length == 12);
}

TEST_CASE("a length is a function of seed, step and sequence", "[grpo]") {
  const GrpoConfig grpo = lognormal(100, 1, 0.5, 800);
  CHECK(drawn(grpo, 4) == drawn(grpo, 4));
  CHECK(drawn(grpo, 4) != drawn(grpo, 4, 1));
  const ResponseLengths lengths(grpo);
  int same = 0;
  for (int sequence = 0; sequence < 64; ++sequence) {
    same += lengths.longest({7, 0, sequence}) == lengths.longest({8, 0, sequence}) ? 1 : 0;
  }
  CHECK(same < 8);
}

// E[max of n] over the mean, lengths cut at eight times the mean m: the integral from 0 to 8 m of 1 - F(x)^n over that of
// 1 - F(x), by the midpoint rule with 20000 points, F the lognormal distribution.
TEST_CASE("the longest of many is as much above the mean as the distribution says", "[grpo]") {
  struct {
    double cv;
    double of_16, of_128, of_1024;
  } rows[] = {{.25, 1.512, 1.848, 2.167},
              {.5, 2.132, 3.110, 4.207},
              {.75, 2.785, 4.665, 6.778},
              {1, 3.380, 6.039, 7.913},
              {1.5, 4.242, 7.504, 8.239}};
  for (const auto& row : rows) {
    const auto lengths = drawn(lognormal(1000, row.cv, 0, 8000), 4096);
    const auto mean_of_longest = [&](std::size_t n) {
      std::vector<double> longest;
      for (auto first = lengths.begin(); first != lengths.end(); first += static_cast<std::ptrdiff_t>(n)) {
        longest.push_back(*std::max_element(first, first + static_cast<std::ptrdiff_t>(n)));
      }
      return mean(longest) / mean(lengths);
    };
    INFO("cv " << row.cv);
    CHECK(mean_of_longest(16) == Approx(row.of_16).epsilon(0.05));
    CHECK(mean_of_longest(128) == Approx(row.of_128).epsilon(0.05));
    CHECK(mean_of_longest(1024) == Approx(row.of_1024).epsilon(0.05));
  }
}

TEST_CASE("recorded lengths come as often as they are recorded, and the cap cuts them", "[grpo]") {
  const test::TemporaryFile file("40\n10\n20\n10\n");
  GrpoConfig grpo;
  grpo.lengths = "empirical";
  grpo.length_file = file.path();
  grpo.length_correlation = 0;
  grpo.response_tokens_max = 30;
  const auto lengths = drawn(grpo, 1'000);
  const auto share = [&](double length) {
    return static_cast<double>(std::count(lengths.begin(), lengths.end(), length)) / 16'000;
  };
  CHECK(share(10) == Approx(0.5).margin(0.02));
  CHECK(share(20) == Approx(0.25).margin(0.02));
  CHECK(share(30) == Approx(0.25).margin(0.02));
  CHECK(ResponseLengths(grpo).excluded_token() == kEndToken);
  grpo.length_correlation = 1;  // a group shares its length
  const auto same = drawn(grpo, 20);
  for (std::size_t i = 0; i < same.size(); ++i) CHECK(same[i] == same[i - i % 16]);
}

TEST_CASE("recorded lengths that cannot be read are said to be so", "[grpo]") {
  GrpoConfig grpo;
  grpo.lengths = "empirical";
  grpo.length_file = "/nowhere/lengths.txt";
  CHECK_THROWS_WITH(ResponseLengths(grpo),
                    test::contains("'/nowhere/lengths.txt': there is no such file") && test::contains("fix: give a"));
}
