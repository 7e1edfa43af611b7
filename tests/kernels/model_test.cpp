// The kernels of the policy against the operations of the cpu backend.
#include <cmath>
#include <memory>
#include <vector>

#include "compute/attention.hpp"
#include "compute/layers.hpp"
#include "compute/matrices.hpp"
#include "compute/optimizer.hpp"
#include "compute/router.hpp"
#include "compute/tokens.hpp"
#include "kernels/device.hpp"
#include "kernels/model/model_kernels.hpp"
#include "support/catch.hpp"
#include "support/numbers.hpp"

namespace mrb::test {

namespace {

using namespace kernels;

constexpr double kDistanceMax = 2e-6;  // sums in another order, and exponentials by another function

struct Cpu {
  std::unique_ptr<ComputeBackend> backend = make_compute("cpu", {});
  Operations ops = backend->operations();
};

std::vector<float> ones(std::size_t count) {
  return std::vector<float>(count, 1.0f);
}

}  // namespace

TEST_CASE("rms_norm and its gradients are the cpu's", "[kernels]") {
  Cpu cpu;
  for (const auto& [rows, width] : {std::pair{1, 4}, std::pair{130, 68}, std::pair{3, 2048}}) {
    INFO(rows << " rows of " << width);
    const auto rows_count = static_cast<std::size_t>(rows);
    const Numbers x = draw(1, rows, width), gain = draw(2, 1, width), dy = draw(3, rows, width);
    Numbers y(rows, width), dx(rows, width), dgain = draw(4, 1, width);
    const Numbers dgain_before = dgain;
    std::vector<float> inverse(rows_count);
    cpu.ops.layers.rms_norm(x.view(), gain.values.data(), 1e-6, y.view(), inverse.data());
    cpu.ops.layers.rms_norm_backward(dy.view(), x.view(), gain.values.data(), inverse.data(), dx.view(), Store::replace,
                                     dgain.data());
    on_every_schedule([&] {
      const DeviceArray<float> in(x.values), g(gain.values), d(dy.values), out(x.values.size()), r(rows_count),
          din(x.values.size()), dg(dgain_before.values),
          scratch(static_cast<std::size_t>(gain_partials(rows)) * static_cast<std::size_t>(width));
      rms_norm({.x = in.data(),
                .gain = g.data(),
                .y = out.data(),
                .inverse_rms = r.data(),
                .rows = rows,
                .width = width,
                .eps = 1e-6},
               nullptr);
      rms_norm_backward({.dy = d.data(),
                         .x = in.data(),
                         .gain = g.data(),
                         .inverse_rms = r.data(),
                         .dx = din.data(),
                         .dgain = dg.data(),
                         .partial_dgain = scratch.data(),
                         .rows = rows,
                         .width = width},
                        nullptr);
      CHECK(relative_distance(out.read(), y.values) < kDistanceMax);
      CHECK(relative_distance(r.read(), inverse) < kDistanceMax);
      CHECK(relative_distance(din.read(), dx.values) < kDistanceMax);
      CHECK(relative_distance(dg.read(), dgain.values) < kDistanceMax);
    });
  }
}

TEST_CASE("swiglu and its gradients are the cpu's, with a scale and without", "[kernels]") {
  const bool has_scale = GENERATE(true, false);
  Cpu cpu;
  const std::int32_t rows = 5, width = 772;
  const Numbers gate_up = draw(1, rows, 2 * width), scale = draw(2, 1, rows), dy = draw(3, rows, width);
  Numbers y(rows, width), dgate_up(rows, 2 * width), dscale(1, rows);
  const float* factor = has_scale ? scale.values.data() : nullptr;
  cpu.ops.layers.swiglu(gate_up.view(), factor, y.view());
  cpu.ops.layers.swiglu_backward(dy.view(), gate_up.view(), factor, dgate_up.view(), dscale.data());
  on_every_schedule([&] {
    const DeviceArray<float> in(gate_up.values), s(scale.values), d(dy.values), out(y.values.size()),
        din(gate_up.values.size()), ds(scale.values.size());
    const float* device_scale = has_scale ? s.data() : nullptr;
    swiglu({.gate_up = in.data(), .scale = device_scale, .y = out.data(), .rows = rows, .width = width}, nullptr);
    swiglu_backward({.dy = d.data(),
                     .gate_up = in.data(),
                     .scale = device_scale,
                     .dgate_up = din.data(),
                     .dscale = ds.data(),
                     .rows = rows,
                     .width = width},
                    nullptr);
    CHECK(relative_distance(out.read(), y.values) < kDistanceMax);
    CHECK(relative_distance(din.read(), dgate_up.values) < kDistanceMax);
    if (has_scale) CHECK(relative_distance(ds.read(), dscale.values) < kDistanceMax);
  });
}

TEST_CASE("rotations are the cpu's, and backward undoes forward", "[kernels]") {
  Cpu cpu;
  const HeadShape shape{.heads = 4, .kv_heads = 2, .head_dim = 160};  // more pairs than threads
  const Numbers before = draw(1, 3, shape.row_width());
  Numbers qkv = before;
  const std::vector<std::int32_t> positions = {0, 7, 40'000};
  cpu.ops.attention.rotate(qkv.view(), positions, shape, 1e6, Rotation::forward);
  on_every_schedule([&] {
    const DeviceArray<float> turned(before.values);
    const DeviceArray<std::int32_t> at(positions);
    RotateArgs args{.qkv = turned.data(),
                    .positions = at.data(),
                    .rows = 3,
                    .heads = 4,
                    .kv_heads = 2,
                    .head_dim = 160,
                    .theta = 1e6,
                    .is_backward = false};
    kernels::rotate(args, nullptr);
    CHECK(relative_distance(turned.read(), qkv.values) < kDistanceMax);
    args.is_backward = true;
    kernels::rotate(args, nullptr);
    CHECK(relative_distance(turned.read(), before.values) < kDistanceMax);
  });
}

TEST_CASE("decoding attends over pages as the cpu does over slots, and writes the new token's row", "[kernels]") {
  const int head_dim = GENERATE(20, 128, 256);
  Cpu cpu;
  constexpr std::int32_t kPageTokens = 4, kPagesMax = 5, kSequences = 3;
  const HeadShape shape{.heads = 4, .kv_heads = 2, .head_dim = head_dim};
  const auto width = static_cast<std::size_t>(shape.kv_width());
  const std::vector<std::int32_t> tokens = {1, 4, 18};  // the new one alone, a full page, the middle of the fifth
  const std::vector<std::int32_t> pages = {7, -1, -1, -1, -1, 2, -1, -1, -1, -1, 9, 0, 4, 11, 3};
  constexpr std::size_t kTokens = 12 * kPageTokens;
  const Numbers qkv = draw(1, kSequences, shape.row_width());
  const Numbers keys = draw(2, kTokens, shape.kv_width()), values = draw(3, kTokens, shape.kv_width());

  std::vector<Numbers> slot_keys(kSequences, Numbers(20, shape.kv_width())), slot_values = slot_keys;
  std::vector<CacheSlot> slots;
  const auto row_of = [&](std::size_t s, std::int64_t t) {
    return std::int64_t{pages[s * kPagesMax + static_cast<std::size_t>(t / kPageTokens)]} * kPageTokens +
           t % kPageTokens;
  };
  for (std::size_t s = 0; s < kSequences; ++s) {
    for (std::int64_t t = 0; t + 1 < tokens[s]; ++t) {
      std::copy_n(keys.view().row(row_of(s, t)), width, slot_keys[s].view().row(t));
      std::copy_n(values.view().row(row_of(s, t)), width, slot_values[s].view().row(t));
    }
    slots.push_back({slot_keys[s].data(), slot_values[s].data(), tokens[s]});
  }
  Numbers out(kSequences, shape.q_width());
  cpu.ops.attention.decode(qkv.view(), slots, shape, out.view());

  on_every_schedule([&] {
    const DeviceArray<float> in(qkv.values), k(keys.values), v(values.values), result(out.values.size());
    const DeviceArray<std::int32_t> device_pages(pages), device_tokens(tokens);
    attend_decode({.qkv = in.data(),
                   .pages = device_pages.data(),
                   .tokens = device_tokens.data(),
                   .keys = k.data(),
                   .values = v.data(),
                   .out = result.data(),
                   .sequences = kSequences,
                   .pages_max = kPagesMax,
                   .page_tokens = kPageTokens,
                   .heads = shape.heads,
                   .kv_heads = shape.kv_heads,
                   .head_dim = head_dim},
                  nullptr);
    CHECK(relative_distance(result.read(), out.values) < kDistanceMax);
    Numbers new_keys = keys, new_values = values;
    for (std::size_t s = 0; s < kSequences; ++s) {
      const auto row = static_cast<std::int64_t>(s);
      const std::int64_t to = row_of(s, tokens[s] - 1);
      std::copy_n(qkv.view().row(row) + shape.q_width(), width, new_keys.view().row(to));
      std::copy_n(qkv.view().row(row) + shape.q_width() + shape.kv_width(), width, new_values.view().row(to));
    }
    CHECK(k.read() == new_keys.values);
    CHECK(v.read() == new_values.values);
  });
}

TEST_CASE("routing and its gradients are the cpu's, the lower expert first among equals", "[kernels]") {
  Cpu cpu;
  for (const auto& [tokens, experts, top_k] : {std::tuple{7, 128, 8}, std::tuple{3, 5, 5}, std::tuple{1, 40, 1}}) {
    INFO(tokens << " tokens, " << experts << " experts, top-k " << top_k);
    Numbers logits = draw(1, tokens, experts);
    for (std::int64_t expert = 0; expert < experts; ++expert) logits.at(0, expert) = expert % 3 == 1 ? 2.0f : 1.0f;
    const Numbers dweights = draw(2, tokens, top_k), balance = draw(3, 1, experts);
    Numbers probabilities(tokens, experts), weights(tokens, top_k), dlogits(tokens, experts);
    std::vector<std::int32_t> ids(weights.values.size());
    cpu.ops.router.route(logits.view(), top_k, probabilities.view(), ids, weights.view());
    cpu.ops.router.route_backward(dweights.view(), probabilities.view(), ids, weights.view(), balance.values,
                                  dlogits.view());
    on_every_schedule([&] {
      const DeviceArray<float> in(logits.values), p(logits.values.size()), w(weights.values.size()),
          dw(dweights.values), b(balance.values), dl(logits.values.size());
      const DeviceArray<std::int32_t> chosen(ids.size());
      kernels::route({.logits = in.data(),
                      .probabilities = p.data(),
                      .expert_ids = chosen.data(),
                      .weights = w.data(),
                      .tokens = tokens,
                      .experts = experts,
                      .top_k = top_k},
                     nullptr);
      CHECK(chosen.read() == ids);
      CHECK(relative_distance(p.read(), probabilities.values) < kDistanceMax);
      CHECK(relative_distance(w.read(), weights.values) < kDistanceMax);
      route_backward({.dweights = dw.data(),
                      .probabilities = p.data(),
                      .expert_ids = chosen.data(),
                      .weights = w.data(),
                      .balance = b.data(),
                      .dlogits = dl.data(),
                      .tokens = tokens,
                      .experts = experts,
                      .top_k = top_k},
                     nullptr);
      CHECK(relative_distance(dl.read(), dlogits.values) < 10 * kDistanceMax);  // differences of near numbers
    });
  }
}

TEST_CASE("log-probabilities and their gradients are the cpu's, in one pass without a copy", "[kernels]") {
  Cpu cpu;
  for (const std::int32_t vocabulary : {1, 129, 1500}) {
    INFO("vocabulary of " << vocabulary);
    Numbers logits = draw(1, 4, vocabulary);
    for (float& logit : logits.values) logit *= 10;
    logits.at(3, 0) = 300;  // one token has it all
    const std::vector<std::int32_t> targets = {0, vocabulary / 2, vocabulary - 1, 0};
    const std::vector<float> dlog_probs = {1, -2, 0.5, 3};
    std::vector<float> log_probs(4), log_sum(4);
    cpu.ops.tokens.log_prob(logits.view(), 0.7, targets, log_probs, log_sum);
    Numbers gradients = logits;
    cpu.ops.tokens.log_prob_backward(gradients.view(), 0.7, targets, log_sum, dlog_probs);
    on_every_schedule([&] {
      const DeviceArray<float> in(logits.values), p(4), sum(4), d(dlog_probs);
      const DeviceArray<std::int32_t> chosen(targets);
      log_prob({.logits = in.data(),
                .targets = chosen.data(),
                .log_probs = p.data(),
                .log_sum = sum.data(),
                .rows = 4,
                .vocabulary = vocabulary,
                .temperature = 0.7},
               nullptr);
      const auto got = p.read();
      for (std::size_t row = 0; row < 4; ++row) CHECK(got[row] == Approx(log_probs[row]).epsilon(1e-5).margin(1e-5));
      CHECK(relative_distance(sum.read(), log_sum) < kDistanceMax);
      log_prob_backward({.logits = in.data(),
                         .targets = chosen.data(),
                         .log_sum = sum.data(),
                         .dlog_probs = d.data(),
                         .rows = 4,
                         .vocabulary = vocabulary,
                         .temperature = 0.7},
                        nullptr);
      const auto slopes = in.read();
      for (std::size_t i = 0; i < slopes.size(); ++i) {
        CHECK(slopes[i] == Approx(gradients.values[i]).epsilon(1e-4).margin(1e-4));  // 1 - p, of p near 1
      }
    });
  }
}

TEST_CASE("the tokens drawn are the cpu's, with one excluded and without", "[kernels]") {
  const std::int32_t excluded = GENERATE(-1, 17);
  Cpu cpu;
  constexpr std::int32_t kRows = 40, kVocabulary = 300;
  Numbers logits = draw(1, kRows, kVocabulary);
  for (float& logit : logits.values) logit *= 3;
  logits.at(0, 17) = 60;                                                   // the excluded one has nearly all
  for (std::int64_t v = 5; v < kVocabulary; ++v) logits.at(1, v) = -1e4f;  // and only the first five are possible
  Random random({2});
  std::vector<double> uniforms(kRows);
  for (double& uniform : uniforms) uniform = random.uniform();
  uniforms[1] = uniforms[2] = std::nextafter(1.0, 0.0);
  uniforms[3] = 0;
  std::vector<std::int32_t> ids(kRows);
  std::vector<float> log_probs(kRows);
  cpu.ops.tokens.sample(logits.view(), 0.9, excluded, uniforms, ids, log_probs);
  on_every_schedule([&] {
    const DeviceArray<float> in(logits.values), p(kRows);
    const DeviceArray<double> u(uniforms);
    const DeviceArray<std::int32_t> drawn(kRows);
    sample({.logits = in.data(),
            .uniforms = u.data(),
            .ids = drawn.data(),
            .log_probs = p.data(),
            .rows = kRows,
            .vocabulary = kVocabulary,
            .excluded = excluded,
            .temperature = 0.9},
           nullptr);
    // But for the last: whether 1 - 1e-16 is before or beyond the whole sum is a matter of its rounding.
    auto got = drawn.read(), expected = ids;
    CHECK(got[1] < 5);
    got[1] = expected[1] = got[2] = expected[2] = 0;
    CHECK(got == expected);
    const auto got_log_probs = p.read();
    for (std::size_t row = 3; row < kRows; ++row) CHECK(got_log_probs[row] == Approx(log_probs[row]).epsilon(1e-5));
  });
}

TEST_CASE("a step of AdamW is the cpu's, also where four do not divide the weights", "[kernels]") {
  Cpu cpu;
  for (const std::int64_t count : {3, 1026}) {
    const auto gradients = draw(1, 1, count).values, start = draw(2, 1, count).values;
    auto weights = start, first = ones(gradients.size()), second = first;
    const AdamWStep step{.learning_rate = 0.01,
                         .beta1 = 0.9,
                         .beta2 = 0.95,
                         .eps = 1e-8,
                         .weight_decay = 0.1,
                         .gradient_scale = 0.5,
                         .step = 3};
    cpu.ops.optimizer.adamw(step, weights, gradients, first, second);
    on_every_schedule([&] {
      const DeviceArray<float> w(start), g(gradients), m(ones(start.size())), v(ones(start.size()));
      adamw({.weights = w.data(),
             .gradients = g.data(),
             .first_moments = m.data(),
             .second_moments = v.data(),
             .count = count,
             .learning_rate = 0.01,
             .beta1 = 0.9,
             .beta2 = 0.95,
             .eps = 1e-8,
             .weight_decay = 0.1,
             .gradient_scale = 0.5,
             .step = 3},
            nullptr);
      CHECK(relative_distance(w.read(), weights) < kDistanceMax);
      CHECK(relative_distance(m.read(), first) < kDistanceMax);
      CHECK(relative_distance(v.read(), second) < kDistanceMax);
    });
  }
}

}  // namespace mrb::test
