// NVIDIA's management library, opened when it is there: the driver brings it, so a binary must not be linked to it.
#pragma once

#include <string>

namespace mrb {

// See gpus_probe(). Empty when there is no library, no driver, or no GPU.
std::string nvml_text();

}  // namespace mrb
