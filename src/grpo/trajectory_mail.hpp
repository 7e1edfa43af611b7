// Answers on their way from the ranks that generate to those that train on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned_buffer.hpp"
#include "config/config.hpp"
#include "config/roles.hpp"
#include "grpo/trajectory.hpp"
#include "transport/channel.hpp"

namespace mrb {

// Every answer has a place on the rank that will train on it, for as many steps as may be under way. An answer is sent
// when it ends, in two puts that may arrive in any order: its tokens and log-probabilities, and a head that says how
// long it is and what is known of it.
class TrajectoryMail {
 public:
  // Collective over all ranks, those that train and those that generate. The channel is of all of them.
  TrajectoryMail(const Config&, const Roles&, Channel&);
  ~TrajectoryMail();
  TrajectoryMail(const TrajectoryMail&) = delete;
  TrajectoryMail& operator=(const TrajectoryMail&) = delete;

  // On a rank that generates. The step's answers of staleness_max() + 1 steps before must have been trained on.
  void send(const Trajectory&);

  // On a rank that trains: whether all its answers to the step's prompts are here. Does not wait; polls. Steps in order.
  bool have_all(int step);
  // Takes them, in the order of their sequences, once have_all() said so.
  std::vector<Trajectory> take(int step);

  std::uint64_t bytes_sent() const { return bytes_sent_; }

 private:
  struct Head;
  int learner_of(int prompt) const;
  std::size_t head_place(int buffer, int answer) const;  // `answer`: among those of the learner
  std::size_t body_place(int buffer, int answer) const;

  const Config& config_;
  Roles roles_;
  Channel& channel_;
  int buffers_ = 1;  // steps that may be under way
  int answers_ = 0;  // places in one buffer of a learner
  std::size_t body_bytes_ = 0;
  AlignedBuffer memory_;  // places of a learner; of a rank that generates, the same for what it sends
  RegionId region_ = 0;
  std::vector<Tag> head_tags_;  // by buffer
  std::vector<Tag> body_tags_;
  std::vector<std::size_t> heads_from_;   // by rank, to this learner; the same every step
  std::vector<std::size_t> bodies_from_;  // of the step that is being received
  bool have_heads_ = false;
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace mrb
