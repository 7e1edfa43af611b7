#include "transport/libfabric/domains.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "base/error.hpp"
#include "cluster/agree.hpp"
#include "transport/libfabric/host.hpp"
#include "transport/libfabric/shm_files.hpp"

namespace mrb {

namespace {

void require_known(const std::string& provider) {
  const auto& known = known_libfabric_providers();
  if (std::find(known.begin(), known.end(), provider) != known.end()) return;
  throw Error(ErrorKind::config,
              provider.empty() ? std::string("transport 'libfabric' needs a provider")
                               : fmt::format("there is no libfabric provider called '{}'", provider),
              fmt::format("set transport.provider to one of: {}", fmt::join(known, ", ")));
}

[[noreturn]] void refuse_provider(const std::string& provider) {
  const auto usable = usable_libfabric_providers();
  // libfabric itself hides all others when this variable is set.
  const char* filter = std::getenv("FI_PROVIDER");
  const std::string why = filter ? fmt::format(", with FI_PROVIDER={}", filter) : "";
  throw Error(ErrorKind::environment,
              fmt::format("libfabric {} offers no provider '{}' on this machine{}; it offers: {}", libfabric_version(),
                          provider, why, usable.empty() ? "none" : fmt::format("{}", fmt::join(usable, ", "))),
              filter ? "unset FI_PROVIDER, or use transport.provider: one of those"
                     : "use transport.provider: one of those, or a machine that has it");
}

// Collective. True when all ranks are on one host.
bool share_a_host(Bootstrap& bootstrap) {
  const std::string mine = host_identity();
  const auto all = bootstrap.all_gather(std::as_bytes(std::span(mine)));
  return std::all_of(all.begin(), all.end(), [&](const auto& theirs) { return theirs == all.front(); });
}

// The first domain that is bound to `source`.
LibfabricInfo first_domain(const std::string& provider, const std::string& source) {
  auto found = find_libfabric_domains(provider, source);
  if (found.empty()) refuse_provider(provider);
  return std::move(found.front());
}

// All domains that may carry a rail, in order.
std::vector<LibfabricInfo> find_rails(const std::string& provider, bool one_host) {
  std::vector<LibfabricInfo> found;
  if (provider == "tcp") {
    for (const Interface& interface : tcp_interfaces(one_host)) {
      found.push_back(first_domain(provider, interface.address));
    }
  } else if (provider == "shm") {
    remove_stale_shm_files();
    found.push_back(first_domain(provider, next_shm_endpoint_name()));
  } else {
    found = find_libfabric_domains(provider, "");
    if (found.empty()) refuse_provider(provider);
  }
  return found;
}

std::string names_of(const std::vector<LibfabricInfo>& infos) {
  std::string names;
  for (const auto& info : infos) names += fmt::format("{}{}", names.empty() ? "" : ", ", info->domain_attr->name);
  return names;
}

// Rail i of a rank writes to rail i of its peers.
void require_equal_counts(Bootstrap& bootstrap, std::size_t mine) {
  const std::uint64_t count = mine;
  std::map<std::uint64_t, std::vector<std::size_t>> ranks_with;
  const auto all = bootstrap.all_gather(std::as_bytes(std::span(&count, 1)));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    std::uint64_t theirs = 0;
    std::memcpy(&theirs, all[rank].data(), sizeof theirs);
    ranks_with[theirs].push_back(rank);
  }
  if (ranks_with.size() == 1) return;
  std::string who;
  for (const auto& [rails, ranks] : ranks_with) {
    who += fmt::format("{}{} on rank{} {}", who.empty() ? "" : ", ", rails, ranks.size() > 1 ? "s" : "",
                       fmt::join(ranks, ", "));
  }
  throw Error(ErrorKind::environment, fmt::format("ranks have different numbers of network interfaces: {}", who),
              fmt::format("set transport.rails to 1 to {}, or use hosts that are alike", ranks_with.begin()->first));
}

}  // namespace

std::vector<LibfabricDomain> open_libfabric_domains(Bootstrap& bootstrap, const std::string& provider, int rails) {
  require_known(provider);
  const bool one_host = share_a_host(bootstrap);
  if (provider == "shm" && !one_host) {
    throw Error(ErrorKind::config, "provider 'shm' reaches only ranks that share /dev/shm, and these ranks do not",
                "use transport.provider: tcp or efa");
  }
  std::vector<LibfabricInfo> infos;
  run_on_all(bootstrap, [&] {
    infos = find_rails(provider, one_host);
    if (rails > 0 && static_cast<std::size_t>(rails) > infos.size()) {
      throw Error(ErrorKind::config,
                  fmt::format("transport.rails is {}, and provider '{}' has {} here: {}", rails, provider, infos.size(),
                              names_of(infos)),
                  fmt::format("use transport.rails of 1 to {}, or 0 for all", infos.size()));
    }
  });
  if (rails > 0) infos.resize(static_cast<std::size_t>(rails));
  require_equal_counts(bootstrap, infos.size());
  std::vector<LibfabricDomain> domains;
  run_on_all(bootstrap, [&] {
    for (auto& info : infos) domains.push_back(open_libfabric_domain(std::move(info)));
  });
  return domains;
}

}  // namespace mrb
