// Each token crosses once per rank, however many of its experts live there, and comes back as one sum.
//
// Three tokens of rank 0, top_k = 2, experts 0 and 1 on rank 0, 2 and 3 on rank 1:
//
//   token 0 -> experts 2, 0        block to rank 1:  rows    t0   t1      t2
//   token 1 -> experts 3, 2                          copies  e2   e3 e2   e3     (of a row in ascending k)
//   token 2 -> expert 3
//
// route() tells the experts' rank, once, how many copies each row has and for which experts. dispatch() sends
// hidden rows and values only; the experts' rank copies each row to the place of every copy (fan-out).
// combine() adds the rows of one token there, in ascending k, and sends one sum; the tokens' rank adds the
// sums in ascending rank.
#include <algorithm>
#include <limits>

#include "dispatch/row_exchange.hpp"

namespace mrb {

namespace {

// What a block holds, on the rank that filled it: by row, which token; by copy, which (t * top_k + k).
struct SentBlock {
  std::vector<std::int64_t> token_of_row;
  std::vector<std::int64_t> copies;           // of all rows, one row after the other
  std::vector<std::uint32_t> copies_of_row;   // how many
  std::vector<std::uint32_t> expert_of_copy;  // local to the target
};

// The same block on the experts' rank: where each copy's row lies among this rank's rows.
struct ReceivedBlock {
  std::vector<std::uint32_t> copies_of_row;
  std::vector<std::int64_t> place_of_copy;
};

// One row of a token's sum.
struct Partial {
  int rank = 0;
  std::int64_t block_row = 0;
};

struct RankDedupRoute final : Route {
  RowBlocks blocks;
  std::vector<SentBlock> sent;             // by target
  std::vector<ReceivedBlock> received;     // by source
  std::vector<Partial> partials;           // of all tokens, one token after the other, in ascending rank
  std::vector<std::size_t> first_partial;  // by token, and one more
};

template <class T>
class RankDedup final : public Dispatcher {
 public:
  RankDedup(Channel& channel, const DispatcherOptions& options)
      : placement_(options.placement),
        exchange_(channel, options),
        counts_(exchange_.blocks(), placement_.rank_count,
                static_cast<std::size_t>(placement_.expert_count + placement_.rank_count)) {
    capabilities_ = {.name = "rank_dedup",
                     .pattern = "one row per (token, rank)",
                     .tree = ReductionTree::by_rank,
                     .top_k_max = placement_.expert_count,
                     .ranks_max = std::numeric_limits<int>::max()};  // as many as the channel connects
  }

  const DispatcherCapabilities& capabilities() const override { return capabilities_; }
  DispatchBytes bytes() const override { return exchange_.bytes(); }

  std::unique_ptr<Route> route(const Routing& routing) override {
    auto route = std::make_unique<RankDedupRoute>();
    route->token_count = routing.token_count();
    route->top_k = routing.top_k;

    // The list every rank gets: copies by expert, then rows by rank.
    auto mine = count_copies(routing, placement_);
    fill_blocks(routing, *route);
    for (const SentBlock& block : route->sent) mine.push_back(static_cast<std::int64_t>(block.token_of_row.size()));
    const auto all = counts_.gather(mine);

    const CopyCounts counts(placement_, all, mine.size());
    counts.describe(*route, exchange_.rank());
    PairTable rows(placement_.rank_count);
    for (int source = 0; source < placement_.rank_count; ++source) {
      const auto list = std::span(all).subspan(static_cast<std::size_t>(source) * mine.size(), mine.size());
      for (int target = 0; target < placement_.rank_count; ++target) {
        rows.at(source, target) = list[static_cast<std::size_t>(placement_.expert_count + target)];
      }
    }
    route->blocks = exchange_.plan(rows, counts.by_pair());
    exchange_copies(counts, *route);
    return route;
  }

  void dispatch(const Route& any_route, TokenSide from, RowSide to) override {
    const auto& route = static_cast<const RankDedupRoute&>(any_route);
    const auto* tokens = static_cast<const T*>(from.tokens);
    const auto* copy_values = static_cast<const T*>(from.copy_values);
    const Values values = values_between(from, to);
    const std::int64_t hidden = exchange_.hidden();
    exchange_.to_experts(
        route.blocks, values,
        [&](int target, RowBlock<T> block) {
          const SentBlock& sent = route.sent[static_cast<std::size_t>(target)];
          for (const std::int64_t token : sent.token_of_row) {
            block.rows = std::copy_n(tokens + token * hidden, hidden, block.rows);
          }
          if (values == Values::none) return;
          for (const std::int64_t copy : sent.copies) *block.values++ = copy_values[copy];
        },
        [&](std::span<const RowBlock<const T>> blocks) {
          for (std::size_t source = 0; source < blocks.size(); ++source) {
            fan_out(route.received[source], blocks[source], to);
          }
        });
  }

  void combine(const Route& any_route, RowSide from, TokenSide to) override {
    const auto& route = static_cast<const RankDedupRoute&>(any_route);
    const Values values = values_between(to, from);
    exchange_.to_tokens(
        route.blocks, values,
        [&](int target, RowBlock<T> block) { reduce(route.received[static_cast<std::size_t>(target)], from, block); },
        [&](std::span<const RowBlock<const T>> blocks) {
          add_up(route, blocks, static_cast<T*>(to.tokens));
          if (values == Values::sent) return_values(route, blocks, static_cast<T*>(to.copy_values));
        });
  }

 private:
  // Goes over the tokens once. A token gets a row in the block of each rank that one of its copies goes to.
  void fill_blocks(const Routing& routing, RankDedupRoute& route) const {
    route.sent.resize(static_cast<std::size_t>(placement_.rank_count));
    for (std::int64_t token = 0; token < route.token_count; ++token) {
      route.first_partial.push_back(route.partials.size());
      for (std::int64_t copy = token * route.top_k; copy < (token + 1) * route.top_k; ++copy) {
        const std::int32_t expert_id = routing.expert_ids[static_cast<std::size_t>(copy)];
        if (expert_id < 0) continue;
        const int target = placement_.rank_of(expert_id);
        SentBlock& block = route.sent[static_cast<std::size_t>(target)];
        if (block.token_of_row.empty() || block.token_of_row.back() != token) {
          route.partials.push_back({target, static_cast<std::int64_t>(block.token_of_row.size())});
          block.token_of_row.push_back(token);
          block.copies_of_row.push_back(0);
        }
        ++block.copies_of_row.back();
        block.copies.push_back(copy);
        block.expert_of_copy.push_back(static_cast<std::uint32_t>(expert_id - placement_.first_expert(target)));
      }
      std::sort(route.partials.begin() + static_cast<std::ptrdiff_t>(route.first_partial.back()), route.partials.end(),
                [](const Partial& a, const Partial& b) { return a.rank < b.rank; });
    }
    route.first_partial.push_back(route.partials.size());
  }

  // Sends each block's [copies_of_row][expert_of_copy], and turns what comes into places: the next free row
  // of (expert, source), which gives the order that Route promises, since a block's rows are in the order of
  // tokens.
  void exchange_copies(const CopyCounts& counts, RankDedupRoute& route) {
    const PairTable& rows = route.blocks.rows;
    const PairTable& copies = route.blocks.copies;
    PairTable bytes(placement_.rank_count);
    for (int source = 0; source < placement_.rank_count; ++source) {
      for (int target = 0; target < placement_.rank_count; ++target) {
        bytes.at(source, target) = (rows.at(source, target) + copies.at(source, target)) * kEntryBytes;
      }
    }
    const BlockPlan plan = exchange_.blocks().plan(bytes);
    exchange_.blocks().run(
        plan, bytes, "route",
        [&](int target, std::byte* block) {
          const SentBlock& sent = route.sent[static_cast<std::size_t>(target)];
          auto* entry = std::ranges::copy(sent.copies_of_row, reinterpret_cast<std::uint32_t*>(block)).out;
          std::ranges::copy(sent.expert_of_copy, entry);
        },
        [&](std::span<const std::byte* const> blocks) {
          auto next_row = counts.first_rows(exchange_.rank());
          for (std::size_t source = 0; source < blocks.size(); ++source) {
            const int from = static_cast<int>(source);
            const auto* entry = reinterpret_cast<const std::uint32_t*>(blocks[source]);
            ReceivedBlock& received = route.received.emplace_back();
            received.copies_of_row.assign(entry, entry + rows.at(from, exchange_.rank()));
            entry += rows.at(from, exchange_.rank());
            for (std::int64_t copy = 0; copy < copies.at(from, exchange_.rank()); ++copy) {
              received.place_of_copy.push_back(next_row[entry[copy] * blocks.size() + source]++);
            }
          }
        });
  }

  void fan_out(const ReceivedBlock& received, RowBlock<const T> block, RowSide to) const {
    const std::int64_t hidden = exchange_.hidden();
    const std::int64_t* place = received.place_of_copy.data();
    for (const std::uint32_t copies : received.copies_of_row) {
      for (std::uint32_t copy = 0; copy < copies; ++copy) {
        std::copy_n(block.rows, hidden, static_cast<T*>(to.rows) + *place * hidden);
        if (block.values != nullptr) static_cast<T*>(to.row_values)[*place] = *block.values++;
        ++place;
      }
      block.rows += hidden;
    }
  }

  void reduce(const ReceivedBlock& received, RowSide from, RowBlock<T> block) const {
    const std::int64_t hidden = exchange_.hidden();
    const std::int64_t* place = received.place_of_copy.data();
    std::vector<const T*> rows;  // of one token on this rank, in ascending k
    for (const std::uint32_t copies : received.copies_of_row) {
      rows.clear();
      for (std::uint32_t copy = 0; copy < copies; ++copy) {
        rows.push_back(static_cast<const T*>(from.rows) + *place * hidden);
        if (block.values != nullptr) *block.values++ = static_cast<const T*>(from.row_values)[*place];
        ++place;
      }
      sum_rows<T>(rows, hidden, block.rows);
      block.rows += hidden;
    }
  }

  void add_up(const RankDedupRoute& route, std::span<const RowBlock<const T>> blocks, T* tokens) const {
    const std::int64_t hidden = exchange_.hidden();
    std::vector<const T*> rows;  // of one token, in ascending rank
    for (std::int64_t token = 0; token < route.token_count; ++token) {
      rows.clear();
      const auto index = static_cast<std::size_t>(token);
      for (std::size_t i = route.first_partial[index]; i < route.first_partial[index + 1]; ++i) {
        const Partial& partial = route.partials[i];
        rows.push_back(blocks[static_cast<std::size_t>(partial.rank)].rows + partial.block_row * hidden);
      }
      sum_rows<T>(rows, hidden, tokens + token * hidden);
    }
  }

  void return_values(const RankDedupRoute& route, std::span<const RowBlock<const T>> blocks, T* copy_values) const {
    std::fill_n(copy_values, route.token_count * route.top_k, T{0});
    for (std::size_t rank = 0; rank < blocks.size(); ++rank) {
      const T* value = blocks[rank].values;
      for (const std::int64_t copy : route.sent[rank].copies) copy_values[copy] = *value++;
    }
  }

  static constexpr std::int64_t kEntryBytes = sizeof(std::uint32_t);

  ExpertPlacement placement_;
  RowExchange<T> exchange_;
  CountsExchange counts_;
  DispatcherCapabilities capabilities_;
};

}  // namespace

std::unique_ptr<Dispatcher> make_rank_dedup_dispatcher(Channel& channel, const DispatcherOptions& options) {
  if (options.element == ElementType::f64) return std::make_unique<RankDedup<double>>(channel, options);
  return std::make_unique<RankDedup<float>>(channel, options);
}

}  // namespace mrb
