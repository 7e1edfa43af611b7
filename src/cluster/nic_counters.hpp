// What the network interfaces of this node say they sent: the third count of bytes, and the only one that no code of
// ours makes up.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mrb {

struct NicCounters {
  std::string source;  // which counters these are: "tx_bytes of rdmap0s6", "tx_bytes of lo"; empty when there are none
  std::uint64_t sent_bytes = 0;
};

// The counters of what carries a transport's bytes. `provider` is in the transport's own words:
//
//   efa             hw_counters/tx_bytes of every device under /sys/class/infiniband
//   tcp             statistics/tx_bytes of the interfaces under /sys/class/net: of lo when `one_host`, else of all others
//   anything else   none: shared memory passes no interface
//
// They count all that this node sends, not only what we do. `root` is a folder in place of "/", for tests.
NicCounters read_nic_counters(std::string_view provider, bool one_host, const std::string& root = "");

}  // namespace mrb
