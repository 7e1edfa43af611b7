// From a configuration to the options of its dispatcher and its transport.
#pragma once

#include <cstdint>

#include "config/config.hpp"
#include "dispatch/dispatcher.hpp"
#include "transport/transport.hpp"

namespace mrb {

// The configuration as those see it that share one copy of the experts, to train or to generate: their number of ranks,
// dispatcher, share of the prompts, and nodes. Colocated, it is the same for both.
Config side_config(const Config&, bool trains, int ranks_per_node);

// Tokens of one rank in one call of the policy, at most: a prefill, a decode step or a micro-batch.
std::int64_t tokens_per_call_max(const Config&);

// `ranks_per_node`: what the machines have; the configuration may say less.
DispatcherOptions dispatcher_options(const Config&, int ranks_per_node);

TransportOptions transport_options(const Config&);

}  // namespace mrb
