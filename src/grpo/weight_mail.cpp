#include "grpo/weight_mail.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.hpp"

namespace mrb {

struct WeightMail::Head {
  std::int64_t version = 0;
  std::uint64_t checksum = 0;
};

namespace {

constexpr std::size_t kHeadBytes = 64;  // a line of its own

// Over the bits of all elements, whatever the buckets: four sums side by side, so that it runs as fast as memory does.
class Checksum {
 public:
  void add(std::span<const float> values) {
    for (const float value : values) {
      std::uint32_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      std::uint64_t& lane = lanes_[next_++ % 4];
      lane = (lane ^ bits) * 0x9e3779b97f4a7c15u;
      lane ^= lane >> 29;
    }
  }

  std::uint64_t value() const {
    std::uint64_t hash = 0;
    for (const std::uint64_t lane : lanes_) hash = (hash ^ lane) * 0xbf58476d1ce4e5b9u;
    return hash;
  }

 private:
  std::uint64_t lanes_[4] = {1, 2, 3, 4};
  std::size_t next_ = 0;
};

std::span<const float> part(const float* weights, std::int64_t first, std::int64_t count) {
  return {weights + first, static_cast<std::size_t>(count)};
}

}  // namespace

std::vector<WeightRange> weights_between(const ModelShape& shape, ExpertShard from, ExpertShard to) {
  const int experts_from = shape.experts / from.ranks, experts_to = shape.experts / to.ranks;
  const ParameterLayout source = lay_out_parameters(shape, experts_from);
  const ParameterLayout target = lay_out_parameters(shape, experts_to);
  const std::int64_t first = source.replicated_count * from.rank / from.ranks;
  const std::int64_t end = source.replicated_count * (from.rank + 1) / from.ranks;
  std::vector<WeightRange> ranges;
  if (end > first) ranges.push_back({first, first, end - first});

  const int first_from = from.rank * experts_from, first_to = to.rank * experts_to;
  const int begin_shared = std::max(first_from, first_to);
  const int shared = std::min(first_from + experts_from, first_to + experts_to) - begin_shared;
  if (shared <= 0) return ranges;
  for (std::size_t i = 0; i < source.tensors.size(); ++i) {
    if (!source.tensors[i].is_expert) continue;
    const std::int64_t expert = source.tensors[i].rows * source.tensors[i].columns / experts_from;
    ranges.push_back({source.tensors[i].offset + (begin_shared - first_from) * expert,
                      target.tensors[i].offset + (begin_shared - first_to) * expert, shared * expert});
  }
  return ranges;
}

WeightMail::WeightMail(const Config& config, const Roles& roles, Channel& channel)
    : config_(config),
      roles_(roles),
      channel_(channel),
      bucket_bytes_(static_cast<std::size_t>(config.rollout.bucket_bytes) / sizeof(float) * sizeof(float)) {
  const bool sends = roles.trains(channel.rank());
  const ExpertShard mine = shard_of(channel.rank());
  count_ = lay_out_parameters(config.model, config.model.experts / mine.ranks).count;
  ranges_.resize(static_cast<std::size_t>(channel.size()));
  for (int rank = 0; rank < channel.size(); ++rank) {
    if (roles.trains(rank) == sends) continue;
    ranges_[static_cast<std::size_t>(rank)] = sends ? weights_between(config.model, mine, shard_of(rank))
                                                    : weights_between(config.model, shard_of(rank), mine);
  }
  const auto bytes = static_cast<std::size_t>(count_) * sizeof(float);
  weights_ = AlignedBuffer(sends ? bytes : kRoom * bytes);
  heads_ = AlignedBuffer(kHeadBytes * static_cast<std::size_t>(kRoom * roles.train_ranks + channel.size() + 1));
  weights_region_ = channel.expose(weights_.bytes());
  heads_region_ = channel.expose(heads_.bytes());
  for (Tag& tag : version_tags_) tag = channel.next_tag();
  taken_tag_ = channel.next_tag();
}

WeightMail::~WeightMail() {
  channel_.withdraw(weights_region_);
  channel_.withdraw(heads_region_);
}

ExpertShard WeightMail::shard_of(int rank) const {
  if (roles_.trains(rank)) return {rank, roles_.train_ranks};
  return {roles_.rollout_rank(rank) % roles_.rollout_expert_parallel, roles_.rollout_expert_parallel};
}

std::size_t WeightMail::head_place(int parity, int sender) const {
  return static_cast<std::size_t>(parity * roles_.train_ranks + sender) * kHeadBytes;
}

int WeightMail::versions_taken() {
  std::vector<std::size_t> one(static_cast<std::size_t>(channel_.size()), 0);
  std::fill(one.begin() + roles_.train_ranks, one.end(), std::size_t{1});
  while (taken_by_all_ < sent_ && channel_.try_take_puts(taken_tag_, one)) ++taken_by_all_;
  return taken_by_all_;
}

void WeightMail::send(int version, std::span<const float> weights, bool blocking) {
  channel_.wait_sent("weights of the version before");  // they lie where these go
  std::memcpy(weights_.data(), weights.data(), weights.size_bytes());
  const int parity = sent_++ % kRoom;
  const Tag tag = version_tags_[parity];
  const auto* copy = weights_.as<const float>();
  for (int receiver = roles_.train_ranks; receiver < channel_.size(); ++receiver) {
    const ParameterLayout theirs = lay_out_parameters(config_.model, config_.model.experts / shard_of(receiver).ranks);
    Checksum checksum;
    for (const WeightRange& range : ranges_[static_cast<std::size_t>(receiver)]) {
      checksum.add(part(copy, range.from, range.count));
      const auto bytes = static_cast<std::size_t>(range.count) * sizeof(float);
      for (std::size_t done = 0; done < bytes; done += bucket_bytes_) {
        const std::size_t from = static_cast<std::size_t>(range.from) * sizeof(float) + done;
        const std::size_t to = static_cast<std::size_t>(parity * theirs.count + range.to) * sizeof(float) + done;
        channel_.put(receiver, {weights_region_, from}, {weights_region_, to}, std::min(bucket_bytes_, bytes - done),
                     tag, "weights");
      }
      bytes_sent_ += bytes;
    }
    const Head head{version, checksum.value()};
    const std::size_t at = static_cast<std::size_t>(receiver) * kHeadBytes;
    std::memcpy(heads_.data() + at, &head, sizeof head);
    channel_.put(receiver, {heads_region_, at}, {heads_region_, head_place(parity, channel_.rank())}, sizeof head, tag,
                 "weights");
  }
  if (blocking) channel_.wait_sent("weights");
}

// Of one version, from every rank to this one.
std::vector<std::size_t> WeightMail::puts_of_version() const {
  std::vector<std::size_t> puts(static_cast<std::size_t>(channel_.size()), 0);
  for (int sender = 0; sender < roles_.train_ranks; ++sender) {
    std::size_t& count = puts[static_cast<std::size_t>(sender)];
    count = 1;  // the head
    for (const WeightRange& range : ranges_[static_cast<std::size_t>(sender)]) {
      const auto bytes = static_cast<std::size_t>(range.count) * sizeof(float);
      for (std::size_t done = 0; done < bytes; done += bucket_bytes_) {
        count += channel_.pieces(std::min(bucket_bytes_, bytes - done));
      }
    }
  }
  return puts;
}

int WeightMail::versions_arrived() {
  const auto puts = puts_of_version();
  while (arrived_ - taken_ < kRoom && channel_.try_take_puts(version_tags_[arrived_ % kRoom], puts)) ++arrived_;
  return arrived_;
}

int WeightMail::take(std::span<float> weights) {
  const int parity = taken_ % kRoom;
  const float* arrived = weights_.as<const float>() + parity * count_;
  std::int64_t version = 0;
  for (int sender = 0; sender < roles_.train_ranks; ++sender) {
    Head head;
    std::memcpy(&head, heads_.data() + head_place(parity, sender), sizeof head);
    if (sender == 0) version = head.version;
    Checksum checksum;
    for (const WeightRange& range : ranges_[static_cast<std::size_t>(sender)]) {
      checksum.add(part(arrived, range.to, range.count));
      bytes_taken_ += static_cast<std::uint64_t>(range.count) * sizeof(float);
    }
    if (head.version == version && head.checksum == checksum.value()) continue;
    throw Error(
        ErrorKind::wrong_result,
        fmt::format("weights from rank {}: version {} with checksum {:016x} was sent, and what came is version {} "
                    "of rank 0 with checksum {:016x}",
                    sender, head.version, head.checksum, version, checksum.value()),
        "the transport changes or mixes what it carries; compare with transport: mpi");
  }
  std::memcpy(weights.data(), arrived, weights.size_bytes());
  ++taken_;
  for (int sender = 0; sender < roles_.train_ranks; ++sender) {  // it is counted, and what it says does not matter
    channel_.put(sender, {heads_region_, heads_.size() - kHeadBytes}, {heads_region_, heads_.size() - kHeadBytes}, 1,
                 taken_tag_, "weights taken");
  }
  return static_cast<int>(version);
}

}  // namespace mrb
