// Matrix products on the processor, by dtype of their factors.
#pragma once

#include <memory>

#include "compute/products.hpp"

namespace mrb {

std::unique_ptr<ProductOps> make_f32_products();

// Throws Error(environment) on a processor that cannot.
std::unique_ptr<ProductOps> make_bf16_products();

}  // namespace mrb
