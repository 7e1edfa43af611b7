// dispatch, combine and pair. What is sent is a function of (rank, token, iteration) and, on the way back, of the expert
// too: a row from an iteration before, of another token or by another expert, is seen. The check repeats the kernel's
// own order of sums and its rounding, so it is exact.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/phase_clock.hpp"
#include "base/random.hpp"
#include "bench/dispatcher_options.hpp"
#include "bench/micro_bench.hpp"
#include "dispatch/reference.hpp"
#include "dispatch/routing_source.hpp"
#include "dispatch/traffic_model.hpp"

namespace mrb {

namespace {

// What stays unwritten is then seen.
constexpr float kNotWritten = std::numeric_limits<float>::quiet_NaN();

// Rows that tell where they come from.
class Payload {
 public:
  Payload(std::uint64_t seed, std::int64_t hidden) : hidden_(static_cast<std::size_t>(hidden)) {
    Random random({seed, Random::payload});
    bodies_.resize(kBodies * hidden_);
    for (float& value : bodies_) value = static_cast<float>(random.uniform() - 0.5);
  }

  // `expert` is -1 for a token itself.
  void write(std::uint64_t index, int rank, std::int64_t token, int expert, float* row) const {
    std::uint64_t mix = index * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(rank + 1) * 0xbf58476d1ce4e5b9u;
    mix = (mix ^ (mix >> 29)) + static_cast<std::uint64_t>(token + 1) * 0x94d049bb133111ebu;
    mix = (mix ^ (mix >> 31)) * 0xd6e8feb86659fd93u + static_cast<std::uint64_t>(expert + 2) * 0x9e3779b97f4a7c15u;
    mix ^= mix >> 32;
    std::memcpy(row, &bodies_[mix % kBodies * hidden_], hidden_ * sizeof *row);
    for (std::size_t h = 0; h < std::min<std::size_t>(hidden_, 3); ++h) {
      mix = mix * 6364136223846793005u + 1442695040888963407u;
      row[h] = static_cast<float>(mix >> 40) / static_cast<float>(1u << 24) - 0.5f;
    }
  }

  static float gate(std::uint64_t index, int rank, std::size_t copy) {
    const std::uint64_t mix = (index * 1000003 + static_cast<std::uint64_t>(rank)) * 1000033 + copy;
    return static_cast<float>(mix % 4093) / 4096.0f;
  }

 private:
  static constexpr std::size_t kBodies = 61;
  std::size_t hidden_;
  std::vector<float> bodies_;
};

class DispatchBench final : public MicroBench {
 public:
  DispatchBench(Channel& channel, const LaunchContext& context, const MicroSpec& spec, const Config& config)
      : spec_(spec),
        clock_(context.clock),
        me_(channel.rank()),
        ranks_(channel.size()),
        phases_(context.clock),
        options_(micro_dispatcher_options(spec, config, context.ranks_per_node)),
        forth_(options_.dispatch_wire, options_.hidden),
        back_(options_.combine_wire, options_.hidden),
        payload_(config.seed, options_.hidden),
        source_(make_routing_source(spec.routing, {.expert_count = options_.placement.expert_count,
                                                   .rank_count = ranks_,
                                                   .top_k = options_.top_k,
                                                   .seed = config.seed})) {
    options_.phases = &phases_;
    dispatcher_ = make_dispatcher(config.dispatcher.name, channel, options_);
  }

  void prepare(std::size_t size_index) override {
    token_count_ = micro_tokens(spec_.sizes[size_index], options_);
    tokens_.resize(static_cast<std::size_t>(token_count_ * options_.hidden));
    sums_.resize(tokens_.size());
    gates_.resize(static_cast<std::size_t>(token_count_ * options_.top_k));
  }

  void before(std::uint64_t index) override {
    index_ = index;
    draw(index);
    fill_tokens();
    make_room(rows_here());
    route_.reset();
    const bool is_combine = spec_.operation == MicroOperation::combine;
    if (is_combine || spec_.routes == RouteUse::cached) make_used_route();
    if (spec_.check) {  // also what the dispatch just now has written
      for (auto* values : {&rows_, &row_gates_, &sums_}) std::fill(values->begin(), values->end(), kNotWritten);
    }
    if (is_combine) fill_rows();
  }

  Times run() override {
    phases_.begin_step();
    const std::int64_t began_ns = clock_.now_ns();
    if (spec_.operation == MicroOperation::combine) {
      combine();
    } else {
      if (spec_.routes == RouteUse::fresh) make_route();
      dispatch();
      if (spec_.operation == MicroOperation::pair) combine();
    }
    const std::int64_t ended_ns = clock_.now_ns();
    const auto times = phases_.end_step();
    const auto cast = times.phase_ns.find("cast");
    return {ended_ns - began_ns, cast == times.phase_ns.end() ? 0 : cast->second};
  }

  std::uint64_t count_wrong() override {
    std::uint64_t wrong = 0;
    if (spec_.operation != MicroOperation::combine) wrong += count_wrong_rows();
    if (spec_.operation != MicroOperation::dispatch) wrong += count_wrong_sums();
    return wrong;
  }

  double run_in_a_row(std::uint64_t index, int count, std::uint64_t& wrong) override {
    if (spec_.operation != MicroOperation::pair) return 0;
    std::vector<RankRouting> mine;
    std::int64_t rows_max = 0;
    for (int i = 0; i < count; ++i) {
      draw(index + static_cast<std::uint64_t>(i));
      rows_max = std::max(rows_max, rows_here());
      mine.push_back(routing_[static_cast<std::size_t>(me_)]);
    }
    index_ = index + static_cast<std::uint64_t>(count) - 1;  // that of the last routing drawn
    fill_tokens();
    make_room(rows_max);
    if (spec_.routes == RouteUse::cached) make_used_route();
    std::fill(sums_.begin(), sums_.end(), kNotWritten);

    phases_.begin_step();
    const std::int64_t began_ns = clock_.now_ns();
    for (const RankRouting& routing : mine) {
      if (spec_.routes == RouteUse::fresh) make_route(routing);
      dispatch();
      combine();
    }
    const std::int64_t ended_ns = clock_.now_ns();
    phases_.end_step();
    if (spec_.check) wrong += count_wrong();
    return static_cast<double>(ended_ns - began_ns) / count;
  }

  DispatchBytes bytes() const override { return dispatcher_->bytes(); }

 private:
  void draw(std::uint64_t index) {
    routing_.clear();
    for (int rank = 0; rank < ranks_; ++rank) routing_.push_back(source_->draw(index, rank, token_count_));
  }

  std::int64_t rows_here() const {
    std::int64_t rows = 0;
    for (const RankRouting& routing : routing_) {
      for (const std::int32_t expert : routing.expert_ids) {
        rows += expert >= 0 && options_.placement.rank_of(expert) == me_ ? 1 : 0;
      }
    }
    return rows;
  }

  // Memory is taken before the measured time, and its pages are touched.
  void make_room(std::int64_t rows) {
    const auto needed = static_cast<std::size_t>(rows * options_.hidden);
    if (rows_.size() < needed) rows_.resize(needed + needed / 4);
    if (row_gates_.size() < static_cast<std::size_t>(rows))
      row_gates_.resize(static_cast<std::size_t>(rows + rows / 4));
  }

  void fill_tokens() {
    for (std::int64_t t = 0; t < token_count_; ++t) payload_.write(index_, me_, t, -1, &tokens_[at(t)]);
    for (std::size_t copy = 0; copy < gates_.size(); ++copy) gates_[copy] = Payload::gate(index_, me_, copy);
  }

  // What the experts of this rank give back.
  void fill_rows() {
    float* row = rows_.data();
    for (const RowSource& source : reference_rows(routing_, options_.placement, me_)) {
      payload_.write(index_, source.rank, source.token, expert_of(source), row);
      row += options_.hidden;
    }
  }

  int expert_of(const RowSource& source) const {
    const RankRouting& theirs = routing_[static_cast<std::size_t>(source.rank)];
    return theirs.expert_ids[static_cast<std::size_t>(source.token * theirs.top_k + source.k)];
  }

  std::size_t at(std::int64_t row) const { return static_cast<std::size_t>(row * options_.hidden); }

  void make_route() { make_route(routing_[static_cast<std::size_t>(me_)]); }
  void make_route(const RankRouting& routing) {
    route_ = dispatcher_->route({.expert_ids = routing.expert_ids, .top_k = routing.top_k});
    is_settled_ = false;
  }

  // One that is counted and laid out.
  void make_used_route() {
    make_route();
    dispatch();
  }

  void dispatch() {
    dispatcher_->dispatch_send(*route_, {tokens_.data(), gates_.data()}, Values::sent);
    if (!is_settled_) dispatcher_->settle(*route_);
    is_settled_ = true;
    dispatcher_->dispatch_wait(*route_, {rows_.data(), row_gates_.data()});
  }

  void combine() { dispatcher_->combine(*route_, {rows_.data(), nullptr}, {sums_.data(), nullptr}, Values::none); }

  std::uint64_t count_wrong_rows() const {
    std::uint64_t wrong = 0;
    std::vector<float> sent(static_cast<std::size_t>(options_.hidden));
    std::int64_t row = 0;
    for (const RowSource& source : reference_rows(routing_, options_.placement, me_)) {
      payload_.write(index_, source.rank, source.token, -1, sent.data());
      const auto expected = after_the_journey(forth_, sent.data(), options_.hidden);
      const auto copy = static_cast<std::size_t>(source.token * options_.top_k + source.k);
      const bool is_right = same(expected, &rows_[at(row)]) &&
                            row_gates_[static_cast<std::size_t>(row)] == Payload::gate(index_, source.rank, copy);
      wrong += is_right ? 0 : 1;
      ++row;
    }
    return row == route_->row_count ? wrong : wrong + 1;
  }

  // In a pair the rows go back as they came; alone, a combine returns what the experts wrote.
  std::uint64_t count_wrong_sums() const {
    std::uint64_t wrong = 0;
    const RankRouting& mine = routing_[static_cast<std::size_t>(me_)];
    const auto top_k = static_cast<std::size_t>(mine.top_k), hidden = static_cast<std::size_t>(options_.hidden);
    std::vector<float> parts(top_k * hidden);
    for (std::int64_t token = 0; token < token_count_; ++token) {
      TokenCopies<float> copies;
      for (std::size_t k = 0; k < top_k; ++k) {
        const int expert = mine.expert_ids[static_cast<std::size_t>(token) * top_k + k];
        float* part = &parts[k * hidden];
        copies.rows.push_back(expert < 0 ? nullptr : part);
        copies.ranks.push_back(expert < 0 ? 0 : options_.placement.rank_of(expert));
        if (expert < 0) continue;
        if (spec_.operation == MicroOperation::combine) {
          payload_.write(index_, me_, token, expert, part);
        } else {
          payload_.write(index_, me_, token, -1, part);
          std::ranges::copy(after_the_journey(forth_, part, options_.hidden), part);
        }
      }
      const auto expected =
          reference_sum(copies, options_.placement, back_, options_.hidden, dispatcher_->capabilities().tree);
      wrong += same(expected, &sums_[at(token)]) ? 0 : 1;
    }
    return wrong;
  }

  static bool same(const std::vector<float>& expected, const float* got) {
    return std::memcmp(expected.data(), got, expected.size() * sizeof *got) == 0;
  }

  const MicroSpec& spec_;
  const Clock& clock_;
  int me_, ranks_;
  PhaseClock phases_;
  DispatcherOptions options_;
  RowCodec<float> forth_, back_;
  Payload payload_;
  std::unique_ptr<RoutingSource> source_;
  std::unique_ptr<Dispatcher> dispatcher_;

  // Of the iteration under way:
  std::uint64_t index_ = 0;
  std::int64_t token_count_ = 0;
  std::vector<RankRouting> routing_;  // by rank
  std::unique_ptr<Route> route_;
  bool is_settled_ = false;
  std::vector<float> tokens_, gates_, rows_, row_gates_, sums_;
};

}  // namespace

std::int64_t micro_tokens(std::uint64_t size_bytes, const DispatcherOptions& options) {
  const std::uint64_t row = row_bytes(options, options.dispatch_wire);
  return static_cast<std::int64_t>(std::max<std::uint64_t>(1, size_bytes / row));
}

DispatcherOptions micro_dispatcher_options(const MicroSpec& spec, const Config& config, int ranks_per_node) {
  DispatcherOptions options = dispatcher_options(config, ranks_per_node);
  if (config.dispatcher.tokens_max == 0) options.tokens_max = micro_tokens(spec.sizes.back(), options);
  return options;
}

std::unique_ptr<MicroBench> make_dispatch_bench(Channel& channel, const LaunchContext& context, const MicroSpec& spec,
                                                const Config& config) {
  return std::make_unique<DispatchBench>(channel, context, spec, config);
}

}  // namespace mrb
