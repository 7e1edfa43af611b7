#include "tune/journal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "base/error.hpp"

namespace mrb {

namespace {

using Json = nlohmann::json;

constexpr int kVersion = 1;

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json json_of(const TuneCandidate& candidate) {
  Json json = {{"name", candidate.name},      {"hash", candidate.hash},       {"family", candidate.family},
               {"levels", candidate.levels},  {"changes", candidate.changes}, {"memory_bytes", candidate.memory_bytes},
               {"predicted_s", Json(nullptr)}};
  if (candidate.predicted_s) json["predicted_s"] = *candidate.predicted_s;
  return json;
}

TuneCandidate candidate_of(const Json& json) {
  TuneCandidate candidate;
  candidate.name = json.at("name");
  candidate.hash = json.at("hash");
  candidate.family = json.at("family");
  candidate.levels = json.at("levels").get<std::vector<int>>();
  candidate.changes = json.at("changes");
  candidate.memory_bytes = json.at("memory_bytes");
  if (!json.at("predicted_s").is_null()) candidate.predicted_s = json.at("predicted_s").get<double>();
  return candidate;
}

Json json_of(const TunePolicy& policy) {
  return {{"budget_launches", policy.budget.launches},
          {"budget_elapsed_s", policy.budget.elapsed_s},
          {"tie_ratio", policy.tie_ratio},
          {"seed", policy.seed},
          {"local_moves", policy.local_moves}};
}

TunePolicy policy_of(const Json& json) {
  TunePolicy policy;
  policy.budget.launches = json.at("budget_launches");
  policy.budget.elapsed_s = json.at("budget_elapsed_s");
  policy.tie_ratio = json.at("tie_ratio");
  policy.seed = json.at("seed");
  policy.local_moves = json.at("local_moves");
  return policy;
}

Json first_line(const Journal& journal) {
  Json candidates = Json::array();
  for (const TuneCandidate& candidate : journal.candidates) candidates.push_back(json_of(candidate));
  return {{"journal", kVersion},
          {"fingerprint", journal.fingerprint},
          {"policy", json_of(journal.policy)},
          {"candidates", candidates}};
}

void read_first_line(const Json& json, Journal& journal) {
  if (json.at("journal") != kVersion) {
    throw std::runtime_error(fmt::format("version {}, where {} is known", json.at("journal").dump(), kVersion));
  }
  journal.fingerprint = json.at("fingerprint");
  journal.policy = policy_of(json.at("policy"));
  for (const Json& candidate : json.at("candidates")) journal.candidates.push_back(candidate_of(candidate));
}

template <typename Enum>
Enum named(const std::string& text, int count, std::string_view (*text_of)(Enum)) {
  for (int value = 0; value < count; ++value) {
    if (text_of(static_cast<Enum>(value)) == text) return static_cast<Enum>(value);
  }
  throw std::runtime_error(fmt::format("'{}' is not known", text));
}

Json json_of(const TuneRecord& record, const TuneCandidate& candidate, const std::string& fingerprint) {
  return {{"candidate", record.launch.candidate},
          {"name", candidate.name},
          {"hash", candidate.hash},
          {"stage", tune_stage_text(record.launch.stage)},
          {"block", record.launch.block},
          {"seed", record.launch.seed},
          {"fingerprint", fingerprint},
          {"outcome", launch_outcome_text(record.outcome)},
          {"step_s", record.step_s},
          {"elapsed_s", record.elapsed_s},
          {"reason", record.reason}};
}

TuneRecord record_of(const Json& json, const Journal& journal) {
  TuneRecord record;
  const auto candidate = json.at("candidate").get<std::size_t>();
  if (candidate >= journal.candidates.size() || journal.candidates[candidate].hash != json.at("hash")) {
    throw std::runtime_error(
        fmt::format("candidate {} with the hash {} is not in the first line", candidate, json.at("hash").dump()));
  }
  if (json.at("fingerprint") != journal.fingerprint) {
    throw std::runtime_error(fmt::format("measured under the fingerprint {}, the first line has '{}'",
                                         json.at("fingerprint").dump(), journal.fingerprint));
  }
  record.launch.candidate = static_cast<int>(candidate);
  record.launch.stage = named<TuneStage>(json.at("stage"), 3, tune_stage_text);
  record.launch.block = json.at("block");
  record.launch.seed = json.at("seed");
  record.outcome = named<LaunchOutcome>(json.at("outcome"), 4, launch_outcome_text);
  record.step_s = json.at("step_s");
  record.elapsed_s = json.at("elapsed_s");
  record.reason = json.at("reason");
  return record;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file && std::filesystem::is_regular_file(path)) text << file.rdbuf();
  if (!file || text.str().empty()) {
    throw Error(ErrorKind::config, fmt::format("'{}' cannot be read as a journal: no such file, or empty", path),
                "name the journal.jsonl of a tuning's results folder");
  }
  return text.str();
}

std::size_t whole_bytes(const std::string& text) {
  const std::size_t end = text.rfind('\n');
  return end == std::string::npos ? 0 : end + 1;
}

[[noreturn]] void refuse(const std::string& path, const std::string& what, const std::string& fix) {
  throw Error(ErrorKind::environment, fmt::format("the journal '{}' {}", path, what), fix);
}

}  // namespace

Journal read_journal(const std::string& path) {
  const std::string text = text_of(path);
  std::istringstream lines(text.substr(0, whole_bytes(text)));
  Journal journal;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    try {
      const Json json = Json::parse(line);
      if (number == 1) {
        read_first_line(json, journal);
      } else {
        journal.records.push_back(record_of(json, journal));
      }
    } catch (const std::exception& error) {
      throw Error(ErrorKind::config, fmt::format("line {} of '{}' is not a journal's: {}", number, path, error.what()),
                  "take a journal that nobody has edited, of the same version of this program");
    }
  }
  if (number == 0) {
    throw Error(ErrorKind::config, fmt::format("'{}' ends within its first line: nothing was measured", path),
                "begin the tuning again, in a new folder");
  }
  return journal;
}

Tuner replay(const Journal& journal) {
  Tuner tuner(journal.candidates, journal.policy);
  for (const TuneRecord& record : journal.records) tuner.record(record);
  return tuner;
}

void refuse_unless_same(const Journal& found, const Journal& asked) {
  std::vector<std::string> differences;
  if (found.fingerprint != asked.fingerprint) {
    differences.push_back(fmt::format("fingerprint: '{}' then, '{}' now", found.fingerprint, asked.fingerprint));
  }
  const Json then = json_of(found.policy), now = json_of(asked.policy);
  for (const auto& [key, value] : then.items()) {
    if (value != now.at(key)) {
      differences.push_back(fmt::format("{}: {} then, {} now", key, value.dump(), now.at(key).dump()));
    }
  }
  if (found.candidates.size() != asked.candidates.size()) {
    differences.push_back(fmt::format("candidates: {} then, {} now", found.candidates.size(), asked.candidates.size()));
  } else {
    for (std::size_t c = 0; c < found.candidates.size(); ++c) {
      if (json_of(found.candidates[c]) == json_of(asked.candidates[c])) continue;
      differences.push_back(
          fmt::format("candidate {}: '{}' then, '{}' now", c, found.candidates[c].name, asked.candidates[c].name));
      break;
    }
  }
  if (differences.empty()) return;
  throw Error(ErrorKind::not_comparable,
              fmt::format("this tuning is not the journal's:\n  {}", fmt::join(differences, "\n  ")),
              "resume with the configuration, budget, build and machine of the journal, or begin a new tuning");
}

JournalWriter::JournalWriter(const std::string& path, const Journal& journal, int flags)
    : path_(path), fingerprint_(journal.fingerprint), candidates_(journal.candidates) {
  file_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | flags, 0644);
  if (file_ < 0) {
    refuse(path, fmt::format("cannot be opened: {}", std::strerror(errno)), "name another folder for the results");
  }
  if (::flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(file_);
    refuse(path, "is being written by another process", "wait for that tuning, or end it, and resume then");
  }
}

JournalWriter JournalWriter::create(const std::string& path, const Journal& journal) {
  JournalWriter writer(path, journal, O_CREAT | O_EXCL);
  writer.write_line(line_of(first_line(journal)));
  // The file's name is on disk when its folder is.
  const int folder = ::open(std::filesystem::absolute(path).parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    ::fsync(folder);
    ::close(folder);
  }
  return writer;
}

JournalWriter JournalWriter::resume(const std::string& path, const Journal& journal) {
  JournalWriter writer(path, journal, 0);
  const std::size_t whole = whole_bytes(text_of(path));
  if (::ftruncate(writer.file_, static_cast<off_t>(whole)) != 0) {
    refuse(path, fmt::format("cannot be cut to its {} whole bytes: {}", whole, std::strerror(errno)),
           "see that the file can be written");
  }
  return writer;
}

JournalWriter::~JournalWriter() {
  if (file_ >= 0) ::close(file_);
}

JournalWriter::JournalWriter(JournalWriter&& other) noexcept
    : path_(std::move(other.path_)),
      fingerprint_(std::move(other.fingerprint_)),
      candidates_(std::move(other.candidates_)),
      file_(std::exchange(other.file_, -1)) {}

void JournalWriter::append(const TuneRecord& record) {
  write_line(line_of(json_of(record, candidates_[static_cast<std::size_t>(record.launch.candidate)], fingerprint_)));
}

void JournalWriter::write_line(const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(file_, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) refuse(path_, fmt::format("cannot be written: {}", std::strerror(errno)), "make room on the disk");
    done += static_cast<std::size_t>(written);
  }
  if (::fsync(file_) != 0 && errno != EINVAL) {  // some file systems have nothing to sync
    refuse(path_, fmt::format("cannot be brought to disk: {}", std::strerror(errno)), "look at the disk");
  }
}

}  // namespace mrb
