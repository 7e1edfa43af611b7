// From the last layer to log-probabilities. Logits are made in chunks of rows and never held all at once.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "model/context.hpp"

namespace mrb {

class Head {
 public:
  explicit Head(const ModelContext&);

  std::size_t publish() { return product_.publish(); }

  // log_probs[i] = log p(targets[i]) after the hidden state x[i], at `temperature`. log_sum is kept for backward().
  void log_probs(ConstMatrix x, std::span<const std::int32_t> targets, double temperature, std::span<float> log_probs,
                 std::span<float> log_sum) const;

  // dx[i] = d loss / d x[i]; logits are computed again, chunk by chunk.
  void backward(ConstMatrix x, std::span<const std::int32_t> targets, double temperature,
                std::span<const float> log_sum, std::span<const float> dlog_probs, Matrix dx) const;

  // All logits [rows][vocab], for sampling.
  Tensor logits(ConstMatrix x) const;

 private:
  std::int64_t rows_at_once() const;

  const ModelContext& context_;
  Norm norm_;
  Linear product_;
};

}  // namespace mrb
