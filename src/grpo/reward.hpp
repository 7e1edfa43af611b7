// A reward that a small model can learn in some tens of steps, and what long answers lose of it.
#pragma once

#include <cstdint>
#include <span>

namespace mrb {

// Tokens fall in this many classes, by token % kRewardClasses.
constexpr int kRewardClasses = 4;

// "Stay in the key's class": the prompt's last token is the key, one of tokens 1 to kRewardClasses, one in each class.
// The reward is the share of answer tokens of the key's class, counted
// against the longest length the answer could have had, so that ending early does not pay. The end token never
// counts. Between 0 and 1; an answer at random gets about 1 / kRewardClasses.
double class_reward(std::span<const std::int32_t> prompt, std::span<const std::int32_t> answer, int longest);

// What a long answer loses (DAPO: soft overlong punishment): nothing up to length_max - overlong_tokens, then more with
// every token, to 1 at length_max. Between -1 and 0; overlong_tokens of 0 take nothing.
double overlong_penalty(int length, int length_max, int overlong_tokens);

}  // namespace mrb
