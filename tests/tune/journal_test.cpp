#include "tune/journal.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.hpp"
#include "base/random.hpp"
#include "support/catch.hpp"
#include "support/temporary_file.hpp"

using namespace mrb;
using mrb::test::contains;
using mrb::test::TemporaryFolder;

namespace {

JournalHead head_of_eight() {
  JournalHead head{.fingerprint = "this build on this machine", .metric = "step_mean", .launch_limit_s = 60};
  head.policy = {.budget = {.launches = 40}, .seed = 5};
  for (int index = 0; index < 8; ++index) {
    head.candidates.push_back({.name = "candidate " + std::to_string(index),
                               .family = "one",
                               .levels = {index / 2, index % 2},
                               .predicted_s = index % 2 == 0 ? std::optional(0.1) : std::nullopt,
                               .changes = index,
                               .memory_bytes = 1e9 / 3,
                               .hash = "hash" + std::to_string(index)});
  }
  return head;
}

// The same launch always takes as long; one candidate fails.
TuneRecord measure(const TuneLaunch& launch) {
  TuneRecord record{.launch = launch, .elapsed_s = 1.0 / 3};
  Random random({launch.seed, static_cast<std::uint64_t>(launch.candidate)});
  record.step_s = (0.1 - 0.005 * (launch.candidate % 5)) * (1 + 0.02 * random.uniform());
  if (launch.candidate == 3) record = {.launch = launch, .outcome = LaunchOutcome::failed, .reason = "it \"fails\"\n"};
  return record;
}

// Until the answer stands, or `kill_after` launches are on disk.
Tuner go_on(const std::string& path, int kill_after = 1000) {
  const bool is_new = !std::filesystem::exists(path);
  const Journal journal = is_new ? Journal{.head = head_of_eight()} : read_journal(path);
  const auto writer =
      is_new ? std::make_unique<JournalWriter>(path, journal.head) : std::make_unique<JournalWriter>(path, journal);
  Tuner tuner = replay(journal);
  for (int launches = 0; launches < kill_after && tuner.next(); ++launches) {
    const TuneRecord record = measure(*tuner.next());
    writer->append(record, {{record.step_s, -1}}, journal.head);
    tuner.record(record);
  }
  return tuner;
}

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("a session killed at any byte of its journal and resumed leaves the same journal and answer", "[tune]") {
  const TemporaryFolder folder;
  const std::string whole = folder.path() + "/whole.jsonl", torn = folder.path() + "/torn.jsonl";
  const TuneAnswer answer = go_on(whole).answer();
  const std::string text = text_of(whole);
  const std::size_t head_bytes = text.find('\n') + 1;
  for (std::size_t bytes = head_bytes; bytes < text.size(); bytes += 101) {
    std::ofstream(torn, std::ios::binary) << text.substr(0, bytes);
    const TuneAnswer again = go_on(torn).answer();
    REQUIRE(text_of(torn) == text);
    REQUIRE(again.winner == answer.winner);
    REQUIRE(again.gain_ratio == answer.gain_ratio);
  }
  CHECK(replay(read_journal(whole)).answer().gain_low == answer.gain_low);
}

TEST_CASE("a journal gives back what was put into it, to the last bit", "[tune]") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/journal.jsonl";
  go_on(path, 12);
  const Journal journal = read_journal(path);
  CHECK(journal.head.candidates[1].memory_bytes == 1e9 / 3);
  CHECK(journal.head.candidates[0].predicted_s == 0.1);
  CHECK_FALSE(journal.head.candidates[1].predicted_s);
  CHECK(journal.head.policy.seed == 5);
  REQUIRE(journal.records.size() == 12);
  for (std::size_t i = 0; i < journal.records.size(); ++i) {
    const TuneRecord expected = measure(journal.records[i].launch);
    CHECK(journal.records[i].step_s == expected.step_s);
    CHECK(journal.records[i].elapsed_s == expected.elapsed_s);
    CHECK(journal.records[i].reason == expected.reason);
    CHECK(journal.works[i].at(0).loss == expected.step_s);
  }
}

TEST_CASE("two processes do not write one journal", "[tune]") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/journal.jsonl";
  const JournalWriter first(path, head_of_eight());
  CHECK_THROWS_WITH(JournalWriter(path, read_journal(path)), contains("another process writes to"));
  CHECK_THROWS_WITH(JournalWriter(path, head_of_eight()), contains("cannot be made"));
}

TEST_CASE("a line that is none of a journal's is told by its number", "[tune]") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/journal.jsonl";
  go_on(path, 2);
  const std::string text = text_of(path);
  const auto refused = [&](const std::string& changed, const std::string& words) {
    CHECK_THROWS_WITH(parse_journal(changed, "j"), contains(words) && contains("fix: "));
  };
  refused(text + "{}\n", "line 4 of j");
  refused(text + "\n", "line 4 of j");
  refused("", "no whole first line");
  refused(text.substr(0, 100), "no whole first line");
  std::string other = text;
  other.replace(other.rfind("this build"), 10, "that build");
  refused(other, "line 3 of j is no line of a tuning journal: it was measured on another machine");
  std::string unknown = text;
  unknown.replace(unknown.rfind("\"hash\":\"hash"), 12, "\"hash\":\"lost");
  refused(unknown, "there is no candidate lost");
}
