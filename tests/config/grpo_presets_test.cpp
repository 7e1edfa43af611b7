#include "config/grpo_presets.hpp"

#include "config/fields.hpp"
#include "config/loading.hpp"

using namespace mrb;
using mrb::test::contains;
using mrb::test::load;

namespace {

GrpoConfig one_point(const std::string& yaml) {
  const auto points = expand(load(yaml));
  REQUIRE(points.size() == 1);
  return points[0].config.grpo;
}

}  // namespace

TEST_CASE("a framework's name stands for what it does", "[config]") {
  const GrpoConfig verl = one_point("grpo: {preset: verl}");
  CHECK(verl.advantage == "grpo");
  CHECK(verl.advantage_eps == 1e-6);
  CHECK((verl.clip_low == 0.2 && verl.clip_high == 0.2 && verl.dual_clip == 3));
  CHECK(verl.aggregation == "token_mean");
  CHECK(verl.correction == "none");
  const GrpoConfig trl = one_point("grpo: {preset: trl}");
  CHECK(trl.advantage_eps == 1e-4);
  CHECK(trl.dual_clip == 0);
  CHECK(trl.correction == "mask_sequence");
  CHECK(trl.correction_high == 3);
  const GrpoConfig nemo = one_point("grpo: {preset: nemo}");
  CHECK(nemo.advantage == "leave_one_out_std");
  CHECK(nemo.dual_clip == 0);
}

TEST_CASE("what is given is stronger than the preset, wherever it is given", "[config]") {
  const GrpoConfig grpo = one_point("grpo: {clip_high: 0.28, correction: none, preset: trl}");
  CHECK(grpo.clip_high == 0.28);
  CHECK(grpo.correction == "none");
  CHECK(grpo.advantage_eps == 1e-4);
}

TEST_CASE("without a preset the defaults hold, and are called so", "[config]") {
  const Settings settings = load("{}");
  CHECK(settings.at("grpo.clip_high").values == std::vector<std::string>{"0.28"});
  CHECK(settings.at("grpo.clip_high").origin == "default");
}

TEST_CASE("config show says which preset a value is of", "[config]") {
  const std::string text = settings_yaml(load("grpo: {preset: trl, clip_low: 0.1}"), Origins::shown);
  CHECK_THAT(text, contains("\n  # advantage_eps: 0.0001            # the trl preset\n"));
  CHECK_THAT(text, contains("\n  # correction: mask_sequence        # the trl preset\n"));
  CHECK_THAT(text, contains("\n  clip_low: 0.1 "));
  CHECK_THAT(text, contains("\n  kl_coef: 0                         # default\n"));
}

TEST_CASE("presets are an axis", "[config]") {
  const auto points = expand(load("grpo: {preset: [none, verl, nemo]}"));
  REQUIRE(points.size() == 3);
  CHECK(points[0].config.grpo.clip_high == 0.28);
  CHECK(points[1].config.grpo.clip_high == 0.2);
  CHECK(points[2].config.grpo.advantage == "leave_one_out_std");
  CHECK(points[2].workload == std::map<std::string, std::string>{{"grpo.preset", "nemo"}});
}

TEST_CASE("a point with a preset, and a change to it, is read back as that point", "[config]") {
  for (const Point& point : expand(load("grpo: {preset: [none, verl, trl, nemo], clip_high: [0.28, 0.2]}"))) {
    const std::string yaml = config_yaml(point.config, {});
    INFO(yaml);
    const auto again = expand(load(yaml));
    REQUIRE(again.size() == 1);
    CHECK(canonical_lines(again[0].config, FieldSet::all) == canonical_lines(point.config, FieldSet::all));
  }
}

TEST_CASE("a preset changes only fields that say so", "[config]") {
  const Config defaults;
  for (const std::string& name : grpo_preset_names()) {
    Config config;
    apply_grpo_preset(name, config.grpo);
    for (const Field& field : fields()) {
      if (field.preset == "grpo.preset" || field.key == "grpo.preset") continue;
      INFO(name << ": " << field.key);
      CHECK(field.get(config) == field.get(defaults));
    }
  }
}

TEST_CASE("a preset that fits nothing else is named where it was given", "[config]") {
  CHECK_THAT(test::fault("grpo: {preset: tlr}"), contains("did you mean 'trl'? It is one of: none, verl, trl, nemo"));
  // 0.5 is refused by a rule, and is not judged together with the preset that is wrong.
  CHECK_THAT(test::fault("grpo: {preset: tlr, dual_clip: 0.5}"), !contains("faults"));
}
