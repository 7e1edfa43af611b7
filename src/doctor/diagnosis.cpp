#include "doctor/diagnosis.hpp"

#include <algorithm>
#include <chrono>
#include <set>

namespace mrb {

namespace {

class Examination {
 public:
  explicit Examination(bool is_cluster) : is_cluster_(is_cluster) {}

  template <class AnyCheck>
  void add(const AnyCheck& check, Scope scope, const Outcome& outcome, const Facts* where) {
    if (outcome.kind == Outcome::Kind::fine) return;
    if (outcome.kind == Outcome::Kind::not_looked) {
      const bool is_new =
          std::none_of(not_looked.begin(), not_looked.end(), [&](const auto& n) { return n.id == check.id; });
      if (is_new) not_looked.push_back({check.id, outcome.text});
      return;
    }
    auto same = std::find_if(findings.begin(), findings.end(),
                             [&](const Finding& f) { return f.id == check.id && f.problem == outcome.text; });
    if (same == findings.end()) {
      const Severity severity = is_cluster_ ? outcome.severity.value_or(check.severity) : Severity::note;
      findings.push_back(
          {check.id, scope, severity, outcome.text, check.reads, check.why, outcome.fix.value_or(check.fix), {}, {}});
      same = findings.end() - 1;
    }
    if (where == nullptr) return;
    same->ranks.push_back(where->rank);
    if (same->hosts.empty() || same->hosts.back() != where->host) same->hosts.push_back(where->host);
  }

  std::vector<Finding> findings;
  std::vector<NotLooked> not_looked;

 private:
  bool is_cluster_;
};

}  // namespace

std::string severity_text(Severity severity) {
  switch (severity) {
    case Severity::note:
      return "note";
    case Severity::warn:
      return "warn";
    case Severity::refuse:
      return "refuse";
  }
  return "";
}

std::string scope_text(Scope scope) {
  switch (scope) {
    case Scope::rank:
      return "rank";
    case Scope::node:
      return "node";
    case Scope::job:
      return "job";
  }
  return "";
}

bool Diagnosis::has(Severity severity) const {
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& f) { return f.severity == severity; });
}

Diagnosis diagnose(const std::vector<Facts>& by_rank) {
  std::set<std::string> hosts;
  for (const Facts& facts : by_rank) hosts.insert(facts.host);
  const bool is_cluster = hosts.size() > 1 || std::any_of(by_rank.begin(), by_rank.end(),
                                                          [](const Facts& f) { return f.is_cluster_node(); });
  Examination examination(is_cluster);
  Diagnosis diagnosis{.ranks = static_cast<int>(by_rank.size()),
                      .nodes = static_cast<int>(hosts.size()),
                      .host = by_rank.front().host,
                      .instance_type = by_rank.front().instance_type};
  for (const auto checks : {library_checks(), efa_checks(), gpu_checks(), host_checks()}) {
    for (const Check& check : checks) {
      std::set<std::string> looked_at;
      for (const Facts& facts : by_rank) {
        if (check.scope == Scope::node && !looked_at.insert(facts.host).second) continue;
        examination.add(check, check.scope, check.look(facts), &facts);
      }
      ++diagnosis.checks;
    }
  }
  for (const JobCheck& check : job_checks()) {
    examination.add(check, Scope::job, check.look(by_rank), nullptr);
    ++diagnosis.checks;
  }
  diagnosis.findings = std::move(examination.findings);
  diagnosis.not_looked = std::move(examination.not_looked);
  std::stable_sort(diagnosis.findings.begin(), diagnosis.findings.end(),
                   [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
  return diagnosis;
}

std::vector<Facts> gather_facts(Bootstrap& bootstrap, Facts mine) {
  mine.rank = bootstrap.rank();
  bootstrap.barrier();
  mine.wall_clock_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  const std::string text = facts_text(mine);
  std::vector<Facts> all;
  for (const auto& bytes : bootstrap.all_gather(std::as_bytes(std::span(text)))) {
    all.push_back(facts_from_text({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  }
  return all;
}

}  // namespace mrb
