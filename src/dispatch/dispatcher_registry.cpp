#include <fmt/format.h>

#include "base/error.hpp"
#include "dispatch/dispatcher.hpp"

namespace mrb {

#define MRB_BACKEND(name)                                                       \
  DispatcherCapabilities name##_capabilities(const DispatcherOptions& options); \
  std::unique_ptr<Dispatcher> make_##name##_dispatcher(Channel&, const DispatcherOptions&);
#define MRB_MISSING(name, needs)
#include "dispatcher_registry.inc"
#undef MRB_BACKEND
#undef MRB_MISSING

namespace {

struct DispatcherMaker {
  DispatcherCapabilities (*capabilities)(const DispatcherOptions&) = nullptr;
  std::unique_ptr<Dispatcher> (*make)(Channel&, const DispatcherOptions&) = nullptr;

  friend constexpr bool operator==(const DispatcherMaker& maker, std::nullptr_t) { return maker.make == nullptr; }
};

#define MRB_BACKEND(name) {#name, {&name##_capabilities, &make_##name##_dispatcher}, ""},
#define MRB_MISSING(name, needs) {#name, {}, needs},
constexpr RegistryEntry<DispatcherMaker> kDispatchers[] = {
#include "dispatcher_registry.inc"
};
#undef MRB_BACKEND
#undef MRB_MISSING

std::span<const RegistryEntry<DispatcherMaker>> dispatchers() {
  return kDispatchers;
}

void check_placement(const ExpertPlacement& placement) {
  if (placement.expert_count < 1 || placement.expert_count % placement.rank_count != 0) {
    throw Error(ErrorKind::config,
                fmt::format("{} experts do not divide over {} ranks", placement.expert_count, placement.rank_count),
                "use a number of ranks that divides the number of experts");
  }
  if (placement.rank_count % placement.node_size() != 0) {
    throw Error(ErrorKind::config,
                fmt::format("{} ranks do not divide over nodes of {}", placement.rank_count, placement.node_size()),
                "use a number of ranks per node that divides the number of ranks");
  }
}

}  // namespace

DispatcherCapabilities dispatcher_capabilities(std::string_view name, const DispatcherOptions& options) {
  return find_factory("dispatcher", name, dispatchers()).capabilities(options);
}

std::string dispatcher_misfit(const DispatcherCapabilities& capabilities, const DispatcherOptions& options) {
  if (options.placement.rank_count > capabilities.ranks_max) {
    return fmt::format("dispatcher '{}' works on at most {} rank{}, and there are {}", capabilities.name,
                       capabilities.ranks_max, capabilities.ranks_max == 1 ? "" : "s", options.placement.rank_count);
  }
  if (options.top_k > capabilities.top_k_max) {
    return fmt::format("dispatcher '{}' sends a token to at most {} experts, and top_k is {}", capabilities.name,
                       capabilities.top_k_max, options.top_k);
  }
  return "";
}

std::unique_ptr<Dispatcher> make_dispatcher(std::string_view name, Channel& channel, const DispatcherOptions& options) {
  const DispatcherMaker maker = find_factory("dispatcher", name, dispatchers());
  const ExpertPlacement& placement = options.placement;
  if (placement.rank_count != channel.size()) {
    throw Error(ErrorKind::internal,
                fmt::format("experts are placed on {} ranks, but {} ranks exchange tokens", placement.rank_count,
                            channel.size()),
                "report this with the command that shows it");
  }
  check_placement(placement);
  if (options.hidden < 1) {
    throw Error(ErrorKind::config, fmt::format("hidden is {}", options.hidden), "use a hidden size of 1 or more");
  }
  const std::string misfit = dispatcher_misfit(maker.capabilities(options), options);
  if (!misfit.empty()) throw Error(ErrorKind::config, misfit, "use another dispatcher, or change what it cannot take");
  return maker.make(channel, options);
}

std::vector<RegistryLine> dispatcher_lines() {
  return registry_lines(dispatchers());
}

}  // namespace mrb
