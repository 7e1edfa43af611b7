// Any bytes as a result.json: read, summarised, compared with itself and shown, or refused with an Error. Nothing else.
#include <cstdint>
#include <string>

#include "base/error.hpp"
#include "report/stored_run.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const mrb::StoredRun run = mrb::parse_stored_run(std::string(reinterpret_cast<const char*>(data), size), "fuzz");
    for (const mrb::StoredCell& cell : run.cells) {
      for (const mrb::StoredLaunch& launch : cell.launches) {
        mrb::tokens_per_s(launch);
        mrb::step_ms_p99(launch);
      }
    }
  } catch (const mrb::Error&) {
  }
  return 0;
}
