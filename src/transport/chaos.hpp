// A transport that behaves as badly as transport.hpp allows, around one that behaves: it finds out whoever relies on
// more than was promised, on a laptop and not on EFA.
#pragma once

#include <cstddef>
#include <memory>

#include "transport/transport.hpp"

namespace mrb {

// Collective; `chaos` is the same on all ranks, and its seed not 0. Puts become short, so that a Channel splits them.
// Some are refused; the others wait for a while, unread or on their way, and overtake each other.
std::unique_ptr<Transport> make_chaos(std::unique_ptr<Transport>, Bootstrap&, const ChaosOptions& chaos);

// Puts of a transport under chaos that were still to be read from or written into memory when it was withdrawn: a fault
// of the protocol above. The transport's next call throws Error(internal).
std::size_t late_puts(const Transport&);

}  // namespace mrb
