// Random numbers that depend on a key alone, so that any rank can draw any sequence's numbers without asking.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace mrb {

// A stream of numbers that is a function of its key, on every machine. Typical key: {seed, purpose, step, sequence}.
class Random {
 public:
  // What a stream is for. The purpose is part of the key, so that two uses never share numbers.
  enum Purpose : std::uint64_t {
    weights = 1,
    prompts,
    lengths,
    sampling,
    order,
    routing,
    payload,
    chaos,
    prompt_lengths
  };

  explicit Random(std::initializer_list<std::uint64_t> key);

  std::uint64_t next();
  double uniform();                        // in [0, 1)
  double normal();                         // mean 0, variance 1
  std::uint64_t below(std::uint64_t end);  // in [0, end); `end` is at least 1

 private:
  std::uint64_t state_;
};

}  // namespace mrb
