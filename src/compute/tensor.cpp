#include <cstring>
#include <utility>

#include "compute/backend.hpp"

namespace mrb {

Tensor::Tensor(ComputeBackend& backend, std::int64_t rows, std::int64_t columns)
    : backend_(&backend), view_{nullptr, rows, columns} {
  if (view_.size() > 0) {
    view_.data = static_cast<float*>(backend.allocate(static_cast<std::size_t>(view_.size()) * sizeof(float)));
  }
}

Tensor::Tensor(Tensor&& other) noexcept
    : backend_(std::exchange(other.backend_, nullptr)), view_(std::exchange(other.view_, {})) {}

Tensor& Tensor::operator=(Tensor&& other) noexcept {
  std::swap(backend_, other.backend_);
  std::swap(view_, other.view_);
  return *this;
}

Tensor::~Tensor() {
  if (view_.data) backend_->release(view_.data, static_cast<std::size_t>(view_.size()) * sizeof(float));
}

void Tensor::zero() {
  if (view_.data) std::memset(view_.data, 0, static_cast<std::size_t>(view_.size()) * sizeof(float));
}

}  // namespace mrb
