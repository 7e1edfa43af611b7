#include "grpo/trajectory_mail.hpp"

#include <algorithm>
#include <cstring>

namespace mrb {

struct TrajectoryMail::Head {
  std::int32_t step = 0;
  std::int32_t sequence = 0;
  std::int32_t longest = 0;
  std::int32_t first_version = 0;
  std::int64_t tokens = 0;  // of the answer
  double reward = 0;
};

namespace {

constexpr std::size_t kHeadBytes = 64;  // a line of its own

std::size_t bytes_of(std::size_t prompt_tokens, std::size_t answer_tokens) {
  return prompt_tokens * sizeof(std::int32_t) + answer_tokens * (sizeof(std::int32_t) + sizeof(float));
}

}  // namespace

TrajectoryMail::TrajectoryMail(const Config& config, const Roles& roles, Channel& channel)
    : config_(config), roles_(roles), channel_(channel), buffers_(staleness_max(config.schedule) + 1) {
  static_assert(sizeof(Head) <= kHeadBytes);
  const GrpoConfig& grpo = config.grpo;
  const int prompts = grpo.prompts;
  for (int learner = 0; learner < roles.train_ranks; ++learner) {
    answers_ = std::max(answers_, prompts_of_rank(prompts, learner, roles.train_ranks).count() * grpo.group_size);
  }
  body_bytes_ =
      bytes_of(static_cast<std::size_t>(grpo.prompt_tokens), static_cast<std::size_t>(grpo.response_tokens_max));
  // A rank that generates keeps what it sends where it will lie at the learner, for each learner that it sends to.
  const bool learns = roles.trains(channel.rank());
  const std::size_t places = static_cast<std::size_t>(buffers_) * static_cast<std::size_t>(answers_);
  const int own =
      learns ? 0 : prompts_of_rank(prompts, roles.rollout_rank(channel.rank()), roles.rollout_ranks).count();
  const std::size_t own_places = static_cast<std::size_t>(buffers_ * own * grpo.group_size);
  memory_ = AlignedBuffer(std::max<std::size_t>(1, learns ? places : own_places) * (kHeadBytes + body_bytes_));
  region_ = channel.expose(memory_.bytes());
  for (int buffer = 0; buffer < buffers_; ++buffer) {
    head_tags_.push_back(channel.next_tag());
    body_tags_.push_back(channel.next_tag());
  }
  heads_from_.assign(static_cast<std::size_t>(channel.size()), 0);
  if (!learns) return;
  for (int generator = 0; generator < roles.rollout_ranks; ++generator) {
    const PromptRange theirs = prompts_of_rank(prompts, generator, roles.rollout_ranks);
    const PromptRange mine = prompts_of_rank(prompts, channel.rank(), roles.train_ranks);
    const int shared = std::min(theirs.end, mine.end) - std::max(theirs.first, mine.first);
    heads_from_[static_cast<std::size_t>(roles.train_ranks + generator)] =
        static_cast<std::size_t>(std::max(0, shared) * grpo.group_size);
  }
}

TrajectoryMail::~TrajectoryMail() {
  channel_.withdraw(region_);
}

int TrajectoryMail::learner_of(int prompt) const {
  int learner = 0;
  while (prompts_of_rank(config_.grpo.prompts, learner, roles_.train_ranks).end <= prompt) ++learner;
  return learner;
}

std::size_t TrajectoryMail::head_place(int buffer, int answer) const {
  return static_cast<std::size_t>(buffer * answers_ + answer) * kHeadBytes;
}

std::size_t TrajectoryMail::body_place(int buffer, int answer) const {
  return static_cast<std::size_t>(buffers_ * answers_) * kHeadBytes +
         static_cast<std::size_t>(buffer * answers_ + answer) * body_bytes_;
}

void TrajectoryMail::send(const Trajectory& answer) {
  const GrpoConfig& grpo = config_.grpo;
  const int buffer = answer.step % buffers_;
  const int prompt = answer.sequence / grpo.group_size;
  const int learner = learner_of(prompt);
  const int place =
      answer.sequence - prompts_of_rank(grpo.prompts, learner, roles_.train_ranks).first * grpo.group_size;
  const PromptRange mine = prompts_of_rank(grpo.prompts, roles_.rollout_rank(channel_.rank()), roles_.rollout_ranks);
  const std::size_t own_answers = static_cast<std::size_t>(mine.count() * grpo.group_size);
  const std::size_t own = static_cast<std::size_t>(buffer) * own_answers +
                          static_cast<std::size_t>(answer.sequence - mine.first * grpo.group_size);

  const Head head{.step = answer.step,
                  .sequence = answer.sequence,
                  .longest = answer.longest,
                  .first_version = answer.first_version,
                  .tokens = static_cast<std::int64_t>(answer.answer.size()),
                  .reward = answer.reward};
  const std::size_t at = own * (kHeadBytes + body_bytes_);
  std::memcpy(memory_.data() + at, &head, sizeof head);
  std::byte* body = memory_.data() + at + kHeadBytes;
  const auto write = [&](const auto& values) {
    const auto bytes = std::as_bytes(std::span(values));
    std::memcpy(body, bytes.data(), bytes.size());
    body += bytes.size();
  };
  write(answer.prompt);
  write(answer.answer);
  write(answer.rollout_log_probs);

  const std::size_t length = bytes_of(answer.prompt.size(), answer.answer.size());
  channel_.put(learner, {region_, at + kHeadBytes}, {region_, body_place(buffer, place)}, length,
               body_tags_[static_cast<std::size_t>(buffer)], "answers");
  channel_.put(learner, {region_, at}, {region_, head_place(buffer, place)}, sizeof head,
               head_tags_[static_cast<std::size_t>(buffer)], "heads of answers");
  bytes_sent_ += length + sizeof head;
}

bool TrajectoryMail::have_all(int step) {
  const int buffer = step % buffers_;
  if (!have_heads_) {
    if (!channel_.try_take_puts(head_tags_[static_cast<std::size_t>(buffer)], heads_from_)) return false;
    have_heads_ = true;
    bodies_from_.assign(heads_from_.size(), 0);
    const PromptRange mine = prompts_of_rank(config_.grpo.prompts, channel_.rank(), roles_.train_ranks);
    for (int answer = 0; answer < mine.count() * config_.grpo.group_size; ++answer) {
      Head head;
      std::memcpy(&head, memory_.data() + head_place(buffer, answer), sizeof head);
      int generator = 0;
      const int prompt = head.sequence / config_.grpo.group_size;
      while (prompts_of_rank(config_.grpo.prompts, generator, roles_.rollout_ranks).end <= prompt) ++generator;
      bodies_from_[static_cast<std::size_t>(roles_.train_ranks + generator)] += channel_.pieces(
          bytes_of(static_cast<std::size_t>(config_.grpo.prompt_tokens), static_cast<std::size_t>(head.tokens)));
    }
  }
  return channel_.try_take_puts(body_tags_[static_cast<std::size_t>(buffer)], bodies_from_);
}

std::vector<Trajectory> TrajectoryMail::take(int step) {
  const int buffer = step % buffers_;
  have_heads_ = false;
  std::vector<Trajectory> answers;
  const PromptRange mine = prompts_of_rank(config_.grpo.prompts, channel_.rank(), roles_.train_ranks);
  for (int place = 0; place < mine.count() * config_.grpo.group_size; ++place) {
    Head head;
    std::memcpy(&head, memory_.data() + head_place(buffer, place), sizeof head);
    Trajectory& answer = answers.emplace_back();
    answer.step = head.step;
    answer.sequence = head.sequence;
    answer.longest = head.longest;
    answer.first_version = head.first_version;
    answer.reward = head.reward;
    const std::byte* body = memory_.data() + body_place(buffer, place);
    const auto read = [&](auto& values, std::size_t count) {
      values.resize(count);
      std::memcpy(values.data(), body, count * sizeof values[0]);
      body += count * sizeof values[0];
    };
    read(answer.prompt, static_cast<std::size_t>(config_.grpo.prompt_tokens));
    read(answer.answer, static_cast<std::size_t>(head.tokens));
    read(answer.rollout_log_probs, static_cast<std::size_t>(head.tokens));
  }
  return answers;
}

}  // namespace mrb
