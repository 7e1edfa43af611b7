// The learning half of a step: from answers to new weights.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/phase_clock.hpp"
#include "compute/backend.hpp"
#include "config/config.hpp"
#include "dispatch/dispatcher.hpp"
#include "grpo/trajectory.hpp"
#include "model/policy.hpp"
#include "transport/channel.hpp"

namespace mrb {

// What one step did. Numbers are over all learning ranks and the same on each, but for `times`, which is this rank's.
struct StepResult {
  int step = 0;
  double loss = 0;                   // the objective at the first optimiser step, before any update: comparable
  double loss_mean = 0;              // over the step's optimiser steps
  double reward_mean = 0;            // over the step's answers, 0 to 1; the overlong penalty takes up to 1
  double kl_mean = 0;                // kl_estimator against the initial policy, per token; 0 when kl_coef is 0
  double clip_ratio = 0;             // share of trained tokens whose ratio the clipping held
  double gradient_norm = 0;          // before clipping, at the last optimiser step
  double log_prob_mean = 0;          // of the trained policy before the update, per response token: comparable
  double log_prob_gap = 0;           // mean |log p of the rollout - log p of the trainer| over response tokens
  std::int64_t prompt_tokens = 0;    // prefilled, once per group
  std::int64_t response_tokens = 0;  // generated, end tokens included
  std::int64_t trained_tokens = 0;   // response tokens times epochs
  std::uint64_t token_checksum = 0;  // of all prompts and answers in order: equal for equal work
  double age_mean = 0;  // over answers: updates between the weights of its first token and the trained ones
  int age_max = 0;
  double full_ratio = 0;  // share of answers that reached their longest length (the "clip ratio" of lengths)
  PhaseClock::StepTimes times;
};

struct LearnerParts {
  Channel& channel;  // of the ranks that learn
  ComputeBackend& compute;
  Dispatcher& dispatcher;
  PhaseClock& phases;
};

class Learner {
 public:
  // Builds the policy from the seed. The parts must outlive the learner.
  Learner(const Config&, LearnerParts);
  ~Learner();

  Policy& policy();

  // Collective over the channel. Trains on the step's answers, of which this rank has those to the prompts of
  // prompts_of_rank(), in order. Phases: log_probs, reference_log_probs, advantages, forward, backward,
  // gradient_reduction, optimizer, weight_sync (the new weights are packed for products), idle (waiting for the slowest
  // rank at the step's end), each with ".dispatch" and ".combine" inside it where tokens move, and ".cast" inside those
  // where rows change their type. `times` of the result is left to the caller.
  StepResult learn(int step, std::vector<Trajectory> answers);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mrb
