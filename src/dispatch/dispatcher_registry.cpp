#include <fmt/format.h>

#include "base/error.hpp"
#include "dispatch/dispatcher.hpp"

namespace mrb {

#define MRB_BACKEND(name) std::unique_ptr<Dispatcher> make_##name##_dispatcher(Channel&, const DispatcherOptions&);
#define MRB_MISSING(name, needs)
#include "dispatcher_registry.inc"
#undef MRB_BACKEND
#undef MRB_MISSING

namespace {

using DispatcherFactory = std::unique_ptr<Dispatcher> (*)(Channel&, const DispatcherOptions&);

#define MRB_BACKEND(name) {#name, &make_##name##_dispatcher, ""},
#define MRB_MISSING(name, needs) {#name, nullptr, needs},
constexpr RegistryEntry<DispatcherFactory> kDispatchers[] = {
#include "dispatcher_registry.inc"
};
#undef MRB_BACKEND
#undef MRB_MISSING

std::span<const RegistryEntry<DispatcherFactory>> dispatchers() {
  return kDispatchers;
}

}  // namespace

std::unique_ptr<Dispatcher> make_dispatcher(std::string_view name, Channel& channel, const DispatcherOptions& options) {
  const auto make = find_factory("dispatcher", name, dispatchers());
  const ExpertPlacement& placement = options.placement;
  if (placement.rank_count != channel.size()) {
    throw Error(ErrorKind::internal,
                fmt::format("experts are placed on {} ranks, but {} ranks exchange tokens", placement.rank_count,
                            channel.size()),
                "report this with the command that shows it");
  }
  if (placement.expert_count < 1 || placement.expert_count % placement.rank_count != 0) {
    throw Error(ErrorKind::config,
                fmt::format("{} experts do not divide over {} ranks", placement.expert_count, placement.rank_count),
                "use a number of ranks that divides the number of experts");
  }
  if (options.hidden < 1) {
    throw Error(ErrorKind::config, fmt::format("hidden is {}", options.hidden), "use a hidden size of 1 or more");
  }
  return make(channel, options);
}

std::vector<RegistryLine> dispatcher_lines() {
  return registry_lines(dispatchers());
}

}  // namespace mrb
