#include "model/linear.hpp"

namespace mrb {

Linear::Linear(ProductOps& products, const Parameters& parameters, const ParameterTensor& tensor, int groups)
    : products_(products),
      groups_(groups),
      weight_(parameters.weight(tensor)),
      gradient_(parameters.gradient(tensor)),
      packed_(products.pack(weight_, groups)) {}

std::size_t Linear::publish() {
  products_.repack(*packed_, weight_);
  return static_cast<std::size_t>(weight_.size()) * sizeof(float);
}

void Linear::forward(std::span<const std::int64_t> rows_of, ConstMatrix x, Matrix y) const {
  products_.forward(*packed_, rows_of, x, y);
}

void Linear::backward(std::span<const std::int64_t> rows_of, ConstMatrix dy, ConstMatrix x, Matrix dx,
                      Store store) const {
  products_.weight_gradient(rows_of, dy, x, gradient_);
  products_.input_gradient(*packed_, rows_of, dy, dx, store);
}

}  // namespace mrb
