// What the parts of the policy share.
#pragma once

#include <string>

#include "base/phase_clock.hpp"
#include "compute/attention.hpp"
#include "compute/backend.hpp"
#include "compute/layers.hpp"
#include "compute/optimizer.hpp"
#include "compute/products.hpp"
#include "compute/router.hpp"
#include "compute/tokens.hpp"
#include "config/model_shape.hpp"
#include "dispatch/dispatcher.hpp"
#include "model/linear.hpp"
#include "model/parameters.hpp"

namespace mrb {

struct ModelContext {
  const ModelShape& shape;
  const Parameters& parameters;
  ComputeBackend& compute;
  Operations ops;
  Dispatcher& dispatcher;
  PhaseClock& phases;
  int local_experts = 1;

  Tensor tensor(std::int64_t rows, std::int64_t columns) const { return Tensor(compute, rows, columns); }

  Linear linear(const std::string& name, int groups = 1) const {
    return Linear(ops.products, parameters, parameters.find(name), groups);
  }
};

// RMSNorm with its gain.
class Norm {
 public:
  Norm(const ModelContext& context, const std::string& name)
      : context_(context),
        gain_(context.parameters.weight(context.parameters.find(name)).data),
        dgain_(context.parameters.gradient(context.parameters.find(name)).data) {}

  // inverse_rms [1][rows] is kept for backward(), and to compute y again.
  void forward(ConstMatrix x, Matrix y, Tensor& inverse_rms) const {
    inverse_rms = context_.tensor(1, x.rows);
    context_.ops.layers.rms_norm(x, gain_, context_.shape.norm_eps, y, inverse_rms.data());
  }

  void backward(ConstMatrix dy, ConstMatrix x, const Tensor& inverse_rms, Matrix dx, Store store) const {
    context_.ops.layers.rms_norm_backward(dy, x, gain_, inverse_rms.data(), dx, store, dgain_);
  }

 private:
  const ModelContext& context_;
  const float* gain_;
  float* dgain_;
};

}  // namespace mrb
