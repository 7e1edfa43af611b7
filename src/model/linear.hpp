// A linear layer, or a group of equal ones: the weights, their gradient, and the copy that products run on.
#pragma once

#include <memory>
#include <span>

#include "compute/backend.hpp"
#include "compute/products.hpp"
#include "model/parameters.hpp"

namespace mrb {

class Linear {
 public:
  // `groups` equal matrices [out][in] lie one after the other in the tensor.
  Linear(ProductOps&, const Parameters&, const ParameterTensor&, int groups = 1);

  std::int64_t out() const { return weight_.rows / groups_; }
  std::int64_t in() const { return weight_.columns; }

  // Takes the weights as they are now into use. Returns their bytes.
  std::size_t publish();

  // y[rows][out] = x[rows][in] W^T. rows_of[g] rows belong to matrix g.
  void forward(std::span<const std::int64_t> rows_of, ConstMatrix x, Matrix y) const;

  // dW += dy^T x, and dx (+)= dy W.
  void backward(std::span<const std::int64_t> rows_of, ConstMatrix dy, ConstMatrix x, Matrix dx, Store) const;

 private:
  ProductOps& products_;
  int groups_;
  Matrix weight_;
  Matrix gradient_;
  std::unique_ptr<PackedWeights> packed_;
};

}  // namespace mrb
