#include "config/grpo_presets.hpp"

namespace mrb {

namespace {

struct Preset {
  const char* name;
  const char* advantage;
  double advantage_eps;
  double clip_low, clip_high;
  double dual_clip;
  const char* aggregation;
  const char* correction;
  double correction_low, correction_high;
};

// As read in the frameworks' sources: verl b178a3c, TRL f2cd577, NeMo-RL 7ea279a.
constexpr Preset kPresets[] = {
    {"verl", "grpo", 1e-6, 0.2, 0.2, 3, "token_mean", "none", 0, 2},
    {"trl", "grpo", 1e-4, 0.2, 0.2, 0, "token_mean", "mask_sequence", 0, 3},
    {"nemo", "leave_one_out_std", 1e-6, 0.2, 0.2, 0, "token_mean", "none", 0, 2},
};

}  // namespace

std::vector<std::string> grpo_preset_names() {
  std::vector<std::string> names = {"none"};
  for (const Preset& preset : kPresets) names.push_back(preset.name);
  return names;
}

void apply_grpo_preset(const std::string& name, GrpoConfig& grpo) {
  grpo.preset = name;
  for (const Preset& preset : kPresets) {
    if (name != preset.name) continue;
    grpo.advantage = preset.advantage;
    grpo.advantage_eps = preset.advantage_eps;
    grpo.clip_low = preset.clip_low;
    grpo.clip_high = preset.clip_high;
    grpo.dual_clip = preset.dual_clip;
    grpo.aggregation = preset.aggregation;
    grpo.correction = preset.correction;
    grpo.correction_low = preset.correction_low;
    grpo.correction_high = preset.correction_high;
  }
}

}  // namespace mrb
