// What every dispatcher must do, on any transport, in words that need no test framework: the unit tests run
// these checks on threads, the MPI tests on processes. Collective; failures are collected, so that all ranks
// go on together.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dispatch/dispatcher.hpp"
#include "dispatch/reference.hpp"
#include "dispatch/routing_cases.hpp"

namespace mrb::test {

// A dispatcher with its options.
struct Kernel {
  std::string text;
  std::string name;
  std::function<void(DispatcherOptions&)> set = [](DispatcherOptions&) {};
};

enum class Options { some, all };

// Every dispatcher of the registry that works on so many ranks, with the options that change what crosses the wire.
inline std::vector<Kernel> kernels(int ranks, Options which) {
  std::vector<Kernel> all;
  const auto add = [&](std::string name, std::string text, std::function<void(DispatcherOptions&)> set) {
    all.push_back({name + text, name, std::move(set)});
  };
  for (const RegistryLine& line : dispatcher_lines()) {
    if (line.name == "reference" && ranks > 1) continue;
    if (line.name == "two_hop") {
      for (int size = 1; size <= ranks; ++size) {
        if (ranks % size != 0 || (which == Options::some && size != (ranks % 2 == 0 ? 2 : 1))) continue;
        add(line.name, fmt::format(", nodes of {}", size),
            [=](auto& options) { options.placement.ranks_per_node = size; });
      }
    } else if (line.name == "low_latency") {
      add(line.name, ", by expert", [](auto& options) { options.batching = Batching::expert; });
      if (which == Options::some) continue;
      add(line.name, ", by token", [](auto& options) { options.batching = Batching::token; });
      add(line.name, ", by rank", [](auto& options) { options.batching = Batching::rank; });
    } else if (line.name == "proxy") {
      for (const Dedup dedup : {Dedup::rank, Dedup::none}) {
        for (const std::int64_t prefix : {3, 0, 1000}) {
          if (which == Options::some && (dedup == Dedup::none || prefix != 3)) continue;
          add(line.name, fmt::format(", dedup {}, {} prefix rows", dedup == Dedup::rank ? "rank" : "none", prefix),
              [=](auto& options) {
                options.dedup = dedup;
                options.prefix_rows = prefix;
              });
        }
      }
      for (int size = 1; size <= ranks; ++size) {
        if (ranks % size != 0 || (which == Options::some && size != (ranks % 2 == 0 ? 2 : 1))) continue;
        for (const std::int64_t prefix : {3, 0, 1000}) {
          if (prefix != 3 && (which == Options::some || size != 2)) continue;
          add(line.name, fmt::format(", dedup node, nodes of {}, {} prefix rows", size, prefix), [=](auto& options) {
            options.dedup = Dedup::node;
            options.prefix_rows = prefix;
            options.placement.ranks_per_node = size;
          });
        }
      }
    } else {
      add(line.name, "", [](auto&) {});
    }
  }
  return all;
}

// One rank of a check.
struct Rank {
  Bootstrap& bootstrap;
  Channel& channel;
  Kernel kernel;
  std::vector<std::string> failures = {};
  WireType dispatch_wire = WireType::native;
  WireType combine_wire = WireType::native;

  void expect(bool holds, const std::string& what) {
    if (!holds) failures.push_back(fmt::format("{}, rank {}: {}", kernel.text, bootstrap.rank(), what));
  }

  // For this case and any other of as many experts with 64 tokens on a rank and 8 copies of each.
  template <class T>
  DispatcherOptions options_for(const RoutingCase& made) const {
    DispatcherOptions options{.hidden = made.hidden,
                              .placement = made.placement,
                              .top_k = 8,
                              .element = sizeof(T) == 8 ? ElementType::f64 : ElementType::f32,
                              .dispatch_wire = dispatch_wire,
                              .combine_wire = combine_wire,
                              .tokens_max = 64};
    for (const RankRouting& routing : made.routing) {
      options.top_k = std::min(std::max(options.top_k, routing.top_k), made.placement.expert_count);
      options.tokens_max =
          std::max(options.tokens_max, static_cast<std::int64_t>(routing.expert_ids.size()) / routing.top_k);
    }
    kernel.set(options);
    return options;
  }

  template <class T>
  std::unique_ptr<Dispatcher> make(const RoutingCase& made) {
    return make_dispatcher(kernel.name, channel, options_for<T>(made));
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
  for (T& number : numbers) number = static_cast<T>(random.uniform() - 0.5);
  return numbers;
}

enum class With { values, no_values };

// One routing on one dispatcher, dispatch() and combine() each judged by itself; it begins with a fresh dispatch. Every
// rank knows the inputs of all ranks.
template <class T>
class Exercise {
 public:
  Exercise(Rank& rank, Dispatcher& dispatcher, const RoutingCase& given, std::uint64_t seed = 0,
           With with = With::values)
      : rank_(rank), dispatcher_(dispatcher), made_(given), me_(static_cast<std::size_t>(rank.bootstrap.rank())) {
    const ExpertPlacement placement = rank.options_for<T>(made()).placement;
    for (std::uint64_t r = 0; r < made().routing.size(); ++r) {
      const auto copies = made().routing[r].expert_ids.size();
      const auto hidden = static_cast<std::size_t>(made().hidden);
      tokens.push_back(
          random_numbers<T>({seed, r, 1}, copies / static_cast<std::size_t>(made().routing[r].top_k) * hidden));
      copy_values.push_back(random_numbers<T>({seed, r, 2}, copies));
      sources.push_back(reference_rows(made().routing, placement, static_cast<int>(r)));
      rows.push_back(random_numbers<T>({seed, r, 3}, sources[r].size() * hidden));
      row_values.push_back(random_numbers<T>({seed, r, 4}, sources[r].size()));
    }
    expected_rows_ = reference_dispatch<T>(made().routing, placement, made().hidden, tokens, rank.dispatch_wire)[me_];
    expected_tokens_ = reference_combine<T>(made().routing, placement, made().hidden, rows,
                                            dispatcher.capabilities().tree, rank.combine_wire)[me_];
    const RankRouting& mine = made().routing[me_];
    route_ = dispatcher.route({.expert_ids = mine.expert_ids, .top_k = mine.top_k});
    dispatch(with);
    judge_route();
  }

  void dispatch(With with) {
    const Values values = with == With::values ? Values::sent : Values::none;
    std::vector<T> got(rows[me_].size(), kUnwritten), got_values(row_values[me_].size(), kUnwritten);
    const auto inputs = tokens[me_];
    dispatcher_.dispatch_send(*route_, {tokens[me_].data(), with == With::values ? copy_values[me_].data() : nullptr},
                              values);
    dispatcher_.settle(*route_);
    dispatcher_.dispatch_wait(*route_, {got.data(), with == With::values ? got_values.data() : nullptr});
    rank_.expect(same_bits(inputs, tokens[me_]), made().name + ": dispatch() changed its input");
    rank_.expect(same_bits(got, expected_rows_), made().name + ": dispatch() differs from the reference");
    if (with == With::no_values) return;
    std::vector<T> expected_values;
    for (const RowSource& source : sources[me_]) {
      expected_values.push_back(copy_values[static_cast<std::size_t>(source.rank)][copy_of(source)]);
    }
    rank_.expect(same_bits(got_values, expected_values), made().name + ": dispatch() gave other values");
  }

  void combine(With with) {
    const Values values = with == With::values ? Values::sent : Values::none;
    std::vector<T> got(tokens[me_].size(), kUnwritten), got_values(copy_values[me_].size(), kUnwritten);
    const auto inputs = rows[me_];
    dispatcher_.combine(*route_, {rows[me_].data(), with == With::values ? row_values[me_].data() : nullptr},
                        {got.data(), with == With::values ? got_values.data() : nullptr}, values);
    rank_.expect(same_bits(inputs, rows[me_]), made().name + ": combine() changed its input");
    rank_.expect(same_bits(got, expected_tokens_), made().name + ": combine() differs from the reference");
    if (with == With::no_values) return;
    std::vector<T> expected_values(got_values.size(), T{0});
    for (std::size_t r = 0; r < sources.size(); ++r) {
      for (std::size_t n = 0; n < sources[r].size(); ++n) {
        if (sources[r][n].rank == static_cast<int>(me_)) expected_values[copy_of(sources[r][n])] = row_values[r][n];
      }
    }
    rank_.expect(same_bits(got_values, expected_values), made().name + ": combine() gave other values");
  }

  Route& route() { return *route_; }
  const RoutingCase& made() const { return made_; }

  std::vector<std::vector<T>> tokens, copy_values, rows, row_values;  // by rank
  std::vector<std::vector<RowSource>> sources;                        // of the rows, by their rank

 private:
  static constexpr T kUnwritten = std::numeric_limits<T>::quiet_NaN();

  std::size_t copy_of(const RowSource& source) const {
    const int top_k = made_.routing[static_cast<std::size_t>(source.rank)].top_k;
    return static_cast<std::size_t>(source.token * top_k + source.k);
  }

  void judge_route() {
    const ExpertPlacement& placement = made_.placement;
    std::vector<std::int64_t> rows_of(static_cast<std::size_t>(placement.experts_per_rank()));
    for (const RankRouting& routing : made_.routing) {
      for (const std::int32_t expert : routing.expert_ids) {
        if (expert < 0 || placement.rank_of(expert) != static_cast<int>(me_)) continue;
        ++rows_of[static_cast<std::size_t>(expert - placement.first_expert(static_cast<int>(me_)))];
      }
    }
    rank_.expect(route_->rows_of == rows_of, made_.name + ": rows_of is not a plain count");
    rank_.expect(route_->row_count == static_cast<std::int64_t>(sources[me_].size()), made_.name + ": row_count");
    const RankRouting& mine = made_.routing[me_];
    rank_.expect(route_->top_k == mine.top_k, made_.name + ": top_k");
    rank_.expect(route_->token_count * mine.top_k == static_cast<std::int64_t>(mine.expert_ids.size()),
                 made_.name + ": token_count");
  }

  Rank& rank_;
  Dispatcher& dispatcher_;
  const RoutingCase& made_;
  std::size_t me_;
  std::unique_ptr<Route> route_;
  std::vector<T> expected_rows_, expected_tokens_;
};

// ---- The checks

template <class T>
void agrees_with_reference(Rank& rank) {
  auto cases = fixed_cases(rank.bootstrap.size());
  for (auto& made : random_cases(rank.bootstrap.size(), 20)) cases.push_back(std::move(made));
  for (const RoutingCase& made : cases) {
    const auto dispatcher = rank.make<T>(made);
    Exercise<T> exercise(rank, *dispatcher, made);
    exercise.combine(With::values);
    exercise.dispatch(With::no_values);  // the backward pair on the cached route
    exercise.combine(With::no_values);
    exercise.dispatch(With::values);
    exercise.combine(With::values);
    Exercise<T> without(rank, *dispatcher, made, 1, With::no_values);
    without.combine(With::values);
  }
}

// One dispatcher through many shapes: batches that shrink, then shapes that take turns.
inline void keeps_nothing_of_the_step_before(Rank& rank) {
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
    exercise.combine(With::values);
  }
}

// The second route grows the buffers while the first is alive.
inline void two_routes_live_side_by_side(Rank& rank) {
  const int ranks = rank.bootstrap.size();
  const auto small = make_case({.name = "first of two", .tokens = [](int) { return 5; }}, ranks, 1);
  const auto large = make_case({.name = "second of two", .tokens = [](int r) { return 50 - r; }}, ranks, 2);
  const auto dispatcher = rank.make<float>(small);
  Exercise<float> first(rank, *dispatcher, small, 1);
  Exercise<float> second(rank, *dispatcher, large, 2);
  first.combine(With::values);
  second.combine(With::values);
  second.dispatch(With::no_values);
  first.dispatch(With::no_values);
  second.combine(With::no_values);
  first.combine(With::no_values);
}

// No barrier anywhere, ranks that dawdle at random, another shape at every step: here races show that orderly
// steps hide.
template <std::uint64_t kSteps>
void free_running_steps_do_not_race(Rank& rank) {
  const int ranks = rank.bootstrap.size();
  Random dawdling({static_cast<std::uint64_t>(rank.bootstrap.rank())});
  const auto dawdle = [&] {
    if (dawdling.below(16) == 0) std::this_thread::sleep_for(std::chrono::microseconds(dawdling.below(1000)));
  };
  const auto dispatcher = rank.make<float>(random_case(ranks, 0, 4, 2));
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    const auto made = random_case(ranks, step, 4, 2);
    dawdle();
    Exercise<float> exercise(rank, *dispatcher, made, step);
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
    dispatcher->dispatch(exercise.route(), {xs.data(), x_vs.data()}, {moved_x.data(), moved_x_values.data()},
                         Values::sent);
    dispatcher->combine(exercise.route(), {ys.data(), y_vs.data()}, {moved_y.data(), moved_y_values.data()},
                        Values::sent);
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
    dispatcher->dispatch(exercise.route(), {tokens.data(), copy_values.data()}, {rows.data(), row_values.data()},
                         Values::sent);
    dispatcher->combine(exercise.route(), {rows.data(), row_values.data()}, {tokens.data(), copy_values.data()},
                        Values::sent);
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
  dispatcher->dispatch_send(*route, {tokens.data(), copy_values.data()}, Values::sent);
  dispatcher->settle(*route);
  std::vector<double> rows(static_cast<std::size_t>(route->row_count) * 2);
  std::vector<double> row_values(static_cast<std::size_t>(route->row_count));
  dispatcher->dispatch_wait(*route, {rows.data(), row_values.data()});

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

// What was rounded on its way is rounded as the reference does it, bit for bit, at every place of the tree; hidden sizes
// around the blocks that share a scale.
inline void every_wire_type_agrees_with_reference(Rank& rank) {
  using enum WireType;
  const std::pair<WireType, WireType> types[] = {{bf16, bf16}, {fp8, bf16}, {native, fp8}, {fp8_pow2, fp8_pow2}};
  std::uint64_t seed = 0;
  for (const auto& [dispatch_wire, combine_wire] : types) {
    rank.dispatch_wire = dispatch_wire;
    rank.combine_wire = combine_wire;
    for (const std::int64_t hidden : {1, 127, 128, 129, 300}) {
      const auto made =
          make_case({.name = fmt::format("{} there, {} back, hidden size {}", wire_type_text(dispatch_wire),
                                         wire_type_text(combine_wire), hidden),
                     .tokens = [](int r) { return 12 + r; },
                     .hidden = hidden,
                     .top_k = 3,
                     .dropped = 0.1},
                    rank.bootstrap.size(), ++seed);
      const auto dispatcher = rank.make<float>(made);
      Exercise<float> exercise(rank, *dispatcher, made, seed);
      exercise.combine(With::values);
      exercise.dispatch(With::no_values);
      exercise.combine(With::no_values);
    }
  }
  rank.dispatch_wire = rank.combine_wire = native;
}

// What the halves are for: between send and wait the caller does something else for a while, and other ranks wait.
inline void work_between_the_halves_changes_nothing(Rank& rank) {
  const int ranks = rank.bootstrap.size();
  Random dawdling({static_cast<std::uint64_t>(rank.bootstrap.rank()), 1});
  const auto dispatcher = rank.make<float>(random_case(ranks, 0, 4, 2));
  for (std::uint64_t step = 0; step < 20; ++step) {
    const auto made = random_case(ranks, step, 4, 2);
    const RankRouting& mine = made.routing[static_cast<std::size_t>(rank.bootstrap.rank())];
    const auto route = dispatcher->route({.expert_ids = mine.expert_ids, .top_k = mine.top_k});
    std::vector<float> tokens(static_cast<std::size_t>(route->token_count * made.hidden), 1.0f), sums = tokens;
    dispatcher->dispatch_send(*route, {tokens.data(), nullptr}, Values::none);
    std::this_thread::sleep_for(std::chrono::microseconds(dawdling.below(2000)));
    dispatcher->settle(*route);
    std::vector<float> rows(static_cast<std::size_t>(route->row_count * made.hidden));
    std::this_thread::sleep_for(std::chrono::microseconds(dawdling.below(2000)));
    dispatcher->dispatch_wait(*route, {rows.data(), nullptr});
    dispatcher->combine_send(*route, {rows.data(), nullptr}, Values::none);
    std::this_thread::sleep_for(std::chrono::microseconds(dawdling.below(2000)));
    dispatcher->combine_wait(*route, {sums.data(), nullptr});
    for (std::int64_t token = 0; token < route->token_count; ++token) {
      const auto first = mine.expert_ids.begin() + token * mine.top_k;
      const auto copies = std::count_if(first, first + mine.top_k, [](std::int32_t expert) { return expert >= 0; });
      rank.expect(sums[static_cast<std::size_t>(token * made.hidden)] == static_cast<float>(copies),
                  made.name + ": a token of ones does not come back as the number of its copies");
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
    {"every wire type agrees with the reference", every_wire_type_agrees_with_reference},
    {"work between the halves changes nothing", work_between_the_halves_changes_nothing},
    {"nothing is left of the step before", keeps_nothing_of_the_step_before},
    {"two routes live side by side", two_routes_live_side_by_side},
    {"free-running steps do not race", free_running_steps_do_not_race<100>},
    {"combine is the adjoint of dispatch", combine_is_the_adjoint_of_dispatch},
    {"same inputs give same bytes", same_inputs_give_same_bytes},
    {"rows come by expert, rank, token and k", rows_come_by_expert_rank_token_and_k},
};

// As long as a fault takes that needs several rare things at once; worth it once for each kernel.
inline constexpr ConformanceCheck kThousandFreeRunningSteps = {"1,000 free-running steps do not race",
                                                               free_running_steps_do_not_race<1000>};
inline constexpr ConformanceCheck kSomeFreeRunningSteps = {"200 free-running steps do not race",
                                                           free_running_steps_do_not_race<200>};

}  // namespace mrb::test
