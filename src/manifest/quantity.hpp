// Kubernetes' quantities: "500m" of a processor, "64Gi" of memory, 8 GPUs.
#pragma once

#include <optional>
#include <string>

namespace mrb {

// In units (processors, bytes, devices); nothing when the text is none. The grammar is that of apimachinery's
// resource.Quantity: a decimal number and one of n u m k M G T P E Ki Mi Gi Ti Pi Ei, or an exponent.
std::optional<double> parse_quantity(const std::string& text);

}  // namespace mrb
