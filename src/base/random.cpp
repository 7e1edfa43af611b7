#include "base/random.hpp"

#include <cmath>
#include <numbers>

namespace mrb {

namespace {

// The increment and finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators).
constexpr std::uint64_t kIncrement = 0x9e3779b97f4a7c15u;

std::uint64_t scramble(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

Random::Random(std::initializer_list<std::uint64_t> key) : state_(kIncrement) {
  for (const std::uint64_t part : key) state_ = scramble(state_ + kIncrement + scramble(part + kIncrement));
}

std::uint64_t Random::next() {
  state_ += kIncrement;
  return scramble(state_);
}

double Random::uniform() {
  return static_cast<double>(next() >> 11) * 0x1.0p-53;
}

double Random::normal() {
  const double radius = std::sqrt(-2 * std::log1p(-uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

std::uint64_t Random::below(std::uint64_t end) {
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * end) >> 64);
}

}  // namespace mrb
