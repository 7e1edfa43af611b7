// Dispatchers are templates of the element type; options choose it when they are made.
#pragma once

#include <memory>

#include "dispatch/dispatcher.hpp"

namespace mrb {

template <template <class> class Kernel>
std::unique_ptr<Dispatcher> make_by_element(Channel& channel, const DispatcherOptions& options) {
  if (options.element == ElementType::f64) return std::make_unique<Kernel<double>>(channel, options);
  return std::make_unique<Kernel<float>>(channel, options);
}

}  // namespace mrb
