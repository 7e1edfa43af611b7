// How a provider wants regions of memory to be named. Providers differ: tcp takes offsets and our keys, shm
// takes addresses, EFA addresses, keys of its own and descriptors. What came back in fi_info decides, never
// the name.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mrb {

struct RegionAddressing {
  bool by_address = false;        // a write names the target's virtual address; otherwise the offset in its region
  bool provider_keys = false;     // the provider chooses a region's key; otherwise we do, and keep it unique
  bool local_descriptor = false;  // the source of a write must be registered and its descriptor given
  bool backed_by_pages = false;   // memory must be backed by pages when it is registered

  // From the bits of fi_info's domain_attr->mr_mode. Throws Error(environment) for a demand that is not one
  // of these.
  static RegionAddressing from_mr_mode(std::uint64_t mr_mode);

  // The key to ask for when registering: `unique_key`, or 0 where the provider does not look at it.
  std::uint64_t requested_key(std::uint64_t unique_key) const { return provider_keys ? 0 : unique_key; }

  // What a write to `offset_bytes` in a region that begins at `base` on its own rank gives as the remote
  // address.
  std::uint64_t remote_address(std::uint64_t base, std::size_t offset_bytes) const {
    return by_address ? base + offset_bytes : offset_bytes;
  }

  friend bool operator==(const RegionAddressing&, const RegionAddressing&) = default;
};

}  // namespace mrb
