#include "cli/tune_session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/error.hpp"
#include "cli/tune_supervisor.hpp"

namespace mrb {

namespace {

std::string journal_in(const std::string& folder) {
  return folder + "/journal.jsonl";
}

void require_same(const JournalHead& now, const JournalHead& then) {
  if (now.fingerprint != then.fingerprint) {
    throw Error(ErrorKind::not_comparable,
                fmt::format("the session was begun on '{}', and this is '{}'", then.fingerprint, now.fingerprint),
                "resume with the same build on the same kind of machine, or tune anew");
  }
  const bool same = std::ranges::equal(now.candidates, then.candidates, {}, &TuneCandidate::hash, &TuneCandidate::hash);
  if (!same) {
    throw Error(ErrorKind::config,
                fmt::format("the session was begun with {} candidates, and the settings now give {} others",
                            then.candidates.size(), now.candidates.size()),
                "unset MRB_* variables that were not set then; on another machine, tune anew");
  }
}

}  // namespace

TuneSession::TuneSession(RunInfo info, TuneSpace space, const JournalHead& head, const std::string& resumed)
    : info_(std::move(info)), space_(std::move(space)), gate_(space_.experiments) {
  if (resumed.empty()) {
    info_.id = ResultsFolder::new_id() + "-tune";
    const ResultsFolder folder(space_.experiments.front().config.output.dir, info_.id);
    folder_ = folder.path();
    folder.write("config.yaml", settings_yaml(info_.settings, Origins::hidden));
    journal_.head = head;
    writer_ = std::make_unique<JournalWriter>(journal_in(folder_), head);
  } else {
    folder_ = resumed;
    info_.id = std::filesystem::path(resumed).filename().string();
    journal_ = read_journal(journal_in(resumed));
    require_same(head, journal_.head);
    writer_ = std::make_unique<JournalWriter>(journal_in(resumed), journal_);
  }
  tuner_ = std::make_unique<Tuner>(replay(journal_));
  for (std::size_t i = 0; i < journal_.records.size(); ++i) gate_.see(journal_.records[i].launch, journal_.works[i]);
}

std::optional<TuneLaunch> TuneSession::next() {
  for (;;) {
    const std::optional<TuneLaunch> launch = tuner_->next();
    if (!launch || gate_.difference(launch->candidate).empty()) return launch;
    add({.launch = *launch}, {});
  }
}

double TuneSession::launch_limit_s() const {
  constexpr double kTimesUsual = 5, kAtLeast_s = 10;
  double usual_s = 0;
  for (const TuneRecord& record : journal_.records) {
    if (record.launch.candidate == 0 && record.outcome == LaunchOutcome::measured)
      usual_s = std::max(usual_s, record.elapsed_s);
  }
  const double limit_s = journal_.head.launch_limit_s;
  return usual_s > 0 ? std::min(limit_s, std::max(kAtLeast_s, kTimesUsual * usual_s)) : limit_s;
}

std::optional<TuneRecord> TuneSession::lost(const TuneLaunch& launch) {
  constexpr int kAttemptsMax = 3;
  const int number = launches() + 1;
  if (const auto lost = read_lost(folder_); lost && lost->number == number) {
    return TuneRecord{.launch = launch, .outcome = lost->outcome, .elapsed_s = lost->elapsed_s, .reason = lost->reason};
  }
  const auto before = read_in_flight(folder_);
  const int attempt = before && before->number == number ? before->attempt + 1 : 1;
  if (attempt > kAttemptsMax) {
    return TuneRecord{.launch = launch,
                      .outcome = LaunchOutcome::failed,
                      .reason = fmt::format("all ranks ended in the middle of it, {} times", kAttemptsMax)};
  }
  write_in_flight(folder_, {.number = number, .attempt = attempt, .limit_s = launch_limit_s()});
  return std::nullopt;
}

void TuneSession::add(TuneRecord record, const std::vector<StepWork>& work) {
  gate_.see(record.launch, work);
  const std::string& difference = gate_.difference(record.launch.candidate);
  if (record.outcome == LaunchOutcome::measured && !difference.empty()) {
    record.outcome = LaunchOutcome::wrong_result;
    record.reason = difference;
    record.step_s = 0;
  }
  tuner_->record(record);
  writer_->append(record, work, journal_.head);
  journal_.records.push_back(record);
  journal_.works.push_back(work);
  const TuneCandidate& candidate = journal_.head.candidates[static_cast<std::size_t>(record.launch.candidate)];
  const std::string what = record.outcome == LaunchOutcome::measured
                               ? fmt::format("{:.2f} ms", record.step_s * 1e3)
                               : fmt::format("{}: {}", launch_outcome_text(record.outcome), record.reason);
  std::fputs(
      fmt::format("launch {:>3}  {:<7} block {:>2}  {}  {}  ({:.1f} s)\n", launches(),
                  tune_stage_text(record.launch.stage), record.launch.block + 1, candidate.name, what, record.elapsed_s)
          .c_str(),
      stderr);
  constexpr int kEstimateAfter = 3;
  if (launches() == kEstimateAfter) print_cost();
}

void TuneSession::print_cost() const {
  const int likely = tuner_->expected_launches(), most = tuner_->most_launches();
  std::string text = fmt::format("cost: likely {} launches more, at most {}", likely, most);
  const double ranks = static_cast<double>(info_.ranks.size());
  if (launches() > 0) {
    double spent_s = 0;
    for (const TuneRecord& record : journal_.records) spent_s += record.elapsed_s;
    const double each_s = spent_s / launches();
    text += fmt::format("; at {:.1f} s a launch that is {:.1f} min, {:.2f} rank-hours; at most {:.1f} min", each_s,
                        likely * each_s / 60, likely * each_s / 3600 * ranks, most * each_s / 60);
  } else {
    text += fmt::format("; a launch takes at most {:g} s, so at most {:.1f} h on {} ranks if all of them hung",
                        journal_.head.launch_limit_s, most * journal_.head.launch_limit_s / 3600, info_.ranks.size());
  }
  const TuneBudget& budget = journal_.head.policy.budget;
  if (budget.elapsed_s > 0)
    text += fmt::format("; the budget ends it after {:.1f} min, {:.2f} rank-hours", budget.elapsed_s / 60,
                        budget.elapsed_s / 3600 * ranks);
  std::fputs((text + "\n").c_str(), stderr);
}

int TuneSession::finish(int interrupted_exit_code) {
  info_.ended = utc_now();
  const TuneOutcome outcome = tune_outcome(journal_);
  write("tune.json", tune_json(info_, space_, outcome));
  std::fputs(tune_table(outcome).c_str(), stdout);
  if (!outcome.is_over) {
    std::fputs(fmt::format("to go on: moe-rl-bench tune --resume {}\n", folder_).c_str(), stderr);
    return interrupted_exit_code;
  }
  if (outcome.answer.end != TuneEnd::nothing_ran) {
    write("tuned.yaml", tuned_yaml(info_, space_, outcome));
    write("tuned.env", tuned_environment(info_, space_, outcome));
    write("mpijob_patch.yaml", tuned_patch(info_, space_, outcome));
  }
  std::fputs(
      fmt::format("results: {}/tune.json, tuned.yaml, tuned.env, mpijob_patch.yaml, journal.jsonl\n", folder_).c_str(),
      stderr);
  return exit_code_of(outcome.answer.end);
}

void TuneSession::write(const std::string& name, const std::string& text) const {
  replace_file(folder_ + "/" + name, text);
}

int exit_code_of(TuneEnd end) {
  constexpr int kInconclusive = 3;
  switch (end) {
    case TuneEnd::confirmed:
    case TuneEnd::no_difference_shown:
      return 0;
    case TuneEnd::too_noisy:
    case TuneEnd::budget:
      return kInconclusive;
    case TuneEnd::no_baseline:
    case TuneEnd::nothing_ran:
      return static_cast<int>(ErrorKind::partial);
  }
  return static_cast<int>(ErrorKind::internal);
}

}  // namespace mrb
