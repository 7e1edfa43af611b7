// What all users of a transport share: counted arrivals, long puts in pieces, deadlines that say who is
// missing, and the bytes that went to each peer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cluster/bootstrap.hpp"
#include "transport/transport.hpp"

namespace mrb {

// One exchange among ranks. Carried in the immediate with the sender's rank, so arrivals of different
// exchanges, and of different senders, never mix whatever the order in which they come.
using Tag = std::uint32_t;

// A piece of a region.
struct Piece {
  RegionId region = 0;
  std::size_t offset_bytes = 0;
};

class Channel {
 public:
  // Collective. Both references must outlive the channel.
  Channel(Transport&, Bootstrap&, double timeout_s);

  int rank() const { return rank_; }
  int size() const { return size_; }
  const TransportCapabilities& capabilities() const { return transport_.capabilities(); }

  RegionId expose(std::span<std::byte> memory) { return transport_.expose(memory); }  // collective
  void withdraw(RegionId region) { transport_.withdraw(region); }

  // A tag for the next exchange. Every rank takes its tags in the same order, so the same exchange has the
  // same tag.
  Tag next_tag();

  // Starts writing `bytes` (0 is allowed and sends nothing) to `peer`, which may not be this rank. Polls
  // while the transport is full, within the deadline. `operation` names the exchange in errors: "dispatch",
  // "all_reduce".
  void put(int peer, Piece from, Piece to, std::size_t bytes, Tag tag, std::string_view operation);

  // Waits until the puts of `bytes_from[peer]` bytes with this tag have arrived from every peer (0: none is
  // expected; this rank's own entry is not looked at). Throws Error(timeout) that names the operation, the
  // ranks that are missing and how many puts of how many arrived.
  void wait_arrivals(Tag tag, std::span<const std::size_t> bytes_from, std::string_view operation);

  // The same for any number of puts: waits until `puts_from[peer]` have arrived. A put() of so many bytes counts as
  // pieces(bytes).
  void wait_puts(Tag tag, std::span<const std::size_t> puts_from, std::string_view operation);
  std::size_t pieces(std::size_t bytes) const;

  // The same without waiting: true, and done with, once they have all arrived. Polls.
  bool try_take_puts(Tag tag, std::span<const std::size_t> puts_from);

  // Whenever this channel polls, the other polls too, and the other way round: a rank that takes part in two exchanges
  // waits in one, and its peers in the other must not wait for it. Both must then live as long as either is used.
  void poll_together(Channel& other);

  // Waits until all own puts have left their source memory.
  void wait_sent(std::string_view operation);

  // Collective. Waits until all own puts have been sent and all to this rank have arrived, those too that nobody waited for:
  // what is still on its way when a transport ends may come out of the next one (Open MPI gives a communicator's number
  // to the next).
  void drain(Bootstrap&);

  struct Traffic {
    std::vector<std::uint64_t> bytes_to;  // by peer, payload as handed to the transport
    std::uint64_t puts = 0;
    std::uint64_t retries = 0;  // puts the transport could not take at once
    // By peer: how long this rank waited for it after half of those that it waited for had come, summed over the
    // exchanges in which that peer was the last. A slow rank, and one behind a slow link, stand out.
    std::vector<std::int64_t> late_ns;
  };
  const Traffic& traffic() const { return traffic_; }
  void reset_traffic();

 private:
  void poll();
  void poll_own();
  std::string state(Tag) const;  // a line for errors: what this rank knows beside what it waits for
  // All pieces of a put of `bytes` are this long, but the last. With several rails a long put has a piece for each.
  // Depends on nothing but what all ranks agree on, so both ends count the same pieces.
  std::size_t piece_bytes(std::size_t bytes) const;

  Transport& transport_;
  int rank_;
  int size_;
  std::int64_t timeout_ns_;
  std::size_t put_bytes_max_;
  std::size_t rails_;
  Tag next_tag_ = 0;
  std::vector<std::size_t> puts_from_;                       // scratch of wait_arrivals()
  std::vector<int> missing_;                                 // scratch of wait_puts(): peers, ascending
  std::vector<std::uint32_t> arrived_;                       // scratch of poll()
  std::unordered_map<std::uint32_t, std::size_t> arrivals_;  // immediate -> puts not yet waited for
  Traffic traffic_;
  std::vector<std::uint64_t> puts_to_;    // by peer, since the channel was made
  std::vector<std::uint64_t> puts_came_;  // by sender
  std::vector<Channel*> others_;          // that poll together with this one
};

}  // namespace mrb
