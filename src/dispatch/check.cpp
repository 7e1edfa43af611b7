#include "dispatch/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>

#include "base/error.hpp"
#include "base/random.hpp"
#include "cluster/agree.hpp"
#include "dispatch/reference.hpp"

namespace mrb {

namespace {

// One in this many copies is dropped, and one in this many tokens loses all of its copies.
constexpr std::uint64_t kDroppedCopies = 16;
constexpr std::uint64_t kDroppedTokens = 32;

// Different experts for every token, drawn by shuffling the first top_k of a list of all experts.
RankRouting draw_routing(const DispatchCheck& check, int expert_count, int rank) {
  RankRouting routing{.expert_ids = {}, .top_k = check.top_k};
  Random random({check.seed, Random::routing, static_cast<std::uint64_t>(rank)});
  std::vector<std::int32_t> experts(static_cast<std::size_t>(expert_count));
  std::iota(experts.begin(), experts.end(), 0);
  for (std::int64_t token = 0; token < check.tokens_per_rank; ++token) {
    const bool dropped = random.below(kDroppedTokens) == 0;
    for (std::size_t k = 0; k < static_cast<std::size_t>(check.top_k); ++k) {
      std::swap(experts[k], experts[k + random.below(experts.size() - k)]);
      routing.expert_ids.push_back(dropped || random.below(kDroppedCopies) == 0 ? -1 : experts[k]);
    }
  }
  return routing;
}

// Uneven numbers, so that sums in another order differ in their last bits.
template <class T>
std::vector<T> draw_payload(std::uint64_t seed, std::uint64_t what, int rank, std::size_t count) {
  Random random({seed, Random::payload, what, static_cast<std::uint64_t>(rank)});
  std::vector<T> payload(count);
  for (T& value : payload) value = static_cast<T>(random.uniform() - 0.5);
  return payload;
}

template <class T>
std::vector<T> filled_with_nan(std::size_t count) {
  return std::vector<T>(count, std::numeric_limits<T>::quiet_NaN());  // what stays unwritten is then seen
}

// Runs on one rank and compares what the dispatcher gave it. Routing and payload are those of all ranks.
template <class T>
class Comparison {
 public:
  Comparison(Dispatcher& dispatcher, Bootstrap& bootstrap, const DispatcherOptions& options, const DispatchCheck& check)
      : dispatcher_(dispatcher), bootstrap_(bootstrap), options_(options), me_(bootstrap.rank()) {
    const auto hidden = static_cast<std::size_t>(options.hidden);
    for (int rank = 0; rank < bootstrap.size(); ++rank) {
      const auto& drawn = routing_.emplace_back(draw_routing(check, options.placement.expert_count, rank));
      const std::size_t copies = drawn.expert_ids.size();
      tokens_.push_back(draw_payload<T>(check.seed, 0, rank, copies / static_cast<std::size_t>(check.top_k) * hidden));
      copy_values_.push_back(draw_payload<T>(check.seed, 1, rank, copies));
    }
    for (int rank = 0; rank < bootstrap.size(); ++rank) {
      sources_.push_back(reference_rows(routing_, options.placement, rank));
      rows_.push_back(draw_payload<T>(check.seed, 2, rank, sources_.back().size() * hidden));
      row_values_.push_back(draw_payload<T>(check.seed, 3, rank, sources_.back().size()));
    }
    expected_rows_ = reference_dispatch<T>(routing_, options.placement, options.hidden, tokens_, options.dispatch_wire);
  }

  void run() {
    const RankRouting& mine = of_me(routing_);
    const auto route = dispatcher_.route({.expert_ids = mine.expert_ids, .top_k = mine.top_k});
    dispatcher_.dispatch_send(*route, {of_me(tokens_).data(), of_me(copy_values_).data()}, Values::sent);
    dispatcher_.settle(*route);
    auto rows = filled_with_nan<T>(of_me(rows_).size());
    auto row_values = filled_with_nan<T>(of_me(row_values_).size());
    dispatcher_.dispatch_wait(*route, {rows.data(), row_values.data()});
    run_on_all(bootstrap_, [&] {
      compare_route(*route);
      compare_rows(rows, row_values);
    });

    auto tokens = filled_with_nan<T>(of_me(tokens_).size());
    auto copy_values = filled_with_nan<T>(of_me(copy_values_).size());
    dispatcher_.combine(*route, {of_me(rows_).data(), of_me(row_values_).data()}, {tokens.data(), copy_values.data()},
                        Values::sent);
    run_on_all(bootstrap_, [&] { compare_tokens(tokens, copy_values); });

    rows = filled_with_nan<T>(rows.size());
    dispatcher_.dispatch(*route, {of_me(tokens_).data(), nullptr}, {rows.data(), nullptr}, Values::none);
    run_on_all(bootstrap_, [&] { compare_rows(rows, row_values); });
  }

 private:
  template <class V>
  auto& of_me(V& by_rank) const {
    return by_rank[static_cast<std::size_t>(me_)];
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::wrong_result,
                fmt::format("dispatcher '{}' disagrees with the reference: {}", dispatcher_.capabilities().name, what),
                "use another dispatcher, and report this with the command that shows it");
  }

  template <class V>
  void expect_same(V got, V expected, const std::string& where) const {
    if (std::memcmp(&got, &expected, sizeof got) == 0) return;
    fail(fmt::format("{} is {} instead of {}", where, got, expected));
  }

  void compare_route(const Route& route) const {
    const ExpertPlacement& placement = options_.placement;
    std::vector<std::int64_t> rows(static_cast<std::size_t>(placement.experts_per_rank()));
    for (const RowSource& source : of_me(sources_)) {
      const RankRouting& theirs = routing_[static_cast<std::size_t>(source.rank)];
      const auto copy = static_cast<std::size_t>(source.token * theirs.top_k + source.k);
      ++rows[static_cast<std::size_t>(theirs.expert_ids[copy] - placement.first_expert(me_))];
    }
    for (std::size_t local = 0; local < rows.size(); ++local) {
      expect_same(route.rows_of.at(local), rows[local],
                  fmt::format("route, rank {}: the number of rows for expert {}", me_,
                              placement.first_expert(me_) + static_cast<int>(local)));
    }
    expect_same(route.row_count, static_cast<std::int64_t>(of_me(sources_).size()),
                fmt::format("route, rank {}: the number of rows", me_));
  }

  void compare_rows(const std::vector<T>& rows, const std::vector<T>& row_values) const {
    const auto hidden = static_cast<std::size_t>(options_.hidden);
    for (std::size_t row = 0; row < of_me(sources_).size(); ++row) {
      const RowSource& source = of_me(sources_)[row];
      const auto theirs = static_cast<std::size_t>(source.rank);
      const auto copy = static_cast<std::size_t>(source.token * routing_[theirs].top_k + source.k);
      const std::string where =
          fmt::format("dispatch, rank {}: row {} (expert {}, from rank {}, token {}, k = {})", me_, row,
                      routing_[theirs].expert_ids[copy], source.rank, source.token, source.k);
      compare_elements(&rows[row * hidden], &of_me(expected_rows_)[row * hidden], where);
      expect_same(row_values[row], copy_values_[theirs][copy], where + ", value");
    }
  }

  void compare_tokens(const std::vector<T>& tokens, const std::vector<T>& copy_values) const {
    const auto hidden = static_cast<std::size_t>(options_.hidden);
    const auto sums = reference_combine<T>(routing_, options_.placement, options_.hidden, rows_,
                                           dispatcher_.capabilities().tree, options_.combine_wire);
    for (std::size_t token = 0; token * hidden < tokens.size(); ++token) {
      compare_elements(&tokens[token * hidden], &of_me(sums)[token * hidden],
                       fmt::format("combine, rank {}: row {} of the tokens", me_, token));
    }
    std::vector<T> expected(copy_values.size());
    for (std::size_t rank = 0; rank < sources_.size(); ++rank) {
      for (std::size_t row = 0; row < sources_[rank].size(); ++row) {
        const RowSource& source = sources_[rank][row];
        if (source.rank != me_) continue;
        expected[static_cast<std::size_t>(source.token * of_me(routing_).top_k + source.k)] = row_values_[rank][row];
      }
    }
    for (std::size_t copy = 0; copy < expected.size(); ++copy) {
      expect_same(copy_values[copy], expected[copy],
                  fmt::format("combine, rank {}: the value of token {}, k = {}", me_,
                              copy / static_cast<std::size_t>(of_me(routing_).top_k),
                              copy % static_cast<std::size_t>(of_me(routing_).top_k)));
    }
  }

  // The whole row at once first: on real shapes there are many, and nearly always all are right.
  void compare_elements(const T* got, const T* expected, const std::string& where) const {
    const auto hidden = static_cast<std::size_t>(options_.hidden);
    if (std::memcmp(got, expected, hidden * sizeof(T)) == 0) return;
    for (std::size_t h = 0; h < hidden; ++h) expect_same(got[h], expected[h], fmt::format("{}, element {}", where, h));
  }

  Dispatcher& dispatcher_;
  Bootstrap& bootstrap_;
  const DispatcherOptions& options_;
  int me_;
  std::vector<RankRouting> routing_;
  std::vector<std::vector<RowSource>> sources_;  // of the rows, by the rank that has them
  std::vector<std::vector<T>> tokens_, copy_values_;
  std::vector<std::vector<T>> rows_, row_values_;
  std::vector<std::vector<T>> expected_rows_;
};

}  // namespace

void check_dispatcher(Dispatcher& dispatcher, Bootstrap& bootstrap, const DispatcherOptions& options,
                      const DispatchCheck& check) {
  if (options.element == ElementType::f64) {
    Comparison<double>(dispatcher, bootstrap, options, check).run();
  } else {
    Comparison<float>(dispatcher, bootstrap, options, check).run();
  }
}

}  // namespace mrb
