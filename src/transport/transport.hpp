// Moves bytes between ranks. It knows nothing of tokens or experts, and nothing of time limits: channel.hpp
// adds counting, splitting and deadlines for all transports at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/registry.hpp"
#include "cluster/bootstrap.hpp"

namespace mrb {

// A piece of memory that every rank exposed in the same collective call. The same id names each rank's own
// piece.
using RegionId = std::uint32_t;

// The immediate of a put: the number of its exchange above, its sender below. Transports read the sender, to give it
// back the room that its put took in a queue, and keep the exchange whose bits are all ones for themselves.
inline constexpr unsigned kRankBits = 12;
inline constexpr std::uint32_t kRanksMax = 1u << kRankBits;
inline constexpr std::uint32_t kExchanges = (1u << (32 - kRankBits)) - 1;  // those of callers are below this

constexpr std::uint32_t immediate_of(std::uint32_t exchange, int sender) {
  return exchange << kRankBits | static_cast<std::uint32_t>(sender);
}

// One write into a peer's memory.
struct Put {
  int peer = 0;  // never the caller's own rank
  RegionId source_region = 0;
  std::size_t source_offset_bytes = 0;
  RegionId target_region = 0;
  std::size_t target_offset_bytes = 0;
  std::size_t bytes = 0;        // 1 to put_bytes_max
  std::uint32_t immediate = 0;  // immediate_of(an exchange below kExchanges, the caller's own rank)
};

struct TransportCapabilities {
  std::string name;      // "libfabric"
  std::string provider;  // what really carries the bytes, in the library's own words: "tcp;ofi_rxm", "shm", "vader"
  std::string loaded_library;  // name and version of the library that was loaded
  std::size_t put_bytes_max = 0;
  std::size_t rails = 1;  // network interfaces that puts to one peer take in turn; the same on all ranks
};

// Puts may arrive in any order, and one put's bytes say nothing of another's: each put delivers its immediate
// at the target once all its bytes are there, and receivers count immediates. Calls come from one thread at a time.
// Nothing moves unless poll() is called, on the receiving side too.
class Transport {
 public:
  virtual ~Transport() = default;  // collective for some: destroy on all ranks, after a barrier

  virtual const TransportCapabilities& capabilities() const = 0;

  // Collective, in the same order on all ranks. `memory` stays valid, and where it is, until withdraw().
  // Lengths may differ from rank to rank. Throws Error(environment) with the library's words when it cannot
  // be registered.
  virtual RegionId expose(std::span<std::byte> memory) = 0;

  // Local. No put from or into this rank's piece may be on its way.
  virtual void withdraw(RegionId) = 0;

  // Starts a put and returns true, or returns false when no more can be in flight: poll(), then try again. The peer
  // may have to poll() too before there is room.
  // The source stays untouched by the caller until pending_puts() no longer counts it. Throws Error(internal)
  // when the put does not lie inside both regions, or its immediate is not as above.
  virtual bool try_put(const Put&) = 0;

  // Makes progress, never blocks, and appends the immediates of the puts that arrived here since the last
  // call.
  virtual void poll(std::vector<std::uint32_t>& arrived) = 0;

  // How many of this rank's own puts still need their source memory, or this rank's poll() to get to their target.
  virtual std::size_t pending_puts() const = 0;

  // One line for people who look for what a rank waits for: what is in flight, which peers have given no room, what
  // was refused, what failed.
  virtual std::string state() const = 0;
};

// What chaos.hpp does to a transport, to find protocols that rely on more than is promised here.
struct ChaosOptions {
  std::uint64_t seed = 0;  // 0: nothing
  int late_start_ms = 0;   // each rank starts up to so much late
  int stop_rank = -1;      // makes no progress any more, and takes no puts, after so many; -1: none
  std::uint64_t stop_after_puts = 0;
};

struct TransportOptions {
  // Of libfabric only:
  std::string provider = {};
  int rails = 0;                  // network interfaces to use; 0: all there are
  std::string progress = "poll";  // or thread: a thread of its own polls

  ChaosOptions chaos = {};
};

// Collective. Throws Error(config) for a name or provider this build does not know, Error(environment) when
// the machine has no such provider: what is asked for is what is used.
std::unique_ptr<Transport> make_transport(std::string_view name, Bootstrap&, const TransportOptions&);

std::vector<RegistryLine> transport_lines();

}  // namespace mrb
