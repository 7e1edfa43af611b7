// The ranks that share a node, and what each of them may use of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/bootstrap.hpp"
#include "cluster/machine.hpp"

namespace mrb {

// Collective. Every rank's machine, by rank, on every rank.
std::vector<Machine> meet(Bootstrap&, const Machine& mine);

// How many whole cores are this rank's own, at least 1: a core that several ranks of a node may run on is divided among
// them, and so is what a quota leaves of the node. Bound ranks (each to its own cores) and free ones both come out right.
int cores_of(const std::vector<Machine>& machines, int rank);

// Ranks on each node when all nodes have as many and ranks are numbered node by node; otherwise 0.
int ranks_per_node(const std::vector<Machine>& machines);

// Memory for each rank on the node where it is least: 90% of the node's, the rest is the system's. 0: unknown.
std::uint64_t memory_bytes_per_rank(const std::vector<Machine>& machines);

// "0-3,8" as 0 1 2 3 8. What is no such list is empty.
std::vector<int> cpus_in(const std::string& list);

// Collective. Throws on all ranks Error(config) when `text`, what a rank understood its settings to be, differs
// between ranks: each node reads its own file, and its own environment.
void require_equal_settings(Bootstrap&, const std::vector<Machine>& machines, const std::string& text);

}  // namespace mrb
