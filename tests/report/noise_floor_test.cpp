#include "report/noise_floor.hpp"

#include "base/error.hpp"
#include "report/json.hpp"
#include "report/made_up_run.hpp"
#include "support/catch.hpp"
#include "support/temporary_file.hpp"

using namespace mrb;
using namespace mrb::test;

namespace {

StoredRun made_up() {
  return parse_stored_run(result_json(made_up_run(), made_up_record()), "a.json");
}

NoiseFloor floor_of(double sd) {
  return {.session = "s", .pairs = 8, .sd_pair_ratio = {{"tokens_per_s", sd}, {"step_ms_p99", sd}}};
}

}  // namespace

TEST_CASE("a margin below the noise is refused with the pairs it needs", "[report]") {
  // ((1.645 + 0.84) sd / margin)^2 + 2: of 2.8% and 3% 8 pairs; of 7.1% and 3% 37, of 7.1% and 5% 15.
  CHECK_NOTHROW(refuse_below_floor(floor_of(0.028), {}, 24));
  CHECK_THROWS_WITH(refuse_below_floor(floor_of(0.071), {}, 24),
                    contains("tokens_per_s: pairs of the same differ by 7.1% here; a margin of 3% needs 37 pairs") &&
                        !contains("step_ms_p99") && contains("fix: give --pairs 38"));
  CHECK_NOTHROW(refuse_below_floor(floor_of(0.071), {.throughput_margin_ratio = 0.05}, 24));
}

TEST_CASE("a floor is kept by machine and workload", "[report]") {
  const TemporaryFolder folder;
  StoredRun run = made_up();
  CHECK_FALSE(read_noise_floor(folder.path(), run).has_value());
  write_noise_floor(folder.path(), run, floor_of(0.02));
  StoredRun elsewhere = run;
  elsewhere.fingerprint["processor"] = "Another CPU";
  write_noise_floor(folder.path(), elsewhere, floor_of(0.04));
  CHECK(read_noise_floor(folder.path(), run)->sd_pair_ratio.at("tokens_per_s") == 0.02);
  CHECK(read_noise_floor(folder.path(), elsewhere)->sd_pair_ratio.at("tokens_per_s") == 0.04);
  run.cells[0].workload_id = "other";
  CHECK_FALSE(read_noise_floor(folder.path(), run).has_value());
}

TEST_CASE("a floor that is damaged is refused and not taken for none", "[report]") {
  const TemporaryFolder folder;
  std::ofstream(folder.path() + "/noise_floor.json") << "[";
  CHECK_THROWS_WITH(read_noise_floor(folder.path(), made_up()), contains("fix: remove it"));
}
