// From token ids to vectors, and from logits to tokens and their log-probabilities.
#pragma once

#include <cstdint>
#include <span>

#include "compute/matrix.hpp"

namespace mrb {

constexpr std::int32_t kNoToken = -1;

class TokenOps {
 public:
  virtual ~TokenOps() = default;

  // y[t] = table[ids[t]]
  virtual void embed(ConstMatrix table, std::span<const std::int32_t> ids, Matrix y) = 0;
  // dtable[ids[t]] += dy[t]
  virtual void embed_backward(ConstMatrix dy, std::span<const std::int32_t> ids, Matrix dtable) = 0;

  // log_probs[t] = log softmax(logits[t] / temperature)[targets[t]], in f64 sums; log_sum[t] is kept for the way
  // back. Both are the host's.
  virtual void log_prob(ConstMatrix logits, double temperature, std::span<const std::int32_t> targets,
                        std::span<float> log_probs, std::span<float> log_sum) = 0;

  // In place: logits[t] becomes d loss / d logits[t], given d loss / d log_probs[t].
  virtual void log_prob_backward(Matrix logits, double temperature, std::span<const std::int32_t> targets,
                                 std::span<const float> log_sum, std::span<const float> dlog_probs) = 0;

  // ids[t] is drawn from softmax(logits[t] / temperature) by inverting its cumulative sum (f64, ascending id) at
  // uniforms[t] in [0, 1). The token `excluded`, unless it is kNoToken, is never drawn: the others are, in the
  // proportions they have in the softmax. log_probs[t] is the drawn token's in the whole softmax in either case.
  virtual void sample(ConstMatrix logits, double temperature, std::int32_t excluded, std::span<const double> uniforms,
                      std::span<std::int32_t> ids, std::span<float> log_probs) = 0;
};

}  // namespace mrb
