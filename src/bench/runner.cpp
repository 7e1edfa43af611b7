#include "bench/runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/error.hpp"
#include "base/units.hpp"
#include "bench/comparison.hpp"
#include "bench/traffic_meter.hpp"

namespace mrb {

namespace {

class Runner {
 public:
  Runner(const Plan& plan, const LaunchContext& context, const RunnerHooks& hooks)
      : plan_(plan), context_(context), hooks_(hooks), is_first_(context.bootstrap.rank() == 0) {
    for (const Experiment& experiment : plan.experiments) record_.results.push_back({.experiment = experiment});
    for (const SkippedExperiment& skipped : plan.skipped) {
      record_.results.push_back(
          {.experiment = skipped.experiment, .status = ResultStatus::skipped, .reason = skipped.reason});
    }
    record_.notes = plan.notes;
    for (const auto& block : plan.blocks) record_.launches_planned += static_cast<int>(block.size());
  }

  RunRecord run(Rehearsal rehearsal) {
    const std::int64_t began_ns = context_.clock.now_ns();
    for (std::size_t i = 0; rehearsal == Rehearsal::yes && i < plan_.experiments.size(); ++i)
      rehearse(record_.results[i]);
    const double limit_s = plan_.experiments.front().config.measure.time_limit_s;
    for (std::size_t block = 0; block < plan_.blocks.size() && !interrupted_; ++block) {
      const double elapsed_s = ns_to_s(context_.bootstrap.max(context_.clock.now_ns() - began_ns));
      if (limit_s > 0 && elapsed_s > limit_s) {
        record_.notes.push_back(fmt::format("the time limit of {} s ended the run after {} of {} blocks", limit_s,
                                            block, plan_.blocks.size()));
        break;
      }
      for (const int index : plan_.blocks[block]) {
        launch(static_cast<int>(block), record_.results[static_cast<std::size_t>(index)]);
        if (interrupted_) break;
      }
      if (!interrupted_) ++record_.blocks_done;
    }
    finish();
    return std::move(record_);
  }

 private:
  void rehearse(Result& result) {
    if (interrupted_) return;
    const auto launch = set_up(result);
    if (!launch || !agrees_with_reference(*launch, result)) return;
    launch->run(std::max(1, result.experiment.config.measure.warmup_steps), 0, hooks_.interrupted);
    interrupted_ = context_.bootstrap.max(hooks_.interrupted() ? 1 : 0) > 0;
    report(fmt::format("rehearsed {}: its dispatcher agrees with the reference", result.experiment.label));
  }

  void launch(int block, Result& result) {
    if (result.status == ResultStatus::failed) return;
    const MeasureConfig& measure = result.experiment.config.measure;
    const std::int64_t began_ns = context_.clock.now_ns();
    auto launch = set_up(result);
    if (!launch) return;
    LaunchSample sample = launch->run(measure.warmup_steps, measure.steps, hooks_.interrupted);
    launch.reset();
    const bool cut_short = is_first_ && static_cast<int>(sample.steps.size()) < measure.warmup_steps + measure.steps;
    interrupted_ = context_.bootstrap.max(cut_short ? 1 : 0) > 0;
    if (interrupted_) return;
    result.status = ResultStatus::done;
    sample.block = block;
    sample.index = record_.launches_done++;
    if (!is_first_) return;
    const double rate = launch_tokens_per_s(sample);
    const std::string doubt = efa_doubt(sample);
    if (!doubt.empty() && result.launches.empty()) {
      record_.notes.push_back(fmt::format("not comparable: {}: {}", result.experiment.label, doubt));
    }
    result.launches.push_back(std::move(sample));
    report(fmt::format("launch {:>3} of {}  block {}  {:<32} {:>9.0f} tokens/s  {:.1f} s", record_.launches_done,
                       record_.launches_planned, block + 1, result.experiment.label, rate,
                       ns_to_s(context_.clock.now_ns() - began_ns)));
  }

  // Null when this experiment cannot be set up, which is then its result.
  std::unique_ptr<Launch> set_up(Result& result) {
    try {
      return std::make_unique<Launch>(result.experiment, context_);
    } catch (const Error& error) {
      // Nobody answers a rank that has stopped: that is the end, not one experiment's failure.
      if (error.kind() == ErrorKind::timeout || error.kind() == ErrorKind::internal) throw;
      fail(result, error);
      return nullptr;
    }
  }

  bool agrees_with_reference(Launch& launch, Result& result) {
    try {
      launch.check();
      return true;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::wrong_result) throw;
      result.wrong = true;
      fail(result, error);
      return false;
    }
  }

  void fail(Result& result, const Error& error) {
    result.status = ResultStatus::failed;
    result.reason = error.what();
    report(fmt::format("{}: failed: {}", result.experiment.label, error.what()));
  }

  void report(const std::string& line) {
    if (!is_first_) return;
    hooks_.progress(line);
    compare_results(record_.results);
    hooks_.save(record_);
  }

  void finish() {
    int failed = 0, done = 0;
    for (const Result& result : record_.results) {
      failed += result.status == ResultStatus::failed ? 1 : 0;
      done += result.status == ResultStatus::done ? 1 : 0;
    }
    record_.status = interrupted_ ? "interrupted" : done == 0 ? "failed" : failed > 0 ? "partial" : "ok";
    if (!is_first_) return;  // the samples are on the first rank alone
    compare_results(record_.results);
    hooks_.save(record_);
  }

  const Plan& plan_;
  LaunchContext context_;
  const RunnerHooks& hooks_;
  bool is_first_;
  bool interrupted_ = false;
  RunRecord record_;
};

}  // namespace

RunRecord run_plan(const Plan& plan, const LaunchContext& context, const RunnerHooks& hooks, Rehearsal rehearsal) {
  return Runner(plan, context, hooks).run(rehearsal);
}

int exit_code_of(const RunRecord& record) {
  for (const Result& result : record.results) {
    if (result.wrong || !result.same_work) return static_cast<int>(ErrorKind::wrong_result);
  }
  if (record.status == "failed") return static_cast<int>(ErrorKind::environment);
  return record.status == "partial" ? static_cast<int>(ErrorKind::partial) : 0;
}

}  // namespace mrb
