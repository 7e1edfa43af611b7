// Memory and maths on one rank.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/registry.hpp"
#include "compute/matrix.hpp"

namespace mrb {

class AttentionOps;
class LayerOps;
class OptimizerOps;
class ProductOps;
class RouterOps;
class TokenOps;

// The families of operations, one interface each. The backend owns them.
struct Operations {
  ProductOps& products;      // in the backend's dtype
  ProductOps& f32_products;  // in f32 always: routers need it, a rounded logit sends a token to another expert
  LayerOps& layers;
  AttentionOps& attention;
  RouterOps& router;
  TokenOps& tokens;
  OptimizerOps& optimizer;
};

struct ComputeCapabilities {
  std::string name;            // "cpu"
  std::string device;          // the processor, in its own words
  std::string loaded_library;  // of matrix products, with its version and instruction set
  std::string dtype;           // of the inputs of products
  int threads = 1;
};

// Calls come from one thread and take effect in order. Pointers in arguments are in this backend's memory, unless
// they are said to be the host's.
class ComputeBackend {
 public:
  virtual ~ComputeBackend() = default;

  virtual const ComputeCapabilities& capabilities() const = 0;

  // Memory of at least `bytes` bytes, aligned to 64, contents undefined; recycled, so that a step that asks for the
  // same sizes again costs nothing. Throws Error(environment) with the size when there is none left.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* memory, std::size_t bytes) = 0;

  virtual Operations operations() = 0;

  // Waits until everything called before is done.
  virtual void synchronize() = 0;
};

struct ComputeOptions {
  std::string dtype = "f32";  // f32 or bf16
  int threads = 1;
};

// Throws Error(config) for a name this build does not have, Error(environment) when the device is missing.
std::unique_ptr<ComputeBackend> make_compute(std::string_view name, const ComputeOptions&);

std::vector<RegistryLine> compute_lines();

// Memory of a backend with a shape: what layers keep. Movable; gives its memory back at the end.
class Tensor {
 public:
  Tensor() = default;
  Tensor(ComputeBackend& backend, std::int64_t rows, std::int64_t columns);
  Tensor(Tensor&& other) noexcept;
  Tensor& operator=(Tensor&& other) noexcept;
  ~Tensor();

  Matrix view() const { return view_; }
  float* data() const { return view_.data; }
  std::int64_t rows() const { return view_.rows; }
  void zero();

 private:
  ComputeBackend* backend_ = nullptr;
  Matrix view_;
};

}  // namespace mrb
