// Time of exchanges in which every rank has one port out and one port in: what is sent to several peers leaves one after
// the other, and what comes from several arrives one after the other.
#pragma once

#include <span>

namespace mrb {

struct Link {
  double byte_per_s = 0;  // of one port, one direction
  double latency_s = 0;   // from the last byte sent to the last byte there
};

// Each of `ranks` sends `bytes_per_rank` in equal parts to all of them, itself included: all ports are alike, so one
// stands for all.
double alltoall_s(int ranks, double bytes_per_rank, const Link&);

// `bytes[from * ranks + to]`: the busiest port of all decides, be it one that sends or one that receives.
double exchange_s(std::span<const double> bytes, int ranks, const Link&);

}  // namespace mrb
