// Tests on real ranks. Every rank runs the same tests in the same order, and rank 0 alone reports.
#pragma once

#include <functional>

#include "cluster/bootstrap.hpp"

namespace mrb::test {

// The ranks that mpirun started: one bootstrap for all tests, because MPI starts once.
Bootstrap& mpi_ranks();

// Collective, once in a test case. Runs `rank_main`, whose exceptions are its failures, on every rank; the test case
// fails on all ranks when it failed on any, and rank 0 reports each rank's failure. Assertions of Catch2 inside
// `rank_main` would be seen on one rank alone.
void on_all_ranks(const std::function<void(Bootstrap&)>& rank_main);

}  // namespace mrb::test
