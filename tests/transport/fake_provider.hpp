// A provider of libfabric among threads of one process that is as strict as EFA and as inconvenient as it may be. What
// tcp and shm forgive, on a laptop, is found out here.
//
// It demands VIRT_ADDR, PROV_KEY, LOCAL, ALLOCATED and CONTEXT2, and carries 4 bytes with a write. It takes a few
// writes at a time; they land late, in any order, before or after their sender is told that they are complete, and
// whether or not the target looks. Its completion queues are short, and what does not fit is lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transport/libfabric/endpoint.hpp"

namespace mrb::test {

struct FakeProviderOptions {
  std::size_t operations_max = 4;     // own writes in flight, of an endpoint
  std::size_t queue_places_max = 64;  // a longer completion queue is refused
  std::size_t cq_data_size = 4;
  std::uint64_t seed = 1;
};

struct FakeState;

// Must outlive what is opened from it.
class FakeNetwork {
 public:
  explicit FakeNetwork(const FakeProviderOptions& = {});
  ~FakeNetwork();

  // A domain whose endpoints reach those of the same rail.
  LibfabricDomain open(int rail);
  std::vector<LibfabricDomain> open_rails(int rails);

  // What a caller did that no return code can tell: a queue that overflowed, a context used twice, memory taken away
  // too early.
  std::vector<std::string> faults() const;
  // Endpoints, queues, tables, regions, domains and fabrics that were not closed.
  int open_objects() const;

 private:
  std::unique_ptr<FakeState> state_;
};

}  // namespace mrb::test
