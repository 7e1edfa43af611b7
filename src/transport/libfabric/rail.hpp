// One network interface of a rank: its domain, endpoint, completion queue and regions, and its writes in flight.
//
// Each write takes a place in its target's completion queue until the target reads it, EFA does not notice when that
// queue overflows, and a write may be complete here long before its target looks. So ranks give each other credit:
//
//   sender: starts a write to a peer                          target: reads half a window of them from its queue
//           while fewer than the peer's window are not
//           yet credited        <--- one write that says: half a window ---
//
// The window is what the target's queue has room for. Credits are counted and never compared, so that they too may
// overtake each other; they have places of their own in both queues, so none waits for another credit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/aligned_buffer.hpp"
#include "transport/libfabric/endpoint.hpp"
#include "transport/libfabric/region_addressing.hpp"
#include "transport/transport.hpp"

namespace mrb {

// How a rail's queues are shared out.
struct RailRoom {
  std::size_t puts = 0;     // own puts in flight, over all peers
  std::size_t credits = 0;  // own credits in flight, over all peers

  // Of a queue that takes `operations_max` own operations, among `ranks`.
  static RailRoom share(std::size_t operations_max, std::size_t ranks);

  // Places that the completion queue needs for a window, and the window for which it has places; even, and at least
  // kWindowMin when places() of that were given.
  std::size_t places(std::size_t window, std::size_t ranks) const;
  std::size_t window(std::size_t places, std::size_t ranks) const;

  static constexpr std::size_t kWindowMin = 2;
};

class LibfabricRail {
 public:
  // Opens the endpoint. Throws Error(environment) when the provider cannot carry an immediate, wants memory
  // registered in a way that is not known here, or has no queue that is long enough.
  LibfabricRail(LibfabricDomain, int rank, int ranks);

  const fi_info& info() const { return *domain_.info; }

  // What the other ranks need to write to this one over this rail. Local, as is all that follows.
  std::vector<std::byte> introduction() const;
  // Takes the introductions of this rail of all ranks, by rank. Comes before any write.
  void meet(std::span<const std::vector<std::byte>> introductions);

  // Registers this rank's piece of a region; returns its key for the peers.
  std::uint64_t expose(RegionId, std::span<std::byte> memory);
  void withdraw(RegionId);

  struct Write {
    int peer = 0;
    RegionId source_region = 0;
    const std::byte* source = nullptr;
    std::size_t bytes = 0;
    std::uint64_t target_base = 0;  // where the region begins at the peer
    std::size_t target_offset_bytes = 0;
    std::uint64_t target_key = 0;
    std::uint32_t immediate = 0;
  };
  // As Transport's methods.
  bool try_write(const Write&);
  void poll(std::vector<std::uint32_t>& arrived);
  std::size_t pending_writes() const { return room_.puts - free_puts_.size(); }

  // "eth0: 12 of 256 puts in flight, no credit from rank 3 (64 puts), 0 credits to send, 17 x EAGAIN, 2 x no credit, 0
  // errors"
  std::string state() const;

 private:
  // One write in flight. Providers may use `context` for themselves until the write completes.
  struct Operation {
    fi_context2 context;
    int peer = 0;
    bool is_credit = false;
  };

  struct Peer {
    std::uint32_t window = 0;      // puts that it has room for
    std::uint32_t uncredited = 0;  // puts to it that it has not credited yet
    std::uint32_t uncounted = 0;   // puts from it that were read and not yet credited
    std::uint64_t credit_base = 0;
    std::uint64_t credit_key = 0;
  };

  LibfabricObject<fid_mr> register_memory(std::span<std::byte> memory, std::uint64_t key);
  bool start(std::vector<Operation*>& free, int peer, const void* source, std::size_t bytes, fid_mr* registration,
             std::uint64_t remote_address, std::uint64_t key, std::uint32_t immediate);
  void take_arrival(std::uint32_t immediate, std::vector<std::uint32_t>& arrived);
  void take_completion(const fi_cq_data_entry&);
  void send_credits();
  bool is_own(const void* context) const {
    return context >= operations_.data() && context < operations_.data() + operations_.size();
  }
  [[noreturn]] void throw_queue_error();

  // Destroyed from the last to the first: the endpoint, then the regions, then the domain.
  LibfabricDomain domain_;
  int rank_;
  RegionAddressing addressing_;
  RailRoom room_;
  std::uint32_t window_ = 0;  // puts of each peer that our queue has room for
  std::vector<LibfabricObject<fid_mr>> registrations_;
  AlignedBuffer credit_memory_;  // what credits are written from, and into; nobody reads it
  LibfabricObject<fid_mr> credit_registration_;
  std::vector<Operation> operations_;
  std::vector<Operation*> free_puts_;
  std::vector<Operation*> free_credits_;
  std::vector<Peer> peers_;
  std::vector<int> credits_due_;  // the peers, one entry for each half window
  std::uint64_t eagains_ = 0;
  std::uint64_t refused_for_credit_ = 0;
  std::uint64_t errors_ = 0;
  std::unique_ptr<LibfabricEndpoint> endpoint_;
};

}  // namespace mrb
