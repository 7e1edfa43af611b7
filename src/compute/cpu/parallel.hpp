// Loops over this rank's threads. OpenMP, as oneDNN has it, so that both share one team.
#pragma once

#include <omp.h>

#include <cstdint>

namespace mrb {

// Calls work(i) for i in [0, count), in contiguous parts, one a thread. Each i is computed by one thread alone, so
// results do not depend on how many there are. `grain`: below this count one thread does it all.
template <class Work>
void parallel_for(std::int64_t count, std::int64_t grain, const Work& work) {
  if (count <= grain || omp_get_max_threads() == 1) {
    for (std::int64_t i = 0; i < count; ++i) work(i);
    return;
  }
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < count; ++i) work(i);
}

}  // namespace mrb
