#include <utility>

#include "transport/chaos.hpp"
#include "transport/transport.hpp"

namespace mrb {

using TransportFactory = std::unique_ptr<Transport> (*)(Bootstrap&, const TransportOptions&);

#define MRB_BACKEND(name) std::unique_ptr<Transport> make_##name##_transport(Bootstrap&, const TransportOptions&);
#define MRB_MISSING(name, needs)
#include "transport_registry.inc"
#undef MRB_BACKEND
#undef MRB_MISSING

static constexpr RegistryEntry<TransportFactory> kTransports[] = {
#define MRB_BACKEND(name) {#name, make_##name##_transport, ""},
#define MRB_MISSING(name, needs) {#name, nullptr, needs},
#include "transport_registry.inc"
#undef MRB_BACKEND
#undef MRB_MISSING
};

std::unique_ptr<Transport> make_transport(std::string_view name, Bootstrap& bootstrap,
                                          const TransportOptions& options) {
  auto transport = find_factory<TransportFactory>("transport", name, kTransports)(bootstrap, options);
  return options.chaos.seed == 0 ? std::move(transport) : make_chaos(std::move(transport), bootstrap, options.chaos);
}

std::vector<RegistryLine> transport_lines() {
  return registry_lines<TransportFactory>(kTransports);
}

}  // namespace mrb
