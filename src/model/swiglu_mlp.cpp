#include "model/swiglu_mlp.hpp"

namespace mrb {

SwigluMlp::SwigluMlp(const ModelContext& context, const std::string& prefix, int groups)
    : context_(context),
      gate_up_(context.linear(prefix + ".gate_up", groups)),
      down_(context.linear(prefix + ".down", groups)) {}

void SwigluMlp::forward(std::span<const std::int64_t> rows_of, ConstMatrix x, const float* scale, Tensor& gate_up,
                        Matrix y) const {
  gate_up = context_.tensor(x.rows, gate_up_.out());
  gate_up_.forward(rows_of, x, gate_up.view());
  const Tensor inner = context_.tensor(x.rows, down_.in());
  context_.ops.layers.swiglu(gate_up.view(), scale, inner.view());
  down_.forward(rows_of, inner.view(), y);
}

void SwigluMlp::backward(std::span<const std::int64_t> rows_of, ConstMatrix dy, ConstMatrix x, const float* scale,
                         Tensor gate_up, Matrix dx, Store store, float* dscale) const {
  Tensor dgate_up = context_.tensor(x.rows, gate_up_.out());
  {
    const Tensor inner = context_.tensor(x.rows, down_.in());
    context_.ops.layers.swiglu(gate_up.view(), scale, inner.view());  // cheaper to compute again than to keep
    const Tensor dinner = context_.tensor(x.rows, down_.in());
    down_.backward(rows_of, dy, inner.view(), dinner.view(), Store::replace);
    context_.ops.layers.swiglu_backward(dinner.view(), gate_up.view(), scale, dgate_up.view(), dscale);
  }
  gate_up_.backward(rows_of, dgate_up.view(), x, dx, store);
}

}  // namespace mrb
