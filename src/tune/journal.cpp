#include "tune/journal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.hpp"

namespace mrb {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kJournalVersion = 1;

constexpr std::array kStages = {TuneStage::race, TuneStage::local, TuneStage::confirm};
constexpr std::array kOutcomes = {LaunchOutcome::measured, LaunchOutcome::wrong_result, LaunchOutcome::failed,
                                  LaunchOutcome::hung};

template <typename Values, typename Text>
auto named(const Json& json, const Values& values, Text text) {
  const std::string name = json.get<std::string>();
  const auto at = std::ranges::find_if(values, [&](auto value) { return text(value) == name; });
  if (at == values.end()) throw std::invalid_argument("there is no '" + name + "'");
  return *at;
}

Json candidate_json(const TuneCandidate& candidate) {
  return {{"hash", candidate.hash},
          {"name", candidate.name},
          {"family", candidate.family},
          {"levels", candidate.levels},
          {"predicted_s", candidate.predicted_s ? Json(*candidate.predicted_s) : Json(nullptr)},
          {"changes", candidate.changes},
          {"memory_bytes", candidate.memory_bytes}};
}

TuneCandidate candidate_of(const Json& json) {
  TuneCandidate candidate{.name = json.at("name"),
                          .family = json.at("family"),
                          .levels = json.at("levels"),
                          .changes = json.at("changes"),
                          .memory_bytes = json.at("memory_bytes"),
                          .hash = json.at("hash")};
  if (!json.at("predicted_s").is_null()) candidate.predicted_s = json.at("predicted_s").get<double>();
  return candidate;
}

std::string head_line(const JournalHead& head) {
  Json candidates = Json::array();
  for (const TuneCandidate& candidate : head.candidates) candidates.push_back(candidate_json(candidate));
  const TunePolicy& policy = head.policy;
  const Json json = {{"journal", kJournalVersion},
                     {"fingerprint", head.fingerprint},
                     {"metric", head.metric},
                     {"launch_limit_s", head.launch_limit_s},
                     {"is_isolated", head.is_isolated},
                     {"budget_launches", policy.budget.launches},
                     {"budget_elapsed_s", policy.budget.elapsed_s},
                     {"tie_ratio", policy.tie_ratio},
                     {"seed", policy.seed},
                     {"local_moves", policy.local_moves},
                     {"candidates", candidates}};
  return json.dump() + "\n";
}

JournalHead head_of(const Json& json) {
  if (const int version = json.at("journal"); version != kJournalVersion) {
    throw std::invalid_argument(
        fmt::format("it is of version {}, and this program reads {}", version, kJournalVersion));
  }
  JournalHead head{
      .fingerprint = json.at("fingerprint"), .metric = json.at("metric"), .launch_limit_s = json.at("launch_limit_s")};
  head.policy = {.budget = {.launches = json.at("budget_launches"), .elapsed_s = json.at("budget_elapsed_s")},
                 .tie_ratio = json.at("tie_ratio"),
                 .seed = json.at("seed"),
                 .local_moves = json.at("local_moves")};
  for (const Json& candidate : json.at("candidates")) head.candidates.push_back(candidate_of(candidate));
  return head;
}

std::string record_line(const TuneRecord& record, const std::vector<StepWork>& work, const JournalHead& head) {
  Json steps = Json::array();
  for (const StepWork& step : work) steps.push_back({step.loss, step.log_prob_mean});
  const TuneCandidate& candidate = head.candidates.at(static_cast<std::size_t>(record.launch.candidate));
  const Json json = {{"hash", candidate.hash},
                     {"candidate", candidate.name},
                     {"stage", tune_stage_text(record.launch.stage)},
                     {"block", record.launch.block},
                     {"seed", record.launch.seed},
                     {"fingerprint", head.fingerprint},
                     {"outcome", launch_outcome_text(record.outcome)},
                     {"step_s", record.step_s},
                     {"elapsed_s", record.elapsed_s},
                     {"reason", record.reason},
                     {"loss_and_log_prob_by_step", steps}};
  // What a program that crashed has said may be no UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

TuneRecord record_of(const Json& json, const JournalHead& head) {
  if (json.at("fingerprint") != head.fingerprint) throw std::invalid_argument("it was measured on another machine");
  const std::string hash = json.at("hash");
  const auto at = std::ranges::find(head.candidates, hash, &TuneCandidate::hash);
  if (at == head.candidates.end()) throw std::invalid_argument("there is no candidate " + hash);
  TuneRecord record;
  record.launch = {.candidate = static_cast<int>(at - head.candidates.begin()),
                   .stage = named(json.at("stage"), kStages, tune_stage_text),
                   .block = json.at("block"),
                   .seed = json.at("seed")};
  record.outcome = named(json.at("outcome"), kOutcomes, launch_outcome_text);
  record.step_s = json.at("step_s");
  record.elapsed_s = json.at("elapsed_s");
  record.reason = json.at("reason");
  return record;
}

// JSON has no NaN: a step that had one is null, and again differs from everything.
std::vector<StepWork> work_of(const Json& json) {
  const auto number = [](const Json& value) { return value.is_null() ? std::nan("") : value.get<double>(); };
  std::vector<StepWork> work;
  for (const Json& step : json.at("loss_and_log_prob_by_step"))
    work.push_back({number(step.at(0)), number(step.at(1))});
  return work;
}

Error cannot(const std::string& what, const std::string& path) {
  return Error(ErrorKind::environment, fmt::format("{} cannot be {}: {}", path, what, std::strerror(errno)),
               "look at the path, its rights and the space on its disk");
}

// The name of a new file is on disk only when its folder is.
void sync_folder(const std::string& path) {
  const std::string folder = std::filesystem::absolute(path).parent_path().string();
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) throw cannot("written", folder);
  ::fsync(file);  // some file systems cannot, and then need not
  ::close(file);
}

}  // namespace

Journal parse_journal(const std::string& text, const std::string& path) {
  Journal journal;
  int number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;
    ++number;
    try {
      const Json json = Json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                    text.begin() + static_cast<std::ptrdiff_t>(end));
      if (number == 1) {
        journal.head = head_of(json);
      } else {
        journal.records.push_back(record_of(json, journal.head));
        journal.works.push_back(work_of(json));
      }
    } catch (const std::exception& error) {
      throw Error(ErrorKind::config,
                  fmt::format("line {} of {} is no line of a tuning journal: {}", number, path, error.what()),
                  "give the journal.jsonl that tune wrote, unchanged");
    }
    begin = journal.whole_bytes = end + 1;
  }
  if (number == 0) {
    throw Error(ErrorKind::config, fmt::format("{} has no whole first line", path),
                "nothing was measured yet: begin anew, without --resume");
  }
  return journal;
}

Journal read_journal(const std::string& path) {
  std::error_code ignored;
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path, ignored)) throw cannot("read", path);
  std::ostringstream text;
  text << file.rdbuf();
  return parse_journal(text.str(), path);
}

JournalWriter::JournalWriter(const std::string& path, const JournalHead& head) : path_(path) {
  file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
  if (file_ < 0) throw cannot("made", path);
  lock();
  write_line(head_line(head));
  sync_folder(path);
}

JournalWriter::JournalWriter(const std::string& path, const Journal& journal) : path_(path) {
  file_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file_ < 0) throw cannot("continued", path);
  lock();
  if (::ftruncate(file_, static_cast<off_t>(journal.whole_bytes)) != 0) throw cannot("continued", path);
}

JournalWriter::~JournalWriter() {
  ::close(file_);
}

void JournalWriter::lock() {
  if (::flock(file_, LOCK_EX | LOCK_NB) == 0) return;
  const Error error = errno == EWOULDBLOCK
                          ? Error(ErrorKind::environment, fmt::format("another process writes to {}", path_),
                                  "wait for its end, or end it; a session is resumed once")
                          : cannot("locked", path_);
  ::close(file_);
  throw error;
}

void JournalWriter::append(const TuneRecord& record, const std::vector<StepWork>& work, const JournalHead& head) {
  write_line(record_line(record, work, head));
}

void JournalWriter::write_line(const std::string& line) {
  for (std::size_t done = 0; done < line.size();) {
    const ssize_t bytes = ::write(file_, line.data() + done, line.size() - done);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) throw cannot("written", path_);
    done += static_cast<std::size_t>(bytes);
  }
  if (::fsync(file_) != 0) throw cannot("written", path_);
}

Tuner replay(const Journal& journal) {
  Tuner tuner(journal.head.candidates, journal.head.policy);
  for (const TuneRecord& record : journal.records) tuner.record(record);
  return tuner;
}

}  // namespace mrb
