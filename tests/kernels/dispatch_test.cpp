// The kernels of dispatch against the code of src/dispatch, on the routings that have broken dispatchers before.
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "base/error.hpp"
#include "dispatch/copy_counts.hpp"
#include "dispatch/forwarding.hpp"
#include "dispatch/routing_cases.hpp"
#include "dispatch/sent_rows.hpp"
#include "kernels/device.hpp"
#include "kernels/dispatch/dispatch_kernels.hpp"
#include "kernels/numbers.hpp"
#include "support/catch.hpp"

namespace mrb::test {

namespace {

using namespace kernels;

constexpr int kRanks = 4;
constexpr std::int64_t kHidden = 264;  // of f32 or bf16: whole words for more than one warp, and fewer than threads

using Ints = std::vector<std::int32_t>;

Routing view(const RankRouting& routing) {
  return {.expert_ids = routing.expert_ids, .top_k = routing.top_k};
}

// What the slots of one routing are, by the code of src/dispatch.
struct Slots {
  Ints counts, row_of_copy;
  Ints item_of_row;  // the copy, or the token
};

Slots slots_of(const TokenRows& rows, std::size_t copies, bool by_copy, std::size_t groups) {
  Slots slots{.counts = {}, .row_of_copy = Ints(copies, -1), .item_of_row = {}};
  for (const SentRows& sent : rows.sent) {
    if (sent.token_of_row.empty() && slots.counts.size() == groups) continue;
    slots.counts.push_back(static_cast<std::int32_t>(sent.token_of_row.size()));
    std::size_t copy = 0;
    for (std::size_t row = 0; row < sent.token_of_row.size(); ++row) {
      for (std::uint32_t i = 0; i < sent.copies_of_row[row]; ++i, ++copy) {
        slots.row_of_copy[static_cast<std::size_t>(sent.copies[copy])] =
            static_cast<std::int32_t>(slots.item_of_row.size());
      }
      slots.item_of_row.push_back(static_cast<std::int32_t>(by_copy ? sent.copies[copy - 1] : sent.token_of_row[row]));
    }
  }
  return slots;
}

// What the kernels make of it.
struct Assigned {
  Ints counts, first_row, row_of_copy, item_of_row;
};

Assigned assign_by_expert(const RankRouting& routing, int experts) {
  const std::size_t copies = routing.expert_ids.size(), groups = static_cast<std::size_t>(experts);
  const DeviceArray<std::int32_t> ids(routing.expert_ids), counts(groups), first(groups + 1), rows(copies),
      items(copies);
  const DeviceArray<std::int32_t> scratch(
      static_cast<std::size_t>(assign_scratch_rows(static_cast<std::int64_t>(copies))) * groups);
  assign_slots_by_expert({.expert_ids = ids.data(),
                          .chunk_counts = scratch.data(),
                          .counts = counts.data(),
                          .first_row = first.data(),
                          .row_of_copy = rows.data(),
                          .copy_of_row = items.data(),
                          .copy_count = static_cast<std::int32_t>(copies),
                          .expert_count = experts},
                         nullptr);
  Assigned assigned{counts.read(), first.read(), rows.read(), items.read()};
  assigned.item_of_row.resize(static_cast<std::size_t>(assigned.first_row.back()));
  return assigned;
}

Assigned assign_by_group(const RankRouting& routing, int experts_per_group, int group_count) {
  const std::size_t copies = routing.expert_ids.size(), groups = static_cast<std::size_t>(group_count);
  const std::size_t tokens = copies / static_cast<std::size_t>(routing.top_k);
  const DeviceArray<std::int32_t> ids(routing.expert_ids), counts(groups), first(groups + 1), rows(copies);
  const DeviceArray<std::int32_t> items(tokens * static_cast<std::size_t>(std::min(routing.top_k, group_count)));
  const DeviceArray<std::int32_t> scratch(
      static_cast<std::size_t>(assign_scratch_rows(static_cast<std::int64_t>(tokens))) * groups);
  assign_slots_by_group({.expert_ids = ids.data(),
                         .chunk_counts = scratch.data(),
                         .counts = counts.data(),
                         .first_row = first.data(),
                         .row_of_copy = rows.data(),
                         .token_of_row = items.data(),
                         .token_count = static_cast<std::int32_t>(tokens),
                         .top_k = routing.top_k,
                         .experts_per_group = experts_per_group,
                         .group_count = group_count},
                        nullptr);
  Assigned assigned{counts.read(), first.read(), rows.read(), items.read()};
  assigned.item_of_row.resize(static_cast<std::size_t>(assigned.first_row.back()));
  return assigned;
}

void check_slots(const Assigned& got, const Slots& expected) {
  CHECK(got.row_of_copy == expected.row_of_copy);
  CHECK(got.item_of_row == expected.item_of_row);
  CHECK(std::accumulate(got.counts.begin(), got.counts.end(), 0) == got.first_row.back());
  for (std::size_t group = 0; group < got.counts.size(); ++group) {
    CHECK(got.first_row[group + 1] - got.first_row[group] == got.counts[group]);
  }
}

// Rows packed by these slots.
void check_pack(const RankRouting& routing, const Slots& slots) {
  const std::size_t tokens = routing.expert_ids.size() / static_cast<std::size_t>(routing.top_k);
  const std::size_t hidden = static_cast<std::size_t>(kHidden);
  const auto numbers = random_floats(tokens * hidden, 7);
  const DeviceArray<float> from(numbers), packed(slots.item_of_row.size() * hidden);
  const DeviceArray<std::int32_t> rows(slots.row_of_copy);
  pack_rows({.tokens = from.data(),
             .row_of_copy = rows.data(),
             .packed = packed.data(),
             .token_count = static_cast<std::int32_t>(tokens),
             .top_k = routing.top_k,
             .row_bytes = static_cast<std::int32_t>(hidden * sizeof(float))},
            nullptr);
  std::vector<float> expected(slots.item_of_row.size() * hidden);
  for (std::size_t copy = 0; copy < slots.row_of_copy.size(); ++copy) {
    if (slots.row_of_copy[copy] < 0) continue;
    std::copy_n(numbers.begin() + static_cast<std::ptrdiff_t>(copy / static_cast<std::size_t>(routing.top_k) * hidden),
                hidden, expected.begin() + slots.row_of_copy[copy] * kHidden);
  }
  CHECK(packed.read() == expected);
}

std::vector<RoutingCase> routing_cases() {
  auto cases = fixed_cases(kRanks);
  for (RoutingCase& made : random_cases(kRanks, 6)) cases.push_back(std::move(made));
  cases.push_back(
      make_case({.name = "more tokens than a chunk", .tokens = [](int) { return 300; }, .top_k = 8}, kRanks, 5));
  cases.push_back(make_case({.name = "more groups than lanes", .experts_per_rank = 80, .top_k = 8}, kRanks, 6));
  return cases;
}

}  // namespace

TEST_CASE("slots by expert, rank and node, and what is packed by them, are those of src/dispatch", "[kernels]") {
  on_every_schedule([] {
    for (const RoutingCase& made : routing_cases()) {
      INFO(made.name);
      ExpertPlacement placement = made.placement;
      placement.ranks_per_node = 2;
      const RankRouting& routing = made.routing.front();
      const std::size_t copies = routing.expert_ids.size();
      const int experts = placement.expert_count, of_rank = placement.experts_per_rank();

      const auto by_expert = slots_of(rows_by_copy(view(routing), placement), copies, true, kRanks);
      const auto assigned = assign_by_expert(routing, experts);
      check_slots(assigned, by_expert);
      const auto counts = count_copies(view(routing), placement);
      CHECK(assigned.counts == Ints(counts.begin(), counts.end()));

      const auto by_rank = slots_of(rows_by_rank(view(routing), placement), copies, false, kRanks);
      const auto of_ranks = assign_by_group(routing, of_rank, kRanks);
      check_slots(of_ranks, by_rank);
      CHECK(of_ranks.counts == by_rank.counts);

      const auto by_node = slots_of(rows_by_node(view(routing), placement, 0), copies, false, kRanks);
      const auto of_nodes = assign_by_group(routing, 2 * of_rank, 2);
      check_slots(of_nodes, by_node);
      CHECK(of_nodes.counts == Ints{by_node.counts[0], by_node.counts[2]});  // rank 0's peers are ranks 0 and 2

      // One expert a group: the order of (expert, token), since a token has no expert twice.
      check_slots(assign_by_group(routing, 1, experts),
                  slots_of(rows_by_copy(view(routing), placement), copies, false, kRanks));
      for (const Slots& slots : {by_expert, by_rank, by_node}) check_pack(routing, slots);
    }
  });
}

// ---- Two hops

namespace {

// Rows of two sources that arrive at rank 0 of 2 on its node, and where they go on to.
struct Arrived {
  ExpertPlacement placement{.expert_count = 8, .rank_count = 4, .ranks_per_node = 2};
  std::array<std::int64_t, 2> rows = {13, 6};
  Forwards forwards{placement, 0};
  Ints first_place = {0};
  std::vector<RowPlace> places;

  Arrived() {
    Random random({3});
    for (std::size_t source = 0; source < rows.size(); ++source) {
      for (std::int64_t row = 0; row < rows[source]; ++row) {
        std::vector<std::uint32_t> experts;
        for (std::uint32_t expert = 0; expert < 4; ++expert) {
          if (random.below(2) == 0 || (expert == 3 && experts.empty())) experts.push_back(expert);
        }
        forwards.add_row(static_cast<int>(source) * 2, experts);
        for (const Part& part : forwards.parts(static_cast<int>(source) * 2).of(row)) {
          places.push_back({part.rank, static_cast<std::int32_t>(part.row)});
        }
        first_place.push_back(static_cast<std::int32_t>(places.size()));
      }
    }
  }
  std::int32_t row_count() const { return static_cast<std::int32_t>(rows[0] + rows[1]); }
};

}  // namespace

TEST_CASE("rows that crossed the network once go on to the ranks of their node", "[kernels]") {
  on_every_schedule([] {
    const Arrived arrived;
    const auto hidden = static_cast<std::size_t>(kHidden);
    const auto numbers = random_floats(static_cast<std::size_t>(arrived.row_count()) * hidden, 4);
    std::vector<std::vector<float>> expected;
    std::vector<std::unique_ptr<DeviceArray<float>>> blocks;
    std::vector<void*> buffers;
    for (int target = 0; target < 2; ++target) {
      const ForwardBlock& block = arrived.forwards.to(target);
      auto& rows = expected.emplace_back(block.rows.size() * hidden);
      forward<float>(
          block,
          [&](const ForwardedRow& row) {
            const std::int64_t i = (row.source == 0 ? 0 : arrived.rows[0]) + row.row;
            return RowBlock<const std::byte, const float>{
                reinterpret_cast<const std::byte*>(numbers.data() + i * kHidden), nullptr};
          },
          hidden * sizeof(float), RowBlock<std::byte, float>{reinterpret_cast<std::byte*>(rows.data()), nullptr});
      buffers.push_back(blocks.emplace_back(std::make_unique<DeviceArray<float>>(rows.size()))->data());
    }
    const DeviceArray<float> from(numbers);
    const DeviceArray<std::int32_t> first(arrived.first_place);
    const DeviceArray<RowPlace> places(arrived.places);
    const DeviceArray<void*> to(buffers);
    fan_out_rows({.rows = from.data(),
                  .first_place = first.data(),
                  .places = places.data(),
                  .buffers = to.data(),
                  .row_count = arrived.row_count(),
                  .row_bytes = static_cast<std::int32_t>(hidden * sizeof(float))},
                 nullptr);
    for (std::size_t target = 0; target < 2; ++target) CHECK(blocks[target]->read() == expected[target]);
  });
}

TEST_CASE("the sums of a node come back as src/dispatch adds and rounds them", "[kernels]") {
  const auto wire = GENERATE(WireType::native, WireType::bf16);
  on_every_schedule([=] {
    const Arrived arrived;
    RowSums<float> sums(wire, kHidden, nullptr);
    std::vector<std::vector<std::byte>> encoded;
    std::vector<RowBlock<const std::byte, const float>> blocks(4);
    std::vector<std::unique_ptr<DeviceArray<std::byte>>> parts;
    std::vector<const void*> buffers;
    for (std::size_t target = 0; target < 2; ++target) {
      const auto rows = static_cast<std::int64_t>(arrived.forwards.to(static_cast<int>(target)).rows.size());
      auto numbers = random_floats(static_cast<std::size_t>(rows * kHidden), 5 + target);
      numbers[0] = -0.0f;
      auto& bytes = encoded.emplace_back(static_cast<std::size_t>(rows) * sums.row_bytes());
      sums.encode(numbers.data(), rows, bytes.data());
      buffers.push_back(parts.emplace_back(std::make_unique<DeviceArray<std::byte>>(bytes))->data());
    }
    for (std::size_t target = 0; target < 2; ++target) blocks[target] = {encoded[target].data(), nullptr};

    std::vector<std::byte> expected(static_cast<std::size_t>(arrived.row_count()) * sums.row_bytes());
    hand_back<float>(arrived.forwards, 0, blocks, sums, {expected.data(), nullptr});
    hand_back<float>(arrived.forwards, 2, blocks, sums,
                     {expected.data() + static_cast<std::size_t>(arrived.rows[0]) * sums.row_bytes(), nullptr});

    const DeviceArray<const void*> from(buffers);
    const DeviceArray<std::int32_t> first(arrived.first_place);
    const DeviceArray<RowPlace> places(arrived.places);
    const DeviceArray<std::byte> to(expected.size());
    sum_parts({.buffers = from.data(),
               .first_part = first.data(),
               .parts = places.data(),
               .sums = to.data(),
               .sum_count = arrived.row_count(),
               .row_bytes = static_cast<std::int32_t>(sums.row_bytes())},
              wire == WireType::native ? Element::f32 : Element::bf16, nullptr);
    CHECK(to.read() == expected);
  });
}

TEST_CASE("received rows are permuted to the order of experts as fan_out_rows() does", "[kernels]") {
  on_every_schedule([] {
    Fan fan;
    Random random({11});
    Ints first = {0};
    for (int row = 0; row < 20; ++row) {
      fan.copies_of_row.push_back(1 + static_cast<std::uint32_t>(random.below(3)));
      first.push_back(first.back() + static_cast<std::int32_t>(fan.copies_of_row.back()));
    }
    fan.place_of_copy.resize(static_cast<std::size_t>(first.back()));
    std::iota(fan.place_of_copy.begin(), fan.place_of_copy.end(), 0);
    for (std::size_t i = fan.place_of_copy.size(); i > 1; --i)
      std::swap(fan.place_of_copy[i - 1], fan.place_of_copy[random.below(i)]);

    const auto numbers = random_floats(20 * static_cast<std::size_t>(kHidden), 1);
    std::vector<float> expected(fan.place_of_copy.size() * static_cast<std::size_t>(kHidden));
    fan_out_rows<float>(
        fan,
        [&](std::size_t row) {
          return reinterpret_cast<const std::byte*>(&numbers[row * static_cast<std::size_t>(kHidden)]);
        },
        RowSums<float>(WireType::native, kHidden, nullptr), expected.data());

    std::vector<RowPlace> places;
    for (const std::int64_t place : fan.place_of_copy) places.push_back({0, static_cast<std::int32_t>(place)});
    const DeviceArray<float> from(numbers), to(expected.size());
    const DeviceArray<std::int32_t> first_place(first);
    const DeviceArray<RowPlace> device_places(places);
    const DeviceArray<void*> buffers(std::vector<void*>{to.data()});
    kernels::fan_out_rows({.rows = from.data(),
                           .first_place = first_place.data(),
                           .places = device_places.data(),
                           .buffers = buffers.data(),
                           .row_count = 20,
                           .row_bytes = static_cast<std::int32_t>(kHidden * 4)},
                          nullptr);
    CHECK(to.read() == expected);
  });
}

// ---- Weighted sums of a token's rows

namespace {

struct Unpermuted {
  std::vector<float> tokens, drows, dweights;
};

// With fused multiply-adds, ascending k, the first row taken as it is. `round` is what the element type does.
template <class Round>
Unpermuted expected_sums(const Ints& row_of_copy, int top_k, const std::vector<float>& rows,
                         const std::vector<float>& weights, const std::vector<float>& dtokens, const Round& round) {
  const auto hidden = static_cast<std::size_t>(kHidden), k_count = static_cast<std::size_t>(top_k);
  Unpermuted expected{std::vector<float>(row_of_copy.size() / k_count * hidden), std::vector<float>(rows.size()),
                      std::vector<float>(row_of_copy.size())};
  for (std::size_t token = 0; token < row_of_copy.size() / k_count; ++token) {
    for (std::size_t h = 0; h < hidden; ++h) {
      float sum = 0;
      bool is_first = true;
      for (std::size_t copy = token * k_count; copy < (token + 1) * k_count; ++copy) {
        if (row_of_copy[copy] < 0) continue;
        const std::size_t at = static_cast<std::size_t>(row_of_copy[copy]) * hidden + h;
        sum = is_first ? weights[copy] * rows[at] : std::fma(weights[copy], rows[at], sum);
        is_first = false;
        expected.drows[at] = round(weights[copy] * dtokens[token * hidden + h]);
        expected.dweights[copy] += dtokens[token * hidden + h] * rows[at];
      }
      expected.tokens[token * hidden + h] = round(sum);
    }
  }
  return expected;
}

template <class T>
void check_unpermute(const RankRouting& routing, const Slots& slots) {
  constexpr Element kElement = std::is_same_v<T, float> ? Element::f32 : Element::bf16;
  const auto round = [](float value) { return to_float(from_float<T>(value)); };
  const auto hidden = static_cast<std::size_t>(kHidden);
  const std::size_t tokens = routing.expert_ids.size() / static_cast<std::size_t>(routing.top_k);
  const auto rows = floats_of<T>(slots.item_of_row.size() * hidden, 21), dtokens = floats_of<T>(tokens * hidden, 22);
  const auto weights = random_floats(routing.expert_ids.size(), 23);
  const auto expected = expected_sums(slots.row_of_copy, routing.top_k, rows, weights, dtokens, round);

  const DeviceArray<T> device_rows(to_elements<T>(rows)), device_dtokens(to_elements<T>(dtokens));
  const DeviceArray<T> sums(tokens * hidden), drows(rows.size());
  const DeviceArray<float> device_weights(weights), dweights(weights.size());
  const DeviceArray<std::int32_t> row_of_copy(slots.row_of_copy);
  const auto row_bytes = static_cast<std::int32_t>(hidden * sizeof(T));
  unpermute_rows({.rows = device_rows.data(),
                  .row_of_copy = row_of_copy.data(),
                  .weights = device_weights.data(),
                  .tokens = sums.data(),
                  .token_count = static_cast<std::int32_t>(tokens),
                  .top_k = routing.top_k,
                  .row_bytes = row_bytes},
                 kElement, nullptr);
  CHECK(to_floats(sums.read()) == expected.tokens);

  unpermute_rows_backward({.dtokens = device_dtokens.data(),
                           .rows = device_rows.data(),
                           .row_of_copy = row_of_copy.data(),
                           .weights = device_weights.data(),
                           .drows = drows.data(),
                           .dweights = dweights.data(),
                           .token_count = static_cast<std::int32_t>(tokens),
                           .top_k = routing.top_k,
                           .row_bytes = row_bytes},
                          kElement, nullptr);
  CHECK(to_floats(drows.read()) == expected.drows);
  const auto got = dweights.read();
  for (std::size_t copy = 0; copy < got.size(); ++copy)
    CHECK(got[copy] == Approx(expected.dweights[copy]).margin(1e-5));

  // Without weights, as src/dispatch adds rows up.
  unpermute_rows({.rows = device_rows.data(),
                  .row_of_copy = row_of_copy.data(),
                  .weights = nullptr,
                  .tokens = sums.data(),
                  .token_count = static_cast<std::int32_t>(tokens),
                  .top_k = routing.top_k,
                  .row_bytes = row_bytes},
                 kElement, nullptr);
  const auto plain = to_floats(sums.read());
  std::vector<float> sum(hidden);
  for (std::size_t token = 0; token < tokens; ++token) {
    std::vector<const float*> parts;
    for (std::size_t k = 0; k < static_cast<std::size_t>(routing.top_k); ++k) {
      const std::int32_t row = slots.row_of_copy[token * static_cast<std::size_t>(routing.top_k) + k];
      if (row >= 0) parts.push_back(&rows[static_cast<std::size_t>(row) * hidden]);
    }
    sum_rows<float>(parts, kHidden, sum.data());
    for (float& value : sum) value = round(value);
    CHECK(std::equal(sum.begin(), sum.end(), plain.begin() + static_cast<std::ptrdiff_t>(token * hidden)));
  }
}

}  // namespace

TEST_CASE("a token is the weighted sum of its rows, in f32, in ascending k; and back", "[kernels]") {
  on_every_schedule([] {
    for (const int top_k : {1, 8}) {
      for (const int tokens : {0, 5}) {
        const auto made =
            make_case({.name = "", .tokens = [=](int) { return tokens; }, .top_k = top_k, .dropped = 0.2}, kRanks, 9);
        const RankRouting& routing = made.routing.front();
        const auto slots =
            slots_of(rows_by_copy(view(routing), made.placement), routing.expert_ids.size(), true, kRanks);
        check_unpermute<float>(routing, slots);
        check_unpermute<Bf16Bits>(routing, slots);
      }
    }
  });
}

// ---- FP8

namespace {

template <class T>
void check_cast(const std::vector<float>& rows, std::int64_t hidden, Scales scales) {
  constexpr Element kElement = std::is_same_v<T, float> ? Element::f32 : Element::bf16;
  const RowCodec<float> codec(scales == Scales::f32 ? WireType::fp8 : WireType::fp8_pow2, hidden);
  const std::size_t row_bytes = codec.row_bytes(), stride = (row_bytes + 15) / 16 * 16;
  const std::size_t row_count = rows.size() / static_cast<std::size_t>(hidden);
  CHECK(encoded_row_bytes(static_cast<std::int32_t>(hidden), scales) == static_cast<std::int32_t>(row_bytes));

  const DeviceArray<T> from(to_elements<T>(rows)), back(rows.size());
  const DeviceArray<std::byte> encoded(row_count * stride);
  CastArgs args{.from = from.data(),
                .to = encoded.data(),
                .row_count = static_cast<std::int32_t>(row_count),
                .hidden = static_cast<std::int32_t>(hidden),
                .encoded_stride_bytes = static_cast<std::int32_t>(stride)};
  cast_to_fp8(args, kElement, scales, nullptr);
  const auto got = encoded.read();
  args.from = encoded.data();
  args.to = back.data();
  cast_from_fp8(args, kElement, scales, nullptr);
  const auto got_back = to_floats(back.read());

  std::vector<std::byte> expected(row_bytes);
  std::vector<float> decoded(static_cast<std::size_t>(hidden));
  for (std::size_t row = 0; row < row_count; ++row) {
    codec.encode(&rows[row * static_cast<std::size_t>(hidden)], expected.data());
    codec.decode(expected.data(), decoded.data());
    const std::byte* const mine = &got[row * stride];
    for (std::int64_t h = 0; h < hidden; ++h) {
      const auto i = static_cast<std::size_t>(h);
      const float value = to_float(from_float<T>(decoded[i])), mine_back = got_back[row * decoded.size() + i];
      const bool same_code = mine[i] == expected[i] || (mine[i] & expected[i] & std::byte{0x7f}) == std::byte{0x7f};
      const bool both_nan = std::isnan(decoded[i]) && std::isnan(mine_back);  // of either sign
      if (same_code && both_nan) continue;
      if (mine[i] != expected[i] || std::bit_cast<std::uint32_t>(value) != std::bit_cast<std::uint32_t>(mine_back)) {
        FAIL_CHECK("row " << row << ", number " << h << ": " << rows[row * decoded.size() + i] << " became "
                          << mine_back << ", not " << value);
      }
    }
    if (scales == Scales::power_of_two || !std::isnan(decoded[0])) {
      CHECK(std::equal(expected.begin() + hidden, expected.end(), mine + hidden));
    }
  }
}

}  // namespace

TEST_CASE("numbers become E4M3 with a scale per 128 of them and come back as RowCodec does it", "[kernels]") {
  const auto scales = GENERATE(Scales::f32, Scales::power_of_two);
  on_every_schedule([=] {
    for (const std::int64_t hidden : {16, 128, 144, 1024}) {
      auto rows = random_floats(static_cast<std::size_t>(6 * hidden), 31);
      const auto row = [&](std::int64_t i) { return rows.begin() + i * hidden; };
      std::fill_n(row(1), hidden, 0.0f);  // a block of zeros needs a scale too
      for (std::int64_t h = 0; h < hidden; ++h) row(2)[h] *= std::ldexp(1.0f, static_cast<int>(h % 40) - 20);
      row(3)[5] = std::numeric_limits<float>::infinity();
      row(4)[hidden - 1] = std::numeric_limits<float>::quiet_NaN();
      for (std::int64_t h = 0; h < hidden; ++h) row(5)[h] = h % 2 == 0 ? -0.0f : 3e38f;
      for (float& value : rows) value = to_float(from_float<Bf16Bits>(value));  // the same for both
      check_cast<float>(rows, hidden, scales);
      check_cast<Bf16Bits>(rows, hidden, scales);
    }
  });
}

// ---- Low latency

namespace {

constexpr std::int32_t kTokensMax = 8;

// One rank's memory, mapped by all.
struct Memory {
  DeviceArray<float> slots[2];
  DeviceArray<std::uint32_t> counts[2];
  DeviceArray<std::uint32_t> announced, arrived, taken;

  Memory(std::size_t slot_numbers, std::size_t runs)
      : slots{DeviceArray<float>(slot_numbers), DeviceArray<float>(slot_numbers)},
        counts{DeviceArray<std::uint32_t>(runs), DeviceArray<std::uint32_t>(runs)},
        announced(std::vector<std::uint32_t>(kRanks)),
        arrived(std::vector<std::uint32_t>(kRanks)),
        taken(std::vector<std::uint32_t>(kRanks)) {}
};

class LowLatencyRanks {
 public:
  explicit LowLatencyRanks(int experts_per_rank)
      : shape_{kRanks, experts_per_rank, kTokensMax, static_cast<std::int32_t>(kHidden * 4)} {
    const auto runs = static_cast<std::size_t>(kRanks * experts_per_rank);
    for (int rank = 0; rank < kRanks; ++rank) {
      ranks_.push_back(std::make_unique<Memory>(runs * kTokensMax * static_cast<std::size_t>(kHidden), runs));
    }
    for (std::size_t half = 0; half < 2; ++half) {
      std::vector<LowLatencyPeer> peers;
      for (const auto& rank : ranks_) {
        peers.push_back(
            {rank->slots[half].data(), rank->counts[half].data(), rank->announced.data(), rank->arrived.data()});
      }
      peers_[half] = std::make_unique<DeviceArray<LowLatencyPeer>>(peers);
    }
  }

  // Every rank puts, all but `silent`, and waits, at the same time; what each is owed.
  std::vector<std::vector<LowLatencyDebt>> exchange(const RoutingCase& made,
                                                    const std::vector<std::vector<float>>& tokens, int silent = -1,
                                                    std::uint64_t timeout_ns = 1'000'000'000) {
    ++operation_;
    std::vector<Assigned> assigned;
    std::vector<std::unique_ptr<DeviceArray<float>>> inputs;
    std::vector<std::unique_ptr<DeviceArray<std::int32_t>>> copies, first_rows;
    std::vector<std::unique_ptr<DeviceArray<LowLatencyDebt>>> debts;
    std::vector<std::function<void(void*)>> launches;
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      const auto slots = assign_by_expert(made.routing[r], made.placement.expert_count);
      inputs.push_back(std::make_unique<DeviceArray<float>>(tokens[r]));
      copies.push_back(std::make_unique<DeviceArray<std::int32_t>>(slots.item_of_row));
      first_rows.push_back(std::make_unique<DeviceArray<std::int32_t>>(slots.first_row));
      debts.push_back(std::make_unique<DeviceArray<LowLatencyDebt>>(kRanks));
      const LowLatencyPutArgs put{.shape = shape_,
                                  .tokens = inputs[r]->data(),
                                  .copy_of_row = copies[r]->data(),
                                  .first_row = first_rows[r]->data(),
                                  .peers = peers_[half()]->data(),
                                  .rank = rank,
                                  .copy_count = static_cast<std::int32_t>(made.routing[r].expert_ids.size()),
                                  .top_k = made.routing[r].top_k,
                                  .operation = operation_};
      const LowLatencyWaitArgs wait{.shape = shape_,
                                    .announced = ranks_[r]->announced.data(),
                                    .arrived = ranks_[r]->arrived.data(),
                                    .taken = ranks_[r]->taken.data(),
                                    .debts = debts[r]->data(),
                                    .timeout_ns = timeout_ns,
                                    .operation = operation_};
      if (rank != silent) launches.push_back([=](void* stream) { low_latency_put(put, stream); });
      // Taken as soon as the wait is over, while others still put.
      const std::size_t row_count = reference_rows(made.routing, made.placement, rank).size();
      taken_[r] = {std::make_unique<DeviceArray<float>>(row_count * static_cast<std::size_t>(kHidden)),
                   std::make_unique<DeviceArray<std::int32_t>>(static_cast<std::size_t>(shape_.experts_per_rank))};
      const LowLatencyTakeArgs take{.shape = shape_,
                                    .slots = ranks_[r]->slots[half()].data(),
                                    .counts = ranks_[r]->counts[half()].data(),
                                    .rows = taken_[r].rows->data(),
                                    .rows_of = taken_[r].rows_of->data()};
      launches.push_back([=](void* stream) {
        low_latency_wait(wait, stream);
        if (silent < 0) low_latency_take(take, stream);
      });
    }
    at_the_same_time(launches);
    std::vector<std::vector<LowLatencyDebt>> owed;
    for (const auto& of_rank : debts) owed.push_back(of_rank->read());
    return owed;
  }

  // What the rank took: the rows of its experts, and how many each has.
  std::pair<std::vector<float>, Ints> taken(int rank) const {
    const Taken& taken = taken_[static_cast<std::size_t>(rank)];
    return {taken.rows->read(), taken.rows_of->read()};
  }

 private:
  std::size_t half() const { return operation_ % 2; }

  struct Taken {
    std::unique_ptr<DeviceArray<float>> rows;
    std::unique_ptr<DeviceArray<std::int32_t>> rows_of;
  };

  LowLatencyShape shape_;
  Taken taken_[kRanks];
  std::vector<std::unique_ptr<Memory>> ranks_;
  std::unique_ptr<DeviceArray<LowLatencyPeer>> peers_[2];
  std::uint32_t operation_ = 0;
};

bool nothing_owed(const std::vector<std::vector<LowLatencyDebt>>& debts) {
  for (const auto& of_rank : debts) {
    for (const LowLatencyDebt& debt : of_rank) {
      if (debt.is_silent != 0 || debt.rows_announced != 0 || debt.rows_arrived != 0) return false;
    }
  }
  return true;
}

std::vector<std::vector<float>> tokens_of(const RoutingCase& made, std::uint64_t seed) {
  std::vector<std::vector<float>> tokens;
  for (const RankRouting& routing : made.routing) {
    const std::size_t count = routing.expert_ids.size() / static_cast<std::size_t>(routing.top_k);
    tokens.push_back(random_floats(count * static_cast<std::size_t>(kHidden), seed + tokens.size()));
  }
  return tokens;
}

}  // namespace

TEST_CASE("low-latency puts and waits, all ranks at once, bring every row to its expert", "[kernels]") {
  on_every_schedule([] {
    LowLatencyRanks ranks(3);
    const CaseShape shapes[] = {
        {.name = "top-k 3"},
        {.name = "no tokens anywhere", .tokens = [](int) { return 0; }},
        {.name = "no tokens on rank 0", .tokens = [](int rank) { return rank == 0 ? 0 : 5; }},
        {.name = "all to one expert", .top_k = 1, .experts = [](const ExpertPlacement&) { return experts_from(4, 1); }},
        {.name = "top-k 8, some dropped", .tokens = [](int) { return 3; }, .top_k = 8, .dropped = 0.3}};
    std::uint64_t seed = 40;
    for (const CaseShape& shape : shapes) {
      INFO(shape.name);
      const auto made = make_case(shape, kRanks, ++seed);
      const auto tokens = tokens_of(made, seed);
      CHECK(nothing_owed(ranks.exchange(made, tokens)));
      const auto expected = reference_dispatch<float>(made.routing, made.placement, kHidden, tokens);
      for (int rank = 0; rank < kRanks; ++rank) {
        const auto sources = reference_rows(made.routing, made.placement, rank);
        const auto [rows, rows_of] = ranks.taken(rank);
        CHECK(rows == expected[static_cast<std::size_t>(rank)]);
        CHECK(std::accumulate(rows_of.begin(), rows_of.end(), std::size_t{0}) == sources.size());
      }
    }
  });
}

TEST_CASE("a low-latency wait for a rank that says nothing ends with its name", "[kernels]") {
  LowLatencyRanks ranks(3);
  const auto made = make_case({.name = ""}, kRanks, 1);
  const auto debts = ranks.exchange(made, tokens_of(made, 1), 2, 50'000'000);
  for (const auto& of_rank : debts) {
    for (std::size_t source = 0; source < kRanks; ++source) CHECK(of_rank[source].is_silent == (source == 2 ? 1 : 0));
  }
}

TEST_CASE("kernels refuse what they cannot move, with the values", "[kernels]") {
  CHECK_THROWS_WITH(pack_rows({.top_k = 1, .row_bytes = 72}, nullptr),
                    contains("kernel pack_rows moves 16 bytes of a row at a time, and bytes of a row is 72"));
  CHECK_THROWS_WITH(pack_rows({.top_k = 33, .row_bytes = 64}, nullptr), contains("cannot do a top_k of 33"));
  CHECK_THROWS_WITH(cast_to_fp8({.hidden = 100, .encoded_stride_bytes = 112}, Element::f32, Scales::f32, nullptr),
                    contains("numbers of a row is 100"));
  CHECK_THROWS_WITH(cast_to_fp8({.hidden = 128, .encoded_stride_bytes = 128}, Element::f32, Scales::f32, nullptr),
                    contains("use one from 132 to"));
  CHECK_THROWS_AS(sum_parts({.row_bytes = 8}, Element::f32, nullptr), Error);
  CHECK_THROWS_AS(fan_out_rows({.row_bytes = 8}, nullptr), Error);
  CHECK_THROWS_AS(unpermute_rows({.row_bytes = 8}, Element::f32, nullptr), Error);
}

}  // namespace mrb::test
