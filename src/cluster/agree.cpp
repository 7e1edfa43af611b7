#include "cluster/agree.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <vector>

namespace mrb {

namespace {

// What one rank tells the others: nothing when it succeeded, else kind, host and text.
struct Failure {
  ErrorKind kind = ErrorKind::internal;
  std::string host;
  std::string text;
};

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

std::optional<Failure> attempt(const std::function<void()>& work) {
  try {
    work();
    return std::nullopt;
  } catch (const Error& error) {
    return Failure{error.kind(), host_name(), error.what()};
  } catch (const std::bad_alloc&) {
    const Error error(ErrorKind::environment, "this rank has no memory left",
                      "use fewer ranks per node or a smaller model");
    return Failure{error.kind(), host_name(), error.what()};
  } catch (const std::exception& error) {
    return Failure{ErrorKind::internal, host_name(), error.what()};
  }
}

std::vector<std::byte> to_bytes(const std::optional<Failure>& failure) {
  if (!failure) return {};
  const std::string text = fmt::format("{}\n{}\n{}", static_cast<int>(failure->kind), failure->host, failure->text);
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Failure from_bytes(std::span<const std::byte> bytes) {
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::size_t host = text.find('\n') + 1;
  const std::size_t words = text.find('\n', host) + 1;
  return {static_cast<ErrorKind>(std::stoi(text)), text.substr(host, words - 1 - host), text.substr(words)};
}

}  // namespace

void run_on_all(Bootstrap& bootstrap, const std::function<void()>& work) {
  const auto gathered = bootstrap.all_gather(to_bytes(attempt(work)));
  std::vector<int> failed;
  std::vector<Failure> failures;
  for (std::size_t rank = 0; rank < gathered.size(); ++rank) {
    if (gathered[rank].empty()) continue;
    failed.push_back(static_cast<int>(rank));
    failures.push_back(from_bytes(gathered[rank]));
  }
  if (failures.empty()) return;
  const Failure& first = failures.front();
  const bool alike =
      failures.size() == gathered.size() &&
      std::all_of(failures.begin(), failures.end(), [&](const Failure& f) { return f.text == first.text; });
  if (alike) throw Error::as_received(first.kind, first.text);
  const std::string who = failed.size() == 1
                              ? fmt::format("rank {} of {} ({})", failed[0], gathered.size(), first.host)
                              : fmt::format("ranks {} of {}, first rank {} ({})", fmt::join(failed, ", "),
                                            gathered.size(), failed[0], first.host);
  throw Error::as_received(first.kind, fmt::format("{}: {}", who, first.text));
}

}  // namespace mrb
