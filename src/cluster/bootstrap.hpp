// How the ranks find each other. Small messages and rare ones only: bytes of the benchmark go through a
// Transport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/registry.hpp"

namespace mrb {

// All methods but rank(), size(), last_words() and abort() are collective: every rank calls them, in the same order. They
// wait for the slowest rank, at most the time the bootstrap was made with, then throw Error(timeout).
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Every rank's bytes, by rank. Lengths may differ.
  virtual std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) = 0;

  // The largest of all ranks' values.
  virtual std::int64_t max(std::int64_t mine) = 0;

  virtual void barrier() = 0;

  // The same, calling `poll` again and again while it waits: of others that are on their way here, some may first need
  // this rank to take what they sent.
  virtual void barrier_polling(const std::function<void()>& poll) = 0;

  // The ranks of the same color as a bootstrap of their own, in the order that they have here. This one must outlive it.
  virtual std::unique_ptr<Bootstrap> split(int color) = 0;

  // For a rank that has waited in vain, before abort(): tells all others what it has to say, which ends their waiting in
  // collective calls, and waits some seconds for what they say. Returns it by rank, empty for ranks that do not answer.
  // One rank comes back first, which speaks for all and ends them; the others come back later, each in turn, should that
  // one have stopped.
  virtual std::vector<std::string> last_words(const std::string& mine) = 0;

  // Ends all ranks at once with this exit code. Does not return.
  [[noreturn]] virtual void abort(int exit_code) = 0;
};

struct BootstrapOptions {
  double timeout_s = 120;
};

// `solo` (one process) or `mpi`. Throws Error(config) for an unknown name, Error(environment) when MPI does
// not start. At most one `mpi` bootstrap may live in a process.
std::unique_ptr<Bootstrap> make_bootstrap(std::string_view name, const BootstrapOptions&);

std::vector<RegistryLine> bootstrap_lines();

// True when this process was started by an MPI launcher as one rank of several (or of one).
bool started_by_mpirun();

}  // namespace mrb
