// From a configuration to the options of its dispatcher and its transport.
#pragma once

#include <cstdint>

#include "config/config.hpp"
#include "dispatch/dispatcher.hpp"
#include "transport/transport.hpp"

namespace mrb {

// Tokens of one rank in one call of the policy, at most: a prefill, a decode step or a micro-batch.
std::int64_t tokens_per_call_max(const Config&);

// `ranks_per_node`: what the machines have; the configuration may say less.
DispatcherOptions dispatcher_options(const Config&, int ranks_per_node);

TransportOptions transport_options(const Config&);

}  // namespace mrb
