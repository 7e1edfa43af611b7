// What stands between the products of a transformer layer. Shapes in brackets; all f32.
#pragma once

#include <cstdint>
#include <span>

#include "compute/matrix.hpp"

namespace mrb {

class LayerOps {
 public:
  virtual ~LayerOps() = default;

  // y[t] = x[t] * gain / rms(x[t]), rms = sqrt(mean(x^2) + eps). inverse_rms[t] is kept for the way back.
  // Zhang, Sennrich: Root mean square layer normalization.
  virtual void rms_norm(ConstMatrix x, const float* gain, double eps, Matrix y, float* inverse_rms) = 0;

  // dx (+)= d loss / dx, dgain += d loss / dgain.
  virtual void rms_norm_backward(ConstMatrix dy, ConstMatrix x, const float* gain, const float* inverse_rms, Matrix dx,
                                 Store, float* dgain) = 0;

  // y[n][f] = silu(gate) * up * scale[n], with gate_up[n] = [gate (f) | up (f)]; scale may be null (all 1).
  // Shazeer: GLU variants improve transformer. `scale` is the router's weight of the row.
  virtual void swiglu(ConstMatrix gate_up, const float* scale, Matrix y) = 0;

  // dgate_up = d loss / d gate_up, and dscale[n] = d loss / d scale[n] when scale is given.
  virtual void swiglu_backward(ConstMatrix dy, ConstMatrix gate_up, const float* scale, Matrix dgate_up,
                               float* dscale) = 0;

  // y += x
  virtual void add(ConstMatrix x, Matrix y) = 0;
};

}  // namespace mrb
