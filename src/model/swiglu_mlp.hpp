// down(silu(gate(x)) * up(x)): the inside of every expert, of the shared expert and of dense layers.
#pragma once

#include <span>
#include <string>

#include "model/context.hpp"

namespace mrb {

class SwigluMlp {
 public:
  // The tensors `<prefix>.gate_up` and `<prefix>.down`, each `groups` matrices.
  SwigluMlp(const ModelContext&, const std::string& prefix, int groups = 1);

  std::size_t publish() { return gate_up_.publish() + down_.publish(); }

  // y[rows][hidden], and what backward() needs: gate_up [rows][2 width]. `scale` [rows] multiplies each row inside;
  // null is 1.
  void forward(std::span<const std::int64_t> rows_of, ConstMatrix x, const float* scale, Tensor& gate_up,
               Matrix y) const;

  // dx (+)= ..., and dscale [rows] when scale is given. Gives gate_up's memory back.
  void backward(std::span<const std::int64_t> rows_of, ConstMatrix dy, ConstMatrix x, const float* scale,
                Tensor gate_up, Matrix dx, Store, float* dscale) const;

 private:
  const ModelContext& context_;
  Linear gate_up_;
  Linear down_;
};

}  // namespace mrb
