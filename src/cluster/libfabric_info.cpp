#include "cluster/libfabric_info.hpp"

#include <fmt/format.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <new>

#include "base/error.hpp"

namespace mrb {

std::int64_t libfabric_call(std::int64_t code, std::string_view call) {
  if (code >= 0) return code;
  throw Error(ErrorKind::environment,
              fmt::format("{} failed with code {}: {}", call, code, fi_strerror(static_cast<int>(-code))),
              "run again with FI_LOG_LEVEL=warn, which makes libfabric say more");
}

namespace {

// All that `provider` offers, chained.
LibfabricInfo offers_of(const std::string& provider, const std::string& source) {
  const LibfabricInfo hints(fi_allocinfo());
  hints->fabric_attr->prov_name = strdup(provider.c_str());
  hints->ep_attr->type = FI_EP_RDM;
  // Writes and nothing else of one-sided operations: a device that cannot read is good enough.
  hints->caps = FI_MSG | FI_RMA | FI_WRITE | FI_REMOTE_WRITE;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;  // calls of one transport come from one thread at a time
  if (provider == "tcp") hints->addr_format = FI_SOCKADDR_IN;

  // An older library refuses an interface that is newer than itself; a newer one behaves as the one we were
  // built for.
  const std::uint32_t version = std::min<std::uint32_t>(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), fi_version());
  fi_info* found = nullptr;
  const int code = fi_getinfo(version, source.empty() ? nullptr : source.c_str(), nullptr,
                              source.empty() ? 0 : FI_SOURCE, hints.get(), &found);
  if (code == -FI_ENODATA) return nullptr;
  libfabric_call(code, "fi_getinfo");
  return LibfabricInfo(found);
}

// A domain may be offered in several ways, and on older EFA devices the direct one carries no data with a write.
bool carries_data(const fi_info& info) {
  return info.domain_attr->cq_data_size >= sizeof(std::uint32_t);
}

}  // namespace

std::vector<LibfabricInfo> find_libfabric_domains(const std::string& provider, const std::string& source) {
  const LibfabricInfo offers = offers_of(provider, source);
  std::map<std::string, const fi_info*> chosen;
  for (const fi_info* offer = offers.get(); offer != nullptr; offer = offer->next) {
    const fi_info*& best = chosen[offer->domain_attr->name];
    if (best == nullptr || (!carries_data(*best) && carries_data(*offer))) best = offer;
  }
  std::vector<LibfabricInfo> found;
  for (const auto& [domain, offer] : chosen) {
    found.emplace_back(fi_dupinfo(offer));
    if (!found.back()) throw std::bad_alloc();
  }
  return found;
}

const std::vector<std::string>& known_libfabric_providers() {
  static const std::vector<std::string> providers = {"tcp", "shm", "efa"};
  return providers;
}

std::vector<std::string> usable_libfabric_providers() {
  std::vector<std::string> usable;
  for (const auto& provider : known_libfabric_providers()) {
    if (offers_of(provider, "")) usable.push_back(provider);
  }
  return usable;
}

std::string libfabric_version() {
  return fi_tostr("", FI_TYPE_VERSION);
}

}  // namespace mrb
