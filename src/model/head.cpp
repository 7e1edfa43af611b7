#include "model/head.hpp"

#include <algorithm>

namespace mrb {

namespace {

constexpr std::int64_t kLogitBytesAtOnce = 4 << 20;  // about a core's share of the last cache

}  // namespace

Head::Head(const ModelContext& context)
    : context_(context),
      norm_(context, "final_norm"),
      product_(context.linear(context.shape.tied_head ? "embedding" : "head")) {}

std::int64_t Head::rows_at_once() const {
  const std::int64_t row_bytes = product_.out() * static_cast<std::int64_t>(sizeof(float));
  return std::max<std::int64_t>(16, kLogitBytesAtOnce / row_bytes);
}

void Head::log_probs(ConstMatrix x, std::span<const std::int32_t> targets, double temperature,
                     std::span<float> log_probs, std::span<float> log_sum) const {
  for (std::int64_t first = 0; first < x.rows; first += rows_at_once()) {
    const std::int64_t count = std::min(rows_at_once(), x.rows - first);
    const auto begin = static_cast<std::size_t>(first), length = static_cast<std::size_t>(count);
    const Tensor chunk = logits(x.rows_from(first, count));
    context_.ops.tokens.log_prob(chunk.view(), temperature, targets.subspan(begin, length),
                                 log_probs.subspan(begin, length), log_sum.subspan(begin, length));
  }
}

void Head::backward(ConstMatrix x, std::span<const std::int32_t> targets, double temperature,
                    std::span<const float> log_sum, std::span<const float> dlog_probs, Matrix dx) const {
  for (std::int64_t first = 0; first < x.rows; first += rows_at_once()) {
    const std::int64_t rows[] = {std::min(rows_at_once(), x.rows - first)};
    const auto begin = static_cast<std::size_t>(first), length = static_cast<std::size_t>(rows[0]);
    const ConstMatrix piece = x.rows_from(first, rows[0]);
    const Tensor normed = context_.tensor(rows[0], x.columns);
    Tensor inverse_rms;
    norm_.forward(piece, normed.view(), inverse_rms);
    const Tensor dlogits = context_.tensor(rows[0], product_.out());
    product_.forward(rows, normed.view(), dlogits.view());
    context_.ops.tokens.log_prob_backward(dlogits.view(), temperature, targets.subspan(begin, length),
                                          log_sum.subspan(begin, length), dlog_probs.subspan(begin, length));
    const Tensor dnormed = context_.tensor(rows[0], x.columns);
    product_.backward(rows, dlogits.view(), normed.view(), dnormed.view(), Store::replace);
    norm_.backward(dnormed.view(), piece, inverse_rms, dx.rows_from(first, rows[0]), Store::replace);
  }
}

Tensor Head::logits(ConstMatrix x) const {
  const Tensor normed = context_.tensor(x.rows, x.columns);
  Tensor inverse_rms;
  norm_.forward(x, normed.view(), inverse_rms);
  Tensor logits = context_.tensor(x.rows, product_.out());
  const std::int64_t rows[] = {x.rows};
  product_.forward(rows, normed.view(), logits.view());
  return logits;
}

}  // namespace mrb
