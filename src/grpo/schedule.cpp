#include "grpo/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <thread>
#include <utility>

#include "base/aligned_buffer.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/units.hpp"
#include "grpo/rollout.hpp"
#include "grpo/trainer.hpp"
#include "grpo/trajectory_mail.hpp"
#include "grpo/weight_mail.hpp"
#include "transport/collectives.hpp"

namespace mrb {

namespace {

// Between two looks at what has come: the other side may need this core.
constexpr auto kNap = std::chrono::microseconds(50);

// A wait for the other side, which may take as long as a step.
class Patience {
 public:
  explicit Patience(double timeout_s) : timeout_s_(timeout_s), began_ns_(steady_now_ns()) {}

  void nap(const char* what, const std::string& state) {
    if (ns_to_s(steady_now_ns() - began_ns_) > timeout_s_) {
      throw Error(ErrorKind::timeout, fmt::format("{}: waited {} s; {}", what, timeout_s_, state),
                  "look at the ranks of the other side first; if a step may take so long, raise schedule.timeout_s");
    }
    std::this_thread::sleep_for(kNap);
  }

 private:
  double timeout_s_;
  std::int64_t began_ns_;
};

class Colocated final : public Schedule {
 public:
  Colocated(const Config& config, ScheduleParts parts)
      : parts_(parts),
        collectives_(parts.group),
        trainer_(config, {parts.group, parts.compute, parts.dispatcher, parts.phases}) {}

  std::vector<RankStep> run(int steps, const std::function<bool()>& interrupted) override {
    std::vector<RankStep> done;
    while (static_cast<int>(done.size()) < steps) {
      if (collectives_.all_reduce_max(interrupted() ? 1 : 0) > 0) break;
      const DispatchBytes before = parts_.dispatcher.bytes();
      RankStep step{.result = trainer_.run_step(static_cast<int>(done.size()))};
      step.dispatch = parts_.dispatcher.bytes() - before;
      done.push_back(std::move(step));
    }
    return done;
  }

 private:
  ScheduleParts parts_;
  Collectives collectives_;
  Trainer trainer_;
};

// What the sides tell each other beside answers and weights: that a step is trained, and that this rank sends nothing any
// more. Each is a put that is counted.
class Signals {
 public:
  Signals(const Roles& roles, Channel& channel)
      : roles_(roles), channel_(channel), memory_(AlignedBuffer::kAlignment), region_(channel.expose(memory_.bytes())) {
    trained_ = channel.next_tag();
    end_ = channel.next_tag();
  }
  ~Signals() { channel_.withdraw(region_); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // Rank 0, to all that generate; these hear it once for every step.
  void say_trained() { tell(roles_.train_ranks, channel_.size(), trained_); }
  bool hear_trained() { return channel_.try_take_puts(trained_, one_from(0, 1)); }

  // To the other side. It may still have puts on their way to this rank, so this rank goes on polling until it has heard
  // the same of all of them.
  void say_end(std::int64_t steps_trained) {
    channel_.wait_sent("the end");
    *memory_.as<std::int64_t>() = steps_trained;
    roles_.trains(channel_.rank()) ? tell(roles_.train_ranks, channel_.size(), end_)
                                   : tell(0, roles_.train_ranks, end_);
    channel_.wait_sent("the end");
  }
  // On ranks that generate, which may hear of the end before they hear of the last steps.
  std::int64_t steps_trained() const { return memory_.as<const std::int64_t>()[1]; }
  bool hear_end() {
    return channel_.try_take_puts(end_, roles_.trains(channel_.rank()) ? one_from(roles_.train_ranks, channel_.size())
                                                                       : one_from(0, roles_.train_ranks));
  }

 private:
  void tell(int first, int end, Tag tag) {
    constexpr std::size_t kBytes = sizeof(std::int64_t);  // only of the end it matters what they are
    const std::size_t place = tag == end_ ? kBytes : 2 * kBytes;
    for (int rank = first; rank < end; ++rank) {
      channel_.put(rank, {region_, 0}, {region_, place}, kBytes, tag, "signal");
    }
  }
  std::vector<std::size_t> one_from(int first, int end) const {
    std::vector<std::size_t> puts(static_cast<std::size_t>(channel_.size()), 0);
    std::fill(puts.begin() + first, puts.begin() + end, std::size_t{1});
    return puts;
  }

  Roles roles_;
  Channel& channel_;
  AlignedBuffer memory_;
  RegionId region_;
  Tag trained_ = 0, end_ = 0;
};

// What both sides have. Made in the same order on all ranks.
struct Side {
  Side(const Config& given, ScheduleParts schedule_parts)
      : config(given),
        parts(schedule_parts),
        roles(roles_of(given)),
        answers(given, roles, parts.world),
        weights(given, roles, parts.world),
        signals(roles, parts.world),
        collectives(parts.group) {
    parts.world.poll_together(parts.group);
  }

  const Config& config;
  ScheduleParts parts;
  Roles roles;
  TrajectoryMail answers;
  WeightMail weights;
  Signals signals;
  Collectives collectives;  // of the group
};

class TrainSide final : public Schedule {
 public:
  TrainSide(const Config& config, ScheduleParts parts)
      : side_(config, parts), learner_(config, {parts.group, parts.compute, parts.dispatcher, parts.phases}) {}

  std::vector<RankStep> run(int steps, const std::function<bool()>& interrupted) override {
    std::vector<RankStep> done;
    PhaseClock& phases = side_.parts.phases;
    for (int step = 0; step < steps; ++step) {
      phases.begin_step();
      const DispatchBytes before = side_.parts.dispatcher.bytes();
      const std::uint64_t weight_bytes = side_.weights.bytes_sent();
      if (!wait_for_answers(step, interrupted)) break;
      RankStep record{.result = learner_.learn(step, side_.answers.take(step))};
      version_ = step + 1;
      send_weights();
      if (side_.parts.world.rank() == 0) side_.signals.say_trained();
      record.result.times = phases.end_step();
      record.dispatch = side_.parts.dispatcher.bytes() - before;
      record.weight_bytes = side_.weights.bytes_sent() - weight_bytes;
      done.push_back(std::move(record));
    }
    side_.signals.say_end(static_cast<std::int64_t>(done.size()));
    Patience patience(side_.config.schedule.timeout_s);
    while (!side_.signals.hear_end()) patience.nap("the end", "not all ranks that generate have stopped");
    return done;
  }

 private:
  // False when the run is to end. All ranks that train go round together, so that they agree on what goes out when.
  bool wait_for_answers(int step, const std::function<bool()>& interrupted) {
    Patience patience(side_.config.schedule.timeout_s);
    bool have_all = false;
    while (true) {
      const PhaseClock::Scope phase(side_.parts.phases, "wait_rollouts");
      have_all = have_all || side_.answers.have_all(step);
      std::int64_t state[] = {have_all ? 0 : 1, interrupted() ? 1 : 0, -side_.weights.versions_taken()};
      side_.collectives.all_reduce_max(state);
      if (state[1] > 0) return false;
      if (owes_weights_ && side_.weights.versions_sent() + static_cast<int>(state[2]) < WeightMail::kRoom) {
        const PhaseClock::Scope sending(side_.parts.phases, "weight_send");
        push();
      }
      if (state[0] == 0) return true;
      patience.nap("answers", fmt::format("step {} of those that train waits for answers to its prompts", step));
    }
  }

  // Sends the newest weights, or leaves that for later when a receiver has yet to take the last ones.
  void send_weights() {
    const PhaseClock::Scope phase(side_.parts.phases, "weight_send");
    const std::int64_t taken = -side_.collectives.all_reduce_max(-side_.weights.versions_taken());
    owes_weights_ = true;
    if (side_.weights.versions_sent() - taken < WeightMail::kRoom) push();
  }

  void push() {
    side_.weights.send(version_, learner_.policy().parameters().weights(), side_.config.schedule.name != "async");
    owes_weights_ = false;
  }

  Side side_;
  Learner learner_;
  int version_ = 0;
  bool owes_weights_ = false;
};

class RolloutSide final : public Schedule {
 public:
  RolloutSide(const Config& config, ScheduleParts parts)
      : side_(config, parts),
        mine_(prompts_of_rank(config.grpo.prompts, side_.roles.rollout_rank(parts.world.rank()),
                              side_.roles.rollout_ranks)),
        policy_(config.model, {config.model.experts, parts.group.size()}, parts.group.rank(), config.seed,
                {parts.compute, parts.dispatcher, parts.phases}),
        engine_(config, cache_slots(config, mine_.count() * config.grpo.group_size),
                {policy_, parts.compute, parts.phases}) {}

  // `steps` and `interrupted` are for those that train, which say when to stop.
  std::vector<RankStep> run(int, const std::function<bool()>&) override {
    open_window();
    Patience patience(side_.config.schedule.timeout_s);
    bool idle = false;
    while (true) {
      const Agreement agreed = agree(idle);
      for (; windows_ < agreed.trained; ++windows_) close_window();
      if (agreed.stop) break;
      const bool between_steps = agreed.idle;
      if (between_steps || side_.config.schedule.in_flight) take_weights(agreed.versions);
      const bool submitted = submit_next(agreed);
      idle = agreed.idle && !submitted;
      if (idle) {
        const PhaseClock::Scope phase(side_.parts.phases, "wait_weights");
        patience.nap("weights", fmt::format("step {} of those that generate waits for version {}, and has {}",
                                            next_step_, next_step_ - staleness_max(side_.config.schedule), version_));
        continue;
      }
      patience = Patience(side_.config.schedule.timeout_s);
      if (submitted || agreed.may_admit) engine_.admit(version_);
      engine_.decode();
      send_ended();
    }
    const PhaseClock::Scope phase(side_.parts.phases, "idle");
    side_.signals.say_end(0);
    return std::move(windows_done_);
  }

 private:
  // What all ranks of the group know together.
  struct Agreement {
    int versions = 0;  // that have arrived at all
    int trained = 0;   // steps
    bool stop = false;
    bool may_admit = false;
    bool idle = false;
    bool queue_empty = false;
  };

  Agreement agree(bool was_idle) {
    const PhaseClock::Scope phase(side_.parts.phases, was_idle ? "wait_weights" : "decode");
    while (side_.signals.hear_trained()) ++trained_;
    stop_ = stop_ || side_.signals.hear_end();
    if (stop_) trained_ = side_.signals.steps_trained();
    std::int64_t state[] = {-side_.weights.versions_arrived(),
                            -trained_,
                            stop_ ? 0 : 1,  // only once all have heard it
                            engine_.may_admit() ? 1 : 0,
                            engine_.is_idle() ? 0 : 1,
                            engine_.has_waiting() ? 1 : 0};
    side_.collectives.all_reduce_max(state);
    return {static_cast<int>(-state[0]),
            static_cast<int>(-state[1]),
            state[2] == 0,
            state[3] > 0,
            state[4] == 0,
            state[5] == 0};
  }

  // The newest weights there are, which one_step_off does not take before their step.
  void take_weights(int versions) {
    const bool exact = side_.config.schedule.name == "one_step_off";
    bool took = false;
    while (side_.weights.versions_taken_here() < versions) {
      if (exact && version_ + 1 > next_step_ - 1) break;
      const PhaseClock::Scope phase(side_.parts.phases, "weight_receive");
      version_ = side_.weights.take(policy_.parameters().weights());
      took = true;
    }
    if (!took) return;
    const PhaseClock::Scope phase(side_.parts.phases, "weight_sync");
    policy_.publish_weights();
  }

  // Admission: this is all that bounds how old an answer's weights may be.
  bool submit_next(const Agreement& agreed) {
    const bool has_room = side_.config.schedule.in_flight ? agreed.queue_empty : agreed.idle;
    if (!has_room || next_step_ - version_ > staleness_max(side_.config.schedule)) return false;
    engine_.submit(next_step_++, mine_);
    return true;
  }

  void send_ended() {
    for (const Trajectory& answer : engine_.take_ended()) {
      const PhaseClock::Scope phase(side_.parts.phases, "answer_send");
      side_.answers.send(answer);
    }
  }

  void open_window() {
    side_.parts.phases.begin_step();
    dispatch_before_ = side_.parts.dispatcher.bytes();
    answer_bytes_before_ = side_.answers.bytes_sent();
  }

  void close_window() {
    RankStep step;
    step.result.step = windows_;
    step.result.times = side_.parts.phases.end_step();
    step.dispatch = side_.parts.dispatcher.bytes() - dispatch_before_;
    step.answer_bytes = side_.answers.bytes_sent() - answer_bytes_before_;
    windows_done_.push_back(std::move(step));
    open_window();
  }

  Side side_;
  PromptRange mine_;
  Policy policy_;
  RolloutEngine engine_;
  int version_ = 0;           // of the policy's weights
  int next_step_ = 0;         // whose prompts are the next to be submitted
  std::int64_t trained_ = 0;  // steps, as far as this rank has heard
  bool stop_ = false;
  int windows_ = 0;
  std::vector<RankStep> windows_done_;
  DispatchBytes dispatch_before_;
  std::uint64_t answer_bytes_before_ = 0;
};

}  // namespace

std::unique_ptr<Schedule> make_schedule(const Config& config, ScheduleParts parts) {
  const Roles roles = roles_of(config);
  if (!roles.apart) return std::make_unique<Colocated>(config, parts);
  if (roles.trains(parts.world.rank())) return std::make_unique<TrainSide>(config, parts);
  return std::make_unique<RolloutSide>(config, parts);
}

bool is_idle_phase(const std::string& phase) {
  return phase == "idle" || phase == "wait_rollouts" || phase == "wait_weights";
}

}  // namespace mrb
