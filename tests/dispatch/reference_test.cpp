// The judge itself, on numbers worked out by hand.
#include "dispatch/reference.hpp"

#include "support/catch.hpp"

namespace mrb::test {

namespace {

// Two ranks, experts 0 and 1 on rank 0, 2 and 3 on rank 1, top_k = 3.
//   rank 0: token 0 -> 3, 0, 2     token 1 -> 2, dropped, dropped
//   rank 1: token 0 -> 1, 3, 2
const ExpertPlacement kPlacement{.expert_count = 4, .rank_count = 2};
const std::vector<RankRouting> kRouting = {{{3, 0, 2, 2, -1, -1}, 3}, {{1, 3, 2}, 3}};

std::string text_of(const std::vector<RowSource>& rows) {
  std::string text;
  for (const RowSource& row : rows) text += fmt::format("({} {} {})", row.rank, row.token, row.k);
  return text;
}

}  // namespace

TEST_CASE("rows come by expert, then source rank, token and k", "[dispatch]") {
  CHECK(text_of(reference_rows(kRouting, kPlacement, 0)) == "(0 0 1)(1 0 0)");
  CHECK(text_of(reference_rows(kRouting, kPlacement, 1)) == "(0 0 2)(0 1 0)(1 0 2)(0 0 0)(1 0 1)");
}

TEST_CASE("dispatch copies each token to the rows of its experts", "[dispatch]") {
  const std::vector<std::vector<float>> tokens = {{1, 2, 3, 4}, {5, 6}};
  const auto rows = reference_dispatch<float>(kRouting, kPlacement, 2, tokens);
  CHECK(rows[0] == std::vector<float>{1, 2, 5, 6});
  CHECK(rows[1] == std::vector<float>{1, 2, 3, 4, 5, 6, 1, 2, 5, 6});
}

// f32 holds no odd number above 2^24 = 16777216, and of two neighbours takes the one whose last bit is 0.
// Token 0 of rank 0 gets 1 (k = 0, expert 3, rank 1), 2^24 (k = 1, expert 0, rank 0) and 1 (k = 2, expert 2,
// rank 1):
//   by copy  (1 + 2^24) + 1 = 2^24 + 1 = 2^24, each time rounded back
//   by rank  2^24 + (1 + 1) = 2^24 + 2
TEST_CASE("combine adds in the order that its tree says", "[dispatch]") {
  const float big = 16777216;
  // Rows of rank 0: (0 0 1), (1 0 0). Rows of rank 1: (0 0 2), (0 1 0), (1 0 2), (0 0 0), (1 0 1).
  const std::vector<std::vector<float>> rows = {{big, 10}, {1, 7, 20, 1, 30}};
  const auto by_copy = reference_combine<float>(kRouting, kPlacement, 1, rows, ReductionTree::by_copy);
  CHECK(by_copy[0] == std::vector<float>{big, 7});
  CHECK(by_copy[1] == std::vector<float>{60});
  const auto by_rank = reference_combine<float>(kRouting, kPlacement, 1, rows, ReductionTree::by_rank);
  CHECK(by_rank[0] == std::vector<float>{big + 2, 7});
  CHECK(by_rank[1] == std::vector<float>{60});
}

TEST_CASE("a token whose copies are all dropped combines to zero", "[dispatch]") {
  const std::vector<RankRouting> routing = {{{-1, -1}, 2}};
  const ExpertPlacement placement{.expert_count = 2, .rank_count = 1};
  const std::vector<std::vector<double>> no_rows = {{}};
  CHECK(reference_combine<double>(routing, placement, 3, no_rows, ReductionTree::by_copy)[0] ==
        std::vector<double>{0, 0, 0});
}

}  // namespace mrb::test
