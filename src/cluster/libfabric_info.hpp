// What libfabric offers on this machine, and its errors in its own words.
#pragma once

#include <rdma/fabric.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mrb {

// Passes on what a call returned, or throws Error(environment) with the call, its code and libfabric's words
// when that is negative.
std::int64_t libfabric_call(std::int64_t code, std::string_view call);

struct FreeLibfabricInfo {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using LibfabricInfo = std::unique_ptr<fi_info, FreeLibfabricInfo>;

// The domains (network interfaces) over which `provider` offers reliable one-sided writes here, each once and sorted
// by name; none when it has nothing here. `source` is the address to bind to (an IPv4 address for tcp, a name for
// shm), empty for the provider's own choice. Whether it takes regions by address or offset, with its keys or ours, is
// the provider's to say: look at domain_attr->mr_mode.
std::vector<LibfabricInfo> find_libfabric_domains(const std::string& provider, const std::string& source);

// The providers that the libfabric transport knows, and those of them that this machine has.
const std::vector<std::string>& known_libfabric_providers();
std::vector<std::string> usable_libfabric_providers();

// "1.17.0", of the library that is loaded.
std::string libfabric_version();

}  // namespace mrb
