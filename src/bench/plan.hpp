// From settings to the experiments that will run, in which order, and those that cannot.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "bench/experiment.hpp"
#include "config/settings.hpp"

namespace mrb {

// What this machine sets limits to.
struct PlanLimits {
  std::uint64_t memory_bytes_per_rank = 0;  // of the rank with least; 0: unknown, nothing is skipped for it
  int ranks_per_node = 0;                   // of the machines; 0: all ranks are on one
};

// Throws Error(config) when nothing can run, with the reasons.
Plan make_plan(const Settings&, const PlanLimits&);

// Memory of the rank that needs most: weights, gradients, moments, packed copies, cache and activations of one
// micro-batch. Modelled; what the transport holds is not in it.
std::uint64_t estimate_memory_bytes(const Config&);

// Why the transport cannot carry this configuration, whatever the machine; empty when it can.
std::string transport_misfit(const Config&);

// What a reader of results of this configuration must know. `ranks_per_node`: of the machines; 0: all are on one.
std::set<std::string> notes_on(const Config&, int ranks_per_node);

// "rank_dedup libfabric/shm": what varies, in the order of the schema; dispatcher and transport when nothing does.
std::string point_label(const Point&);

// A name for a point of the configuration: 16 hexadecimal digits of a hash of `canonical`.
std::string short_hash(const std::string& canonical);

}  // namespace mrb
