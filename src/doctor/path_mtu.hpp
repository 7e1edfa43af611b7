// Which datagrams pass between hosts unfragmented: TCP adapts to a wrong MTU and says nothing, so it must be tried.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace mrb {

struct PathMtu {
  std::int64_t of_interface = -1;  // what this host believes; -1: unknown
  std::int64_t passes = -1;        // the largest size of those tried that came through; -1: none did
};

// Answers other hosts' datagrams from its construction to its destruction, in a thread of its own.
class MtuProbe {
 public:
  MtuProbe();
  ~MtuProbe();
  MtuProbe(const MtuProbe&) = delete;
  MtuProbe& operator=(const MtuProbe&) = delete;

  // What others need to reach this one: "PORT ADDRESS PREFIX_BITS MTU ADDRESS ...". Empty when there is no network.
  const std::string& address() const { return address_; }

  // Tries this host's own MTU and smaller ones, up to 0.3 s for each. `peer`: address() of the other, which is alive. Over
  // the first network that both are in.
  PathMtu try_to(const std::string& peer) const;

 private:
  struct Answering;
  std::unique_ptr<Answering> answering_;
  std::string address_;
};

}  // namespace mrb
