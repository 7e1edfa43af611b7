// Gathers the facts of this rank.
#pragma once

#include <string>

#include "doctor/facts.hpp"

namespace mrb {

enum class TryHosts { no, yes };  // whether to connect to the hosts of the hostfile: up to 8 s

// Files of /proc, /sys, /dev and /etc are read under `root` ("" is this machine), and what takes a call comes from
// `root`/probes (probes.hpp). What cannot be read stays unknown. Calls nothing that needs other ranks.
Facts read_facts(const std::string& root = "", TryHosts = TryHosts::no);

}  // namespace mrb
