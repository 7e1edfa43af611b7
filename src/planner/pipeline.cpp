#include "planner/pipeline.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <queue>
#include <utility>

#include "base/error.hpp"
#include "config/faults.hpp"

namespace mrb {

namespace {

constexpr std::pair<Schedule, std::string_view> kSchedules[] = {{Schedule::colocated, "colocated"},
                                                                {Schedule::disaggregated, "disaggregated"},
                                                                {Schedule::one_step_off, "one_step_off"},
                                                                {Schedule::async, "async"}};

// Answers that are being generated, soonest end first. All of them advance at the same pace, so one clock of work done
// serves all: an answer ends when the clock shows what it showed at its begin and the answer's work.
class Rollout {
 public:
  explicit Rollout(const Pipeline& pipeline) : pipeline_(pipeline) {}

  bool has_free_slot() const { return running_.size() < static_cast<std::size_t>(pipeline_.slots); }
  bool is_running() const { return !running_.empty(); }
  double next_end_s() const { return seen_s_ + (running_.top().first - work_) * pace(); }
  std::int64_t begun() const { return begun_; }

  void begin(double now_s, int tag) {
    advance(now_s);
    running_.emplace(work_ + pipeline_.sample_s(begun_++), tag);
  }

  // Ends the soonest; returns what it was begun with.
  int end() {
    seen_s_ = next_end_s();
    const auto [work, tag] = running_.top();
    work_ = work;
    running_.pop();
    return tag;
  }

  // Nothing advances from `now_s` on for so many seconds.
  void pause(double now_s, double seconds) {
    advance(now_s);
    seen_s_ = now_s + seconds;
  }

 private:
  using Answer = std::pair<double, int>;  // the clock at its end, and its tag

  double pace() const { return pipeline_.pace ? pipeline_.pace(static_cast<int>(running_.size())) : 1; }
  void advance(double now_s) {
    if (!running_.empty()) work_ += (now_s - seen_s_) / pace();
    seen_s_ = now_s;
  }

  const Pipeline& pipeline_;
  std::priority_queue<Answer, std::vector<Answer>, std::greater<>> running_;
  double work_ = 0;    // the clock
  double seen_s_ = 0;  // when it was looked at last
  std::int64_t begun_ = 0;
};

// Generates one whole batch from `now_s` on; returns when its last answer is there.
double generate_batch(const Pipeline& pipeline, Rollout& rollout, double now_s, PipelineResult& result) {
  for (int begun = 0; begun < pipeline.samples_per_step || rollout.is_running();) {
    if (begun < pipeline.samples_per_step && rollout.has_free_slot()) {
      rollout.begin(now_s, 0);
      ++begun;
    } else {
      now_s = rollout.next_end_s();
      rollout.end();
      ++result.events;
    }
  }
  return now_s;
}

void run_in_turn(const Pipeline& p, Rollout& rollout, PipelineResult& result) {
  const double switch_s = p.schedule == Schedule::colocated ? p.switch_s : 0;
  double now_s = 0;
  for (int step = 0; step < p.steps; ++step) {
    now_s = generate_batch(p, rollout, now_s, result) + p.train_s + p.sync_s + switch_s;
    ++result.events;
    result.step_end_s.push_back(now_s);
  }
}

void run_one_step_off(const Pipeline& p, Rollout& rollout, PipelineResult& result) {
  double now_s = generate_batch(p, rollout, 0, result);
  for (int step = 0; step < p.steps; ++step) {
    now_s += p.sync_s;
    const bool is_last = step + 1 == p.steps;
    const double generated_s = is_last ? now_s : generate_batch(p, rollout, now_s, result);
    now_s = std::max(generated_s, now_s + p.train_s);
    ++result.events;
    result.step_end_s.push_back(now_s);
  }
  result.staleness_max = p.steps > 1 ? 1 : 0;
  result.staleness_mean = static_cast<double>(p.steps - 1) / p.steps;
}

// Answers are trained in the order in which they were begun, so that admission alone bounds their staleness: the i-th
// begins with version v only if i < (v + staleness_max + 1) batch, and is trained in step i / batch.
void run_async(const Pipeline& p, Rollout& rollout, PipelineResult& result) {
  const std::int64_t batch = p.samples_per_step;
  struct Batch {
    int finished = 0;
    int oldest_version = 0;
    std::int64_t version_sum = 0;
  };
  std::vector<Batch> batches(static_cast<std::size_t>(p.steps));
  const auto batch_of = [&](std::int64_t sample) -> Batch& {
    return batches[static_cast<std::size_t>(sample / batch)];
  };
  double now_s = 0, trained_s = 0, staleness_sum = 0;
  int version = 0;
  bool is_training = false;
  while (version < p.steps) {
    const std::int64_t admitted = std::min<std::int64_t>(version + p.staleness_max + 1, p.steps) * batch;
    while (rollout.has_free_slot() && rollout.begun() < admitted) {
      const std::int64_t sample = rollout.begun();
      Batch& mine = batch_of(sample);
      if (sample % batch == 0) mine.oldest_version = version;
      mine.version_sum += version;
      rollout.begin(now_s, static_cast<int>(sample / batch));
    }
    const Batch& next = batches[static_cast<std::size_t>(version)];
    if (!is_training && next.finished == batch) {
      staleness_sum += static_cast<double>(version * batch - next.version_sum);
      result.staleness_max = std::max(result.staleness_max, version - next.oldest_version);
      is_training = true;
      trained_s = now_s + p.train_s;
    }
    ++result.events;
    if (rollout.is_running() && (!is_training || rollout.next_end_s() <= trained_s)) {
      now_s = rollout.next_end_s();
      ++batches[static_cast<std::size_t>(rollout.end())].finished;
    } else {
      rollout.pause(trained_s, p.sync_s);
      now_s = trained_s + p.sync_s;
      is_training = false;
      ++version;
      result.step_end_s.push_back(now_s);
    }
  }
  result.staleness_mean = staleness_sum / static_cast<double>(p.steps * batch);
}

}  // namespace

Schedule find_schedule(std::string_view name) {
  std::vector<std::string_view> names;
  for (const auto& [schedule, known] : kSchedules) {
    if (known == name) return schedule;
    names.push_back(known);
  }
  throw Error(ErrorKind::config, fmt::format("there is no schedule called '{}'", shown(std::string(name))),
              fmt::format("use one of: {}", fmt::join(names, ", ")));
}

std::string_view schedule_name(Schedule wanted) {
  for (const auto& [schedule, name] : kSchedules) {
    if (schedule == wanted) return name;
  }
  return "";
}

PipelineResult simulate(const Pipeline& pipeline) {
  Rollout rollout(pipeline);
  PipelineResult result;
  switch (pipeline.schedule) {
    case Schedule::colocated:
    case Schedule::disaggregated:
      run_in_turn(pipeline, rollout, result);
      break;
    case Schedule::one_step_off:
      run_one_step_off(pipeline, rollout, result);
      break;
    case Schedule::async:
      run_async(pipeline, rollout, result);
      break;
  }
  result.total_s = result.step_end_s.back();
  result.trainer_busy_s = pipeline.steps * pipeline.train_s;
  return result;
}

}  // namespace mrb
