// One training step of the preset `small` on one rank and one thread, as train_step.py takes it in torch: forward,
// backward and AdamW on kSequences sequences of kTokens tokens.
//
//   train_step_benchmark DTYPE STEPS
//
// prints tokens per second (of the median step, in processor time) and the process's peak memory in bytes; where the
// time of the last step went is told on stderr.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "base/error.hpp"
#include "compute/optimizer.hpp"
#include "model/policy_rank.hpp"

namespace {

constexpr int kSequences = 16;
constexpr int kTokens = 128;

// Processor time of this process: with one thread it is the wall's on a quiet machine, and on a busy one it leaves out
// what the neighbours took.
class ProcessorClock final : public mrb::Clock {
 public:
  std::int64_t now_ns() const override {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  }
};

class TrainingStep {
 public:
  explicit TrainingStep(const std::string& dtype)
      : shape_(mrb::find_model_preset("small").value()),
        solo_(shape_, {.dtype = dtype}, clock_),
        batch_(mrb::test::batch_of(mrb::test::draw_sequences(1, shape_.vocab, std::vector<int>(kSequences, kTokens)))),
        dlog_probs_(batch_.scored.rows.size(), -1.0f / static_cast<float>(batch_.scored.rows.size())),
        first_moments_(*solo_.rank.compute, 1, count()),
        second_moments_(*solo_.rank.compute, 1, count()) {
    first_moments_.zero();
    second_moments_.zero();
  }

  mrb::PhaseClock::StepTimes run() {
    mrb::PhaseClock& phases = solo_.rank.phases;
    phases.begin_step();
    std::unique_ptr<mrb::Tape> tape;
    {
      const mrb::PhaseClock::Scope phase(phases, "forward");
      std::vector<float> log_probs;
      tape = solo_.policy.forward(batch_.packed, batch_.scored, 1.0, log_probs);
    }
    {
      const mrb::PhaseClock::Scope phase(phases, "backward");
      const auto gradients = solo_.policy.parameters().gradients();
      std::fill(gradients.begin(), gradients.end(), 0.0f);
      solo_.policy.backward(std::move(tape), dlog_probs_, {});
    }
    update();
    return phases.end_step();
  }

 private:
  std::int64_t count() const { return static_cast<std::int64_t>(solo_.policy.parameters().weights().size()); }

  void update() {
    const mrb::PhaseClock::Scope phase(solo_.rank.phases, "optimizer");
    mrb::Parameters& parameters = solo_.policy.parameters();
    const auto values = static_cast<std::size_t>(count());
    solo_.rank.compute->operations().optimizer.adamw(
        {.learning_rate = 1e-4, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .step = ++steps_}, parameters.weights(),
        parameters.gradients(), {first_moments_.data(), values}, {second_moments_.data(), values});
    const mrb::PhaseClock::Scope sync(solo_.rank.phases, "weight_sync");
    solo_.policy.publish_weights();
  }

  ProcessorClock clock_;
  mrb::ModelShape shape_;
  mrb::test::SoloPolicy solo_;
  mrb::test::Batch batch_;
  std::vector<float> dlog_probs_;
  mrb::Tensor first_moments_;
  mrb::Tensor second_moments_;
  std::int64_t steps_ = 0;
};

std::int64_t peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 3) {
      throw mrb::Error(mrb::ErrorKind::config, fmt::format("{} arguments instead of 2", argc - 1),
                       "give the dtype (f32 or bf16) and the number of steps");
    }
    TrainingStep step(argv[1]);
    step.run();  // memory is touched for the first time
    std::vector<double> seconds;
    mrb::PhaseClock::StepTimes times;
    for (int i = 0; i < std::max(1, std::atoi(argv[2])); ++i) {
      times = step.run();
      seconds.push_back(static_cast<double>(times.wall_ns) * 1e-9);
    }
    std::sort(seconds.begin(), seconds.end());
    fmt::print("{:.1f} {}\n", kSequences * kTokens / seconds[seconds.size() / 2], peak_bytes());
    for (const auto& [name, ns] : times.phase_ns) {
      fmt::print(stderr, "  {:<24} {:7.1f} ms\n", name, static_cast<double>(ns) * 1e-6);
    }
    return 0;
  } catch (const mrb::Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return error.exit_code();
  }
}
