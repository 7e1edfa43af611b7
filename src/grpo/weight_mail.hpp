// New weights on their way from the ranks that train to those that generate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned_buffer.hpp"
#include "config/config.hpp"
#include "config/roles.hpp"
#include "model/parameters.hpp"
#include "transport/channel.hpp"

namespace mrb {

// Elements that one rank's weights have and another's need: from there to here.
struct WeightRange {
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int64_t count = 0;
};

// Where a rank stands among those that share one copy of the experts.
struct ExpertShard {
  int rank = 0;
  int ranks = 1;
};

// What `from` sends to `to`: its even part of what all ranks hold alike, and the experts that both hold. Over all ranks
// of a copy these cover the receiver's weights exactly once.
std::vector<WeightRange> weights_between(const ModelShape&, ExpertShard from, ExpertShard to);

// Every sender puts its ranges straight into memory beside the receiver's weights, cut into buckets, and a head with the
// version and a checksum. A receiver has room for two versions, so a sender is at most two ahead of what was taken.
class WeightMail {
 public:
  static constexpr int kRoom = 2;

  // Collective over all ranks. The channel is of all of them.
  WeightMail(const Config&, const Roles&, Channel&);
  ~WeightMail();
  WeightMail(const WeightMail&) = delete;
  WeightMail& operator=(const WeightMail&) = delete;

  // On a rank that trains. Versions taken by all receivers, of those this rank sent; polls.
  int versions_taken();
  int versions_sent() const { return sent_; }
  // Needs room: versions_sent() - versions_taken() < kRoom. Copies the weights, and starts their way. `blocking`: until
  // all have left.
  void send(int version, std::span<const float> weights, bool blocking);

  // On a rank that generates. Versions that are here in full, taken or not; polls.
  int versions_arrived();
  int versions_taken_here() const { return taken_; }
  // Takes the one after the last taken, once versions_arrived() says that it is here. Returns its version. Throws
  // Error(wrong_result) when what came has another checksum than what was sent.
  int take(std::span<float> weights);

  std::uint64_t bytes_sent() const { return bytes_sent_; }
  std::uint64_t bytes_taken() const { return bytes_taken_; }

 private:
  struct Head;
  ExpertShard shard_of(int rank) const;
  std::vector<std::size_t> puts_of_version() const;
  std::size_t head_place(int parity, int sender) const;

  const Config& config_;
  Roles roles_;
  Channel& channel_;
  std::size_t bucket_bytes_;
  std::int64_t count_ = 0;                        // elements of this rank's weights
  std::vector<std::vector<WeightRange>> ranges_;  // by rank of the other side
  AlignedBuffer weights_;                         // sender: a copy on its way; receiver: kRoom versions
  AlignedBuffer heads_;                           // sender: one for each receiver; receiver: [parity][sender]; a line
  RegionId weights_region_ = 0;
  RegionId heads_region_ = 0;
  Tag version_tags_[kRoom] = {};
  Tag taken_tag_ = 0;
  int sent_ = 0, taken_by_all_ = 0, arrived_ = 0, taken_ = 0;
  std::uint64_t bytes_sent_ = 0, bytes_taken_ = 0;
};

}  // namespace mrb
