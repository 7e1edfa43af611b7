// What every dispatcher must do, on any transport, in words that need no test framework: the unit tests run
// these checks on threads, the MPI tests on processes. Collective; failures are collected, so that all ranks
// go on together.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dispatch/dispatcher.hpp"
#include "dispatch/reference.hpp"
#include "dispatch/routing_cases.hpp"

namespace mrb::test {

// One rank of a check.
struct Rank {
  Bootstrap& bootstrap;
  Channel& channel;
  std::string dispatcher;
  std::vector<std::string> failures;

  void expect(bool holds, const std::string& what) {
    if (!holds) failures.push_back(fmt::format("{}, rank {}: {}", dispatcher, bootstrap.rank(), what));
  }

  template <class T>
  std::unique_ptr<Dispatcher> make(const RoutingCase& made) {
    return make_dispatcher(dispatcher, channel,
                           {.hidden = made.hidden,
                            .placement = made.placement,
                            .element = sizeof(T) == 8 ? ElementType::f64 : ElementType::f32});
  }

  double sum(double mine) const {
    double total = 0;
    for (const auto& bytes : bootstrap.all_gather(std::as_bytes(std::span(&mine, 1)))) {
      double theirs;
      std::memcpy(&theirs, bytes.data(), sizeof theirs);
      total += theirs;
    }
    return total;
  }
};

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <class T>
std::vector<T> random_numbers(std::initializer_list<std::uint64_t> key, std::size_t count) {
  Random random(key);
  std::vector<T> numbers(count);
  for (T& number : numbers) number = static_cast<T>(random.normal());
  return numbers;
}

// One routing on one dispatcher, each half judged by itself. Every rank knows the inputs of all ranks.
template <class T>
class Exercise {
 public:
  Exercise(Rank& rank, Dispatcher& dispatcher, const RoutingCase& made, std::uint64_t seed = 0)
      : rank_(rank), dispatcher_(dispatcher), case_(made), me_(static_cast<std::size_t>(rank.bootstrap.rank())) {
    for (std::uint64_t r = 0; r < made.routing.size(); ++r) {
      const auto copies = made.routing[r].expert_ids.size();
      const auto hidden = static_cast<std::size_t>(made.hidden);
      tokens.push_back(
          random_numbers<T>({seed, r, 1}, copies / static_cast<std::size_t>(made.routing[r].top_k) * hidden));
      copy_values.push_back(random_numbers<T>({seed, r, 2}, copies));
      sources.push_back(reference_rows(made.routing, made.placement, static_cast<int>(r)));
      rows.push_back(random_numbers<T>({seed, r, 3}, sources[r].size() * hidden));
      row_values.push_back(random_numbers<T>({seed, r, 4}, sources[r].size()));
    }
    expected_rows_ = reference_dispatch<T>(made.routing, made.placement, made.hidden, tokens)[me_];
    expected_tokens_ =
        reference_combine<T>(made.routing, made.placement, made.hidden, rows, dispatcher.capabilities().tree)[me_];
    const RankRouting& mine = made.routing[me_];
    route_ = dispatcher.route({.expert_ids = mine.expert_ids, .top_k = mine.top_k});
    judge_route();
  }

  enum class With { values, no_values };

  void dispatch(With with) {
    std::vector<T> got(rows[me_].size(), kUnwritten), got_values(row_values[me_].size(), kUnwritten);
    if (with == With::values) {
      dispatcher_.dispatch(*route_, {tokens[me_].data(), copy_values[me_].data()}, {got.data(), got_values.data()});
    } else {
      dispatcher_.dispatch(*route_, {tokens[me_].data(), nullptr}, {got.data(), nullptr});
    }
    rank_.expect(same_bits(got, expected_rows_), case_.name + ": dispatch() differs from the reference");
    if (with == With::no_values) return;
    std::vector<T> expected_values;
    for (const RowSource& source : sources[me_]) {
      expected_values.push_back(copy_values[static_cast<std::size_t>(source.rank)][copy_of(source)]);
    }
    rank_.expect(same_bits(got_values, expected_values), case_.name + ": dispatch() gave other values");
  }

  void combine(With with) {
    std::vector<T> got(tokens[me_].size(), kUnwritten), got_values(copy_values[me_].size(), kUnwritten);
    if (with == With::values) {
      dispatcher_.combine(*route_, {rows[me_].data(), row_values[me_].data()}, {got.data(), got_values.data()});
    } else {
      dispatcher_.combine(*route_, {rows[me_].data(), nullptr}, {got.data(), nullptr});
    }
    rank_.expect(same_bits(got, expected_tokens_), case_.name + ": combine() differs from the reference");
    if (with == With::no_values) return;
    std::vector<T> expected_values(got_values.size(), T{0});
    for (std::size_t r = 0; r < sources.size(); ++r) {
      for (std::size_t n = 0; n < sources[r].size(); ++n) {
        if (sources[r][n].rank == static_cast<int>(me_)) expected_values[copy_of(sources[r][n])] = row_values[r][n];
      }
    }
    rank_.expect(same_bits(got_values, expected_values), case_.name + ": combine() gave other values");
  }

  const Route& route() const { return *route_; }

  std::vector<std::vector<T>> tokens, copy_values, rows, row_values;  // by rank
  std::vector<std::vector<RowSource>> sources;                        // of the rows, by their rank

 private:
  static constexpr T kUnwritten = std::numeric_limits<T>::quiet_NaN();

  std::size_t copy_of(const RowSource& source) const {
    const int top_k = case_.routing[static_cast<std::size_t>(source.rank)].top_k;
    return static_cast<std::size_t>(source.token * top_k + source.k);
  }

  void judge_route() {
    const ExpertPlacement& placement = case_.placement;
    std::vector<std::int64_t> copies_of(static_cast<std::size_t>(placement.expert_count));
    for (const RankRouting& routing : case_.routing) {
      for (const std::int32_t expert : routing.expert_ids) {
        if (expert >= 0) ++copies_of[static_cast<std::size_t>(expert)];
      }
    }
    const auto first = copies_of.begin() + placement.first_expert(static_cast<int>(me_));
    const std::vector<std::int64_t> rows_of(first, first + placement.experts_per_rank());
    rank_.expect(route_->copies_of == copies_of, case_.name + ": copies_of is not a plain count");
    rank_.expect(route_->rows_of == rows_of, case_.name + ": rows_of is not a plain count");
    rank_.expect(route_->row_count == static_cast<std::int64_t>(sources[me_].size()), case_.name + ": row_count");
    const RankRouting& mine = case_.routing[me_];
    rank_.expect(route_->top_k == mine.top_k, case_.name + ": top_k");
    rank_.expect(route_->token_count * mine.top_k == static_cast<std::int64_t>(mine.expert_ids.size()),
                 case_.name + ": token_count");
  }

  Rank& rank_;
  Dispatcher& dispatcher_;
  const RoutingCase& case_;
  std::size_t me_;
  std::unique_ptr<Route> route_;
  std::vector<T> expected_rows_, expected_tokens_;
};

// --- The checks
// -----------------------------------------------------------------------------------------------------

template <class T>
void agrees_with_reference(Rank& rank) {
  using With = typename Exercise<T>::With;
  auto cases = fixed_cases(rank.bootstrap.size());
  for (auto& made : random_cases(rank.bootstrap.size(), 20)) cases.push_back(std::move(made));
  for (const RoutingCase& made : cases) {
    const auto dispatcher = rank.make<T>(made);
    Exercise<T> exercise(rank, *dispatcher, made);
    exercise.dispatch(With::values);
    exercise.combine(With::values);
    exercise.dispatch(With::no_values);  // the backward pair on the cached route
    exercise.combine(With::no_values);
    exercise.combine(With::values);
  }
}

// One dispatcher through many shapes: batches that shrink, then shapes that take turns.
inline void keeps_nothing_of_the_step_before(Rank& rank) {
  using With = Exercise<float>::With;
  const int ranks = rank.bootstrap.size();
  std::vector<RoutingCase> steps;
  for (const std::int64_t tokens : {40, 23, 9, 2, 1, 0, 17, 0, 60}) {
    steps.push_back(make_case({.name = fmt::format("{} tokens", tokens), .tokens = [=](int) { return tokens; }}, ranks,
                              static_cast<std::uint64_t>(tokens)));
  }
  for (int i = 0; i < 10; ++i) {
    steps.push_back(make_case({.name = "small", .tokens = [](int) { return 2; }, .top_k = 1}, ranks, 1));
    steps.push_back(make_case({.name = "large", .tokens = [](int r) { return 30 + r; }, .top_k = 3}, ranks, 2));
  }
  const auto dispatcher = rank.make<float>(steps.front());
  for (std::size_t step = 0; step < steps.size(); ++step) {
    Exercise<float> exercise(rank, *dispatcher, steps[step], step);
    exercise.dispatch(With::values);
    exercise.combine(With::values);
  }
}

// The second route grows the buffers while the first is alive.
inline void two_routes_live_side_by_side(Rank& rank) {
  using With = Exercise<float>::With;
  const int ranks = rank.bootstrap.size();
  const auto small = make_case({.name = "first of two", .tokens = [](int) { return 5; }}, ranks, 1);
  const auto large = make_case({.name = "second of two", .tokens = [](int r) { return 50 - r; }}, ranks, 2);
  const auto dispatcher = rank.make<float>(small);
  Exercise<float> first(rank, *dispatcher, small, 1);
  first.dispatch(With::values);
  Exercise<float> second(rank, *dispatcher, large, 2);
  second.dispatch(With::values);
  first.combine(With::values);
  second.combine(With::values);
  second.dispatch(With::no_values);
  first.dispatch(With::no_values);
  second.combine(With::no_values);
  first.combine(With::no_values);
}

// No barrier anywhere, ranks that dawdle at random, new routing at every step: here races show that orderly
// steps hide.
inline void free_running_steps_do_not_race(Rank& rank) {
  using With = Exercise<float>::With;
  constexpr std::uint64_t kSteps = 500;
  const int ranks = rank.bootstrap.size();
  Random dawdling({static_cast<std::uint64_t>(rank.bootstrap.rank())});
  const auto dawdle = [&] {
    if (dawdling.below(8) == 0) std::this_thread::sleep_for(std::chrono::microseconds(dawdling.below(2000)));
  };
  const auto dispatcher = rank.make<float>(random_case(ranks, 0, 4, 2));
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    const auto made = random_case(ranks, step, 4, 2);
    Exercise<float> exercise(rank, *dispatcher, made, step);
    dawdle();
    exercise.dispatch(With::values);
    dawdle();
    exercise.combine(With::values);
    exercise.dispatch(With::no_values);
    dawdle();
    exercise.combine(With::no_values);
  }
}

// <dispatch(x), y> = <x, combine(y)>, so each is the other's gradient; and the same for the values.
inline void combine_is_the_adjoint_of_dispatch(Rank& rank) {
  const auto me = static_cast<std::size_t>(rank.bootstrap.rank());
  for (const RoutingCase& made : random_cases(rank.bootstrap.size(), 8)) {
    const auto dispatcher = rank.make<double>(made);
    Exercise<double> exercise(rank, *dispatcher, made);
    const auto &x = exercise.tokens[me], &x_values = exercise.copy_values[me];
    const auto &y = exercise.rows[me], &y_values = exercise.row_values[me];
    auto moved_x = y, moved_x_values = y_values, moved_y = x, moved_y_values = x_values;
    auto xs = x, x_vs = x_values, ys = y, y_vs = y_values;
    dispatcher->dispatch(exercise.route(), {xs.data(), x_vs.data()}, {moved_x.data(), moved_x_values.data()});
    dispatcher->combine(exercise.route(), {ys.data(), y_vs.data()}, {moved_y.data(), moved_y_values.data()});
    const auto product = [&](const std::vector<double>& a, const std::vector<double>& b) {
      double sum = 0;
      for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
      return rank.sum(sum);
    };
    const auto expect_equal = [&](double a, double b, double scale, const char* what) {
      rank.expect(std::abs(a - b) <= 1e-12 * (1 + scale), fmt::format("{}: {} {} != {}", made.name, what, a, b));
    };
    const double scale = std::sqrt(product(x, x) * product(y, y));
    expect_equal(product(moved_x, y), product(x, moved_y), scale, "rows");
    expect_equal(product(moved_x_values, y_values), product(x_values, moved_y_values), scale, "values");
  }
}

inline void same_inputs_give_same_bytes(Rank& rank) {
  const auto me = static_cast<std::size_t>(rank.bootstrap.rank());
  const auto made =
      make_case({.name = "twice", .tokens = [](int r) { return 20 + r; }, .top_k = 3}, rank.bootstrap.size(), 5);
  std::vector<std::vector<float>> outputs[2];
  for (auto& output : outputs) {
    const auto dispatcher = rank.make<float>(made);
    Exercise<float> exercise(rank, *dispatcher, made);
    auto rows = exercise.rows[me], row_values = exercise.row_values[me];
    auto tokens = exercise.tokens[me], copy_values = exercise.copy_values[me];
    dispatcher->dispatch(exercise.route(), {tokens.data(), copy_values.data()}, {rows.data(), row_values.data()});
    dispatcher->combine(exercise.route(), {rows.data(), row_values.data()}, {tokens.data(), copy_values.data()});
    output = {rows, row_values, tokens, copy_values};
  }
  for (std::size_t i = 0; i < outputs[0].size(); ++i) {
    rank.expect(same_bits(outputs[0][i], outputs[1][i]), fmt::format("output {} differs the second time", i));
  }
}

// Judged without the reference: each token says which it is, each copy's value which expert and k it is for.
inline void rows_come_by_expert_rank_token_and_k(Rank& rank) {
  const int me = rank.bootstrap.rank();
  const auto made = make_case({.name = "order", .tokens = [](int r) { return 9 + r; }, .hidden = 2, .dropped = 0.2},
                              rank.bootstrap.size(), 6);
  const RankRouting& mine = made.routing[static_cast<std::size_t>(me)];
  const auto dispatcher = rank.make<double>(made);
  const auto route = dispatcher->route({.expert_ids = mine.expert_ids, .top_k = mine.top_k});
  std::vector<double> tokens, copy_values;
  for (std::size_t copy = 0; copy < mine.expert_ids.size(); ++copy) {
    const auto k = copy % static_cast<std::size_t>(mine.top_k);
    if (k == 0) {
      tokens.push_back(me);
      tokens.push_back(static_cast<double>(copy / static_cast<std::size_t>(mine.top_k)));
    }
    copy_values.push_back(mine.expert_ids[copy] * 100 + static_cast<double>(k));
  }
  std::vector<double> rows(static_cast<std::size_t>(route->row_count) * 2);
  std::vector<double> row_values(static_cast<std::size_t>(route->row_count));
  dispatcher->dispatch(*route, {tokens.data(), copy_values.data()}, {rows.data(), row_values.data()});

  std::vector<std::vector<double>> keys;  // expert, source rank, token, k
  for (std::size_t row = 0; row < row_values.size(); ++row) {
    const double expert = std::floor(row_values[row] / 100);
    keys.push_back({expert, rows[2 * row], rows[2 * row + 1], row_values[row] - 100 * expert});
  }
  rank.expect(std::is_sorted(keys.begin(), keys.end()), "the rows are not by expert, rank, token, k");
  rank.expect(std::adjacent_find(keys.begin(), keys.end()) == keys.end(), "a row came twice");
  std::size_t row = 0;
  for (std::size_t local = 0; local < route->rows_of.size(); ++local) {
    for (std::int64_t n = 0; n < route->rows_of[local]; ++n, ++row) {
      rank.expect(keys[row][0] == made.placement.first_expert(me) + static_cast<int>(local),
                  "rows_of does not say where an expert's rows are");
    }
  }
}

struct ConformanceCheck {
  const char* name;
  void (*run)(Rank&);
};

inline constexpr ConformanceCheck kConformanceChecks[] = {
    {"dispatch and combine agree with the reference in f32", agrees_with_reference<float>},
    {"dispatch and combine agree with the reference in f64", agrees_with_reference<double>},
    {"nothing is left of the step before", keeps_nothing_of_the_step_before},
    {"two routes live side by side", two_routes_live_side_by_side},
    {"free-running steps do not race", free_running_steps_do_not_race},
    {"combine is the adjoint of dispatch", combine_is_the_adjoint_of_dispatch},
    {"same inputs give same bytes", same_inputs_give_same_bytes},
    {"rows come by expert, rank, token and k", rows_come_by_expert_rank_token_and_k},
};

}  // namespace mrb::test
