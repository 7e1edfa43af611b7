// Who ran the made-up results: two ranks on one node.
#pragma once

#include "bench/made_up.hpp"
#include "report/json.hpp"
#include "report/run_info.hpp"
#include "report/stored_run.hpp"

namespace mrb::test {

inline RunInfo made_up_run() {
  SettingsSources sources;
  sources.sets = {"ranks=2", "dispatcher=alltoall,rank_dedup"};
  return {.id = "20261201T101500Z-ab12cd",
          .started = "2026-12-01T10:15:00Z",
          .arguments = {"run", "--ranks", "2"},
          .build = {.version = "0.1.0",
                    .commit = "1a2b3c4",
                    .compiler = "GNU 12",
                    .build_type = "Release",
                    .processor = "native"},
          .ranks = {{0, "node-a", "0-1", 1}, {1, "node-a", "0-1", 1}},
          .nodes = {{.host = "node-a", .processor = "Some CPU", .cores_online = 2, .cores_allowed = 2}},
          .libraries = {{"mpi", "MPI 3.1", "Open MPI v4.1.4", ""}, {"nccl", "", "", "NCCL"}},
          .compute_device = "Some CPU",
          .compute_library = "oneDNN 2.6.3",
          .environment = {{"FI_PROVIDER", "shm"}},
          .settings = load_settings(sources)};
}

// What is read back from the result.json of such a run.
inline StoredRun made_up_stored_run(const RunRecord& record = made_up_record()) {
  return parse_stored_run(result_json(made_up_run(), record), "a.json");
}

}  // namespace mrb::test
