// How far two lists of numbers are apart.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>

namespace mrb::test {

// |a - b| / |b| in the Euclidean norm; infinite when the lengths differ.
template <class A, class B>
double relative_distance(const A& a, const B& b) {
  if (std::size(a) != std::size(b)) return std::numeric_limits<double>::infinity();
  double difference = 0, length = 0;
  for (std::size_t i = 0; i < std::size(a); ++i) {
    difference += (double{a[i]} - double{b[i]}) * (double{a[i]} - double{b[i]});
    length += double{b[i]} * double{b[i]};
  }
  return std::sqrt(difference / length);
}

}  // namespace mrb::test
