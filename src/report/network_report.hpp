// The network between nodes as a heat map, and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "doctor/network.hpp"

namespace mrb {

// Two maps, of bandwidth and of latency, in which worse pairs are darker; rows send to columns.
std::string network_text(const NetworkRecord&);

nlohmann::ordered_json network_json(const NetworkRecord&);

}  // namespace mrb
