#include "planner/train_step.hpp"

#include "planner/inputs.hpp"
#include "support/catch.hpp"

using namespace mrb;
using namespace mrb::test;

namespace {

const TrainStep kStep{
    .split = {.gpus = 64, .tensor = 2, .pipeline = 4, .expert = 16}, .sequences = 256, .tokens_per_sequence = 4096};
enum { kFlop, kLayer, kNic, kNicOverlapped, kExchange, kNvlink, kUpdate };

}  // namespace

TEST_CASE("a pipeline of 4 stages takes 3 turns more than its micro-batches", "[planner]") {
  CHECK(pipeline_turns(kStep) == 256 / 8 + 3);
}

TEST_CASE("operations are those of three forward passes, bubble included, and of four with recomputation",
          "[planner]") {
  // 23.1 GFLOP a token at 4096; each of 64 GPUs computes 1 / 8 of 32 micro-batches, and 35 turns last 35 / 32 as long.
  const double seconds = 23.1e9 * 256 * 4096 / 64 / 989e12 * 35 / 32;
  CHECK(train_terms(kQwen, kStep, kP5en)[kFlop] == Approx(seconds).epsilon(.003));
  TrainStep again = kStep;
  again.recompute = Recompute::full;
  CHECK(train_terms(kQwen, again, kP5en)[kFlop] == Approx(seconds * 4 / 3).epsilon(.003));
  CHECK(forward_terms(kQwen, kStep, kP5en)[kFlop] == Approx(seconds / 3).epsilon(.003));
}

TEST_CASE("experts within a node put nothing on the network", "[planner]") {
  TrainStep step = kStep;
  step.split.expert = 8;
  CHECK(train_terms(kQwen, step, kP5en)[kNic] == 0);
  step.split.expert = 16;
  CHECK(train_terms(kQwen, step, kP5en)[kNic] > 0);
}

TEST_CASE("fewer rows leave a node when each goes to a node once", "[planner]") {
  TrainStep step = kStep;
  step.pattern = WirePattern::per_node;
  // Two nodes: 1 row off the node a token instead of 4.
  CHECK(train_terms(kQwen, kStep, kP5en)[kNic] == Approx(4 * train_terms(kQwen, step, kP5en)[kNic]).epsilon(.01));
}

TEST_CASE("overlap moves bytes, imbalance adds operations and bytes", "[planner]") {
  TrainStep step = kStep;
  step.overlap = Overlap::on;
  CHECK(train_terms(kQwen, step, kP5en)[kNic] == 0);
  CHECK(train_terms(kQwen, step, kP5en)[kNicOverlapped] == train_terms(kQwen, kStep, kP5en)[kNic]);
  step = kStep;
  step.imbalance = 2;
  CHECK(train_terms(kQwen, step, kP5en)[kNic] == Approx(2 * train_terms(kQwen, kStep, kP5en)[kNic]));
  CHECK(train_terms(kQwen, step, kP5en)[kFlop] > 1.2 * train_terms(kQwen, kStep, kP5en)[kFlop]);
  CHECK(train_terms(kQwen, step, kP5en)[kFlop] < 2 * train_terms(kQwen, kStep, kP5en)[kFlop]);
}

TEST_CASE("a single rank reduces no gradients and sends nothing", "[planner]") {
  const auto terms = train_terms(kQwen, {.sequences = 8, .tokens_per_sequence = 512}, kP5en);
  CHECK(terms[kNic] == 0);
  CHECK(terms[kNvlink] == 0);
  CHECK(terms[kUpdate] == Approx(24 * 30.53e9 / 4.8e12).epsilon(.001));  // the optimiser alone
}
