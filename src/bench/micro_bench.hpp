// One operation that micro.cpp measures, on one rank. A new one is a class here and a line in make_micro_bench().
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "bench/micro.hpp"
#include "dispatch/dispatcher.hpp"
#include "transport/channel.hpp"

namespace mrb {

class MicroBench {
 public:
  virtual ~MicroBench() = default;

  // All methods are collective; `index` is another number for every iteration of a launch, the same on all ranks.

  // Gets ready for one size: sizes[size_index].
  virtual void prepare(std::size_t size_index) = 0;

  // What comes before the measured part of an iteration.
  virtual void before(std::uint64_t index) = 0;

  // One iteration, measured; or kNotMeasured on a rank whose time says nothing.
  struct Times {
    std::int64_t total_ns = 0;
    std::int64_t cast_ns = 0;
  };
  static constexpr std::int64_t kNotMeasured = -1;
  virtual Times run() = 0;

  // How much of what run() gave on this rank is wrong. Only asked when there is a check.
  virtual std::uint64_t count_wrong() = 0;

  // The period in ns of `count` operations without barriers, or 0 when this operation has none. Adds to `wrong`.
  virtual double run_in_a_row(std::uint64_t index, int count, std::uint64_t& wrong) = 0;

  // Handed to the transport since the bench was made.
  virtual DispatchBytes bytes() const = 0;
};

std::unique_ptr<MicroBench> make_dispatch_bench(Channel&, const LaunchContext&, const MicroSpec&, const Config&);
std::unique_ptr<MicroBench> make_transport_bench(Channel&, const LaunchContext&, const MicroSpec&, const Config&);
std::unique_ptr<MicroBench> make_alltoallv_bench(Channel&, const LaunchContext&, const MicroSpec&, const Config&);

// Tokens of one rank at one size.
std::int64_t micro_tokens(std::uint64_t size_bytes, const DispatcherOptions&);

// The options of a variant's dispatcher, with room for the largest size unless the configuration says how much.
DispatcherOptions micro_dispatcher_options(const MicroSpec&, const Config&, int ranks_per_node);

}  // namespace mrb
