// Matrix products with weights: everything a linear layer needs, for one weight matrix or for a group of them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "compute/matrix.hpp"

namespace mrb {

// A group of equal weight matrices [group][out][in], in whatever form the backend multiplies fastest (its dtype, its
// layout). It is a copy: after the weights changed, repack().
class PackedWeights {
 public:
  virtual ~PackedWeights() = default;
};

// Rows are grouped: rows_of[g] rows of x and y belong to matrix g, in order; some may be 0. A plain linear layer is a
// group of one. Inputs of products are rounded to the backend's dtype, sums are f32.
class ProductOps {
 public:
  virtual ~ProductOps() = default;

  // weights: `groups` matrices [out][in], one after the other: weights.rows = groups * out, weights.columns = in.
  virtual std::unique_ptr<PackedWeights> pack(ConstMatrix weights, int groups) = 0;
  virtual void repack(PackedWeights&, ConstMatrix weights) = 0;

  // y[rows][out] = x[rows][in] * W^T
  virtual void forward(const PackedWeights&, std::span<const std::int64_t> rows_of, ConstMatrix x, Matrix y) = 0;

  // dx[rows][in] (+)= dy[rows][out] * W
  virtual void input_gradient(const PackedWeights&, std::span<const std::int64_t> rows_of, ConstMatrix dy, Matrix dx,
                              Store) = 0;

  // dw[group][out][in] += dy^T * x, group by group
  virtual void weight_gradient(std::span<const std::int64_t> rows_of, ConstMatrix dy, ConstMatrix x, Matrix dw) = 0;
};

}  // namespace mrb
