// A transport among threads that keeps no order at all: a put leaves its source at once, stays on its way for
// as long as chance will have it, and puts land at their target in any order. Whoever relies on one put's
// arrival for another's is found out here, on a laptop, and not on EFA.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "transport/transport.hpp"

namespace mrb::test {

// What the ranks share. Puts are never split here; a limit on their length makes the channel split them.
class ShufflingNetwork {
 public:
  ShufflingNetwork(int ranks, std::uint64_t seed, std::size_t put_bytes_max) : put_bytes_max_(put_bytes_max) {
    for (int rank = 0; rank < ranks; ++rank) {
      targets_.push_back(std::make_unique<Target>(seed, static_cast<std::uint64_t>(rank)));
    }
  }

 private:
  friend class ShufflingTransport;

  struct Flight {
    Put put;
    std::vector<std::byte> bytes;
  };

  struct Target {
    Target(std::uint64_t seed, std::uint64_t rank) : random({seed, rank}) {}

    std::mutex mutex;
    Random random;
    std::vector<std::span<std::byte>> regions;
    std::vector<Flight> flights;
  };

  std::size_t put_bytes_max_;
  std::vector<std::unique_ptr<Target>> targets_;
};

class ShufflingTransport final : public Transport {
 public:
  ShufflingTransport(ShufflingNetwork& network, Bootstrap& bootstrap)
      : network_(network), bootstrap_(bootstrap), mine_(*network.targets_[static_cast<std::size_t>(bootstrap.rank())]) {
    capabilities_ = {
        .name = "shuffling", .provider = "chance", .loaded_library = "none", .put_bytes_max = network.put_bytes_max_};
  }

  const TransportCapabilities& capabilities() const override { return capabilities_; }

  RegionId expose(std::span<std::byte> memory) override {
    RegionId id;
    {
      const std::lock_guard lock(mine_.mutex);
      id = static_cast<RegionId>(mine_.regions.size());
      mine_.regions.push_back(memory);
    }
    bootstrap_.barrier();
    return id;
  }

  // A put still on its way would land in memory that is gone.
  void withdraw(RegionId region) override {
    const std::lock_guard lock(mine_.mutex);
    late_puts_ +=
        static_cast<std::size_t>(std::count_if(mine_.flights.begin(), mine_.flights.end(),
                                               [&](const auto& flight) { return flight.put.target_region == region; }));
    mine_.regions.at(region) = {};
  }

  bool try_put(const Put& put) override {
    const std::byte* source;
    {
      const std::lock_guard lock(mine_.mutex);
      if (mine_.random.below(8) == 0) return false;  // full, as far as the caller knows
      source = inside(mine_.regions, put.source_region, put.source_offset_bytes, put.bytes);
    }
    auto& target = *network_.targets_[static_cast<std::size_t>(put.peer)];
    const std::lock_guard lock(target.mutex);
    target.flights.push_back({put, {source, source + put.bytes}});
    return true;
  }

  void poll(std::vector<std::uint32_t>& arrived) override {
    const std::lock_guard lock(mine_.mutex);
    for (std::size_t i = mine_.flights.size(); i > 1; --i) {
      std::swap(mine_.flights[i - 1], mine_.flights[mine_.random.below(i)]);
    }
    for (std::size_t lands = mine_.random.below(mine_.flights.size() + 1); lands > 0; --lands) {
      const auto& [put, bytes] = mine_.flights.back();
      std::memcpy(inside(mine_.regions, put.target_region, put.target_offset_bytes, put.bytes), bytes.data(),
                  put.bytes);
      arrived.push_back(put.immediate);
      mine_.flights.pop_back();
    }
  }

  std::size_t pending_puts() const override { return 0; }

  std::string state() const override { return "puts land as chance will have it"; }

  // Puts that were on their way into memory when it was withdrawn: a fault of the protocol above.
  std::size_t late_puts() const { return late_puts_; }

 private:
  static std::byte* inside(const std::vector<std::span<std::byte>>& regions, RegionId region, std::size_t offset,
                           std::size_t bytes) {
    const std::size_t size = region < regions.size() ? regions[region].size() : 0;
    if (bytes == 0 || bytes > size || offset > size - bytes) throw std::logic_error("a put leaves its region");
    return regions[region].data() + offset;
  }

  ShufflingNetwork& network_;
  Bootstrap& bootstrap_;
  ShufflingNetwork::Target& mine_;
  TransportCapabilities capabilities_;
  std::size_t late_puts_ = 0;
};

}  // namespace mrb::test
