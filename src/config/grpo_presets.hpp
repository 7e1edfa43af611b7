// What GRPO means in the frameworks people come from, where it is more than a name.
#pragma once

#include <string>
#include <vector>

#include "config/config.hpp"

namespace mrb {

// "none", which leaves the defaults as they are, then the frameworks.
std::vector<std::string> grpo_preset_names();

// Sets `preset` and what the framework of that name does unless told otherwise: how advantages are normalised, the
// clipping, the average over tokens and the off-policy correction. Recipes' choices (kl_coef, epochs, batch) stay.
void apply_grpo_preset(const std::string& name, GrpoConfig&);

}  // namespace mrb
