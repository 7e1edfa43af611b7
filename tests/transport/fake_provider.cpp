#include "transport/fake_provider.hpp"

#include <fmt/format.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <mutex>

#include "base/random.hpp"

namespace mrb::test {

namespace {

struct Domain;
struct Endpoint;

struct Fabric : fid_fabric {
  FakeState& state;
};

struct Domain : fid_domain {
  FakeState& state;
  int rail = 0;
};

struct Region : fid_mr {
  Domain& domain;
  const std::byte* begin = nullptr;
  std::size_t bytes = 0;
  std::uint64_t access = 0;
};

struct Event {
  fi_cq_data_entry entry = {};
  int error = 0;
  int provider_error = 0;
};

struct Queue : fid_cq {
  FakeState& state;
  std::size_t places = 0;
  std::deque<Event> events;
};

// What getname() gives and insert() takes.
struct Address {
  std::uint64_t rail = 0;
  std::uint64_t endpoint = 0;
};

struct Table : fid_av {
  Domain& domain;
  std::vector<std::uint64_t> endpoints;  // by fi_addr_t
};

struct Endpoint : fid_ep {
  Domain& domain;
  std::uint64_t id = 0;
  Queue* queue = nullptr;
  Table* table = nullptr;
  bool is_enabled = false;
  std::size_t in_flight = 0;
};

// A write on its way. It lands at its target and is completed at its source, whichever comes first.
struct Flight {
  Endpoint* source = nullptr;
  std::uint64_t target = 0;
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
  std::uint64_t address = 0;
  std::uint64_t key = 0;
  std::uint64_t data = 0;
  void* context = nullptr;
  const Region* registration = nullptr;
  std::vector<std::byte> copy;  // taken when it completes before it lands
  bool is_checked = false;
  bool has_landed = false;
  bool is_complete = false;
};

// As EFA numbers them.
enum ProviderError { kBadRemoteAddress = 7, kBadQueuePair = 9, kUnknownPeer = 14 };

// What the provider writes into the context of an operation in flight.
constexpr int kScribble = 0xC5;

}  // namespace

struct FakeState {
  explicit FakeState(const FakeProviderOptions& given) : options(given), random({given.seed}) {}

  std::mutex mutex;
  FakeProviderOptions options;
  Random random;
  int open_objects = 0;
  std::vector<std::string> faults;
  std::uint64_t next_endpoint = 1;
  std::map<std::uint64_t, Endpoint*> endpoints;  // those that are open
  std::vector<Region*> regions;
  std::list<Flight> flights;

  void fault(std::string text) {
    if (faults.size() < 20) faults.push_back(std::move(text));
  }

  Endpoint* endpoint(std::uint64_t id) {
    const auto found = endpoints.find(id);
    return found == endpoints.end() ? nullptr : found->second;
  }

  void push(Queue& queue, const Event& event) {
    if (queue.events.size() < queue.places) {
      queue.events.push_back(event);
    } else {
      fault(fmt::format("a completion queue of {} places has overflowed", queue.places));
    }
  }

  void complete(Flight& flight, int error, int provider_error) {
    flight.is_complete = true;
    --flight.source->in_flight;
    const auto* bytes = static_cast<const unsigned char*>(flight.context);
    if (std::any_of(bytes, bytes + sizeof(fi_context2), [](unsigned char byte) { return byte != kScribble; })) {
      fault("the context of a write in flight was changed by the caller");
    }
    std::memset(flight.context, 0, sizeof(fi_context2));
    Event event{.error = error, .provider_error = provider_error};
    event.entry.op_context = flight.context;
    event.entry.flags = FI_RMA | FI_WRITE;
    push(*flight.source->queue, event);
  }

  Region* target_region(const Flight& flight, const Endpoint& target) {
    for (Region* region : regions) {
      const auto begin = reinterpret_cast<std::uint64_t>(region->begin);
      if (&region->domain == &target.domain && region->key == flight.key && (region->access & FI_REMOTE_WRITE) != 0 &&
          flight.address >= begin && flight.bytes <= region->bytes &&
          flight.address - begin <= region->bytes - flight.bytes) {
        return region;
      }
    }
    return nullptr;
  }

  // 0, or why the write cannot land.
  int refusal(const Flight& flight) {
    const Endpoint* target = endpoint(flight.target);
    if (target == nullptr) return kBadQueuePair;
    const auto& known = target->table->endpoints;
    if (std::find(known.begin(), known.end(), flight.source->id) == known.end()) return kUnknownPeer;
    return target_region(flight, *target) == nullptr ? kBadRemoteAddress : 0;
  }

  void land(Flight& flight) {
    flight.has_landed = true;
    Endpoint* target = endpoint(flight.target);
    if (target == nullptr) return;  // it has ended, and so has its memory
    if (target_region(flight, *target) == nullptr) {
      fault("a region was closed under a write on its way into it");
      return;
    }
    std::memcpy(reinterpret_cast<void*>(flight.address), flight.is_complete ? flight.copy.data() : flight.from,
                flight.bytes);
    Event event;
    event.entry.flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;
    event.entry.len = flight.bytes;
    event.entry.data = flight.data;
    push(*target->queue, event);
  }

  // One of the two things that remain to be done with a write.
  void advance(Flight& flight) {
    if (!flight.is_checked) {
      flight.is_checked = true;
      if (const int why = refusal(flight); why != 0) {
        flight.has_landed = true;
        complete(flight, FI_EIO, why);
        return;
      }
    }
    const bool lands = flight.is_complete || (!flight.has_landed && random.below(2) == 0);
    if (lands) {
      land(flight);
    } else {
      if (!flight.has_landed) flight.copy.assign(flight.from, flight.from + flight.bytes);
      complete(flight, 0, 0);
    }
  }

  // Some of the writes from or to those who use the queue go on, in any order.
  void progress(const Queue& queue) {
    std::vector<std::list<Flight>::iterator> moving;
    for (auto flight = flights.begin(); flight != flights.end(); ++flight) {
      const Endpoint* target = endpoint(flight->target);
      if (flight->source->queue == &queue || (target != nullptr && target->queue == &queue)) moving.push_back(flight);
    }
    for (std::size_t steps = random.below(moving.size() + 1); steps > 0; --steps) {
      std::swap(moving[random.below(moving.size())], moving.back());
      advance(*moving.back());
      if (moving.back()->has_landed && moving.back()->is_complete) flights.erase(moving.back());
      moving.pop_back();
    }
  }
};

namespace {

template <class Object>
Object& as(fid* object) {
  return *reinterpret_cast<Object*>(object);
}

template <class Object>
FakeState& state_of(Object& object) {
  if constexpr (requires { object.state; }) {
    return object.state;
  } else {
    return object.domain.state;
  }
}

// What has to be let go with an object, under the lock.
template <class Object>
void let_go(FakeState&, Object&) {}

void let_go(FakeState& state, Region& region) {
  std::erase(state.regions, &region);
  for (const Flight& flight : state.flights) {
    if (flight.registration == &region && !flight.is_complete) {
      state.fault("a region was closed under a write that still needs it");
    }
  }
}

void let_go(FakeState& state, Endpoint& endpoint) {
  state.endpoints.erase(endpoint.id);
  state.flights.remove_if([&](const Flight& flight) { return flight.source == &endpoint; });
}

void let_go(FakeState& state, Domain& domain) {
  const bool is_used =
      std::any_of(state.regions.begin(), state.regions.end(), [&](Region* r) { return &r->domain == &domain; }) ||
      std::any_of(state.endpoints.begin(), state.endpoints.end(),
                  [&](const auto& entry) { return &entry.second->domain == &domain; });
  if (is_used) state.fault("a domain was closed before what was opened from it");
}

template <class Object>
int close_object(fid* closing) {
  Object& object = as<Object>(closing);
  FakeState& state = state_of(object);
  const std::lock_guard lock(state.mutex);
  let_go(state, object);
  --state.open_objects;
  delete &object;
  return 0;
}

int bind_endpoint(fid* endpoint, fid* to, std::uint64_t) {
  if (to->fclass == FI_CLASS_CQ) as<Endpoint>(endpoint).queue = &as<Queue>(to);
  if (to->fclass == FI_CLASS_AV) as<Endpoint>(endpoint).table = &as<Table>(to);
  return 0;
}

int control_endpoint(fid* control, int command, void*) {
  Endpoint& endpoint = as<Endpoint>(control);
  if (command != FI_ENABLE || endpoint.queue == nullptr || endpoint.table == nullptr) return -FI_EINVAL;
  endpoint.is_enabled = true;
  return 0;
}

template <class Object>
fi_ops* object_ops() {
  static fi_ops ops = [] {
    fi_ops made = {};
    made.size = sizeof made;
    made.close = close_object<Object>;
    if constexpr (std::is_same_v<Object, Endpoint>) {
      made.bind = bind_endpoint;
      made.control = control_endpoint;
    }
    return made;
  }();
  return &ops;
}

// Under the lock.
template <class Object>
Object* opened(FakeState& state, Object* object, std::size_t object_class) {
  object->fid.fclass = object_class;
  object->fid.ops = object_ops<Object>();
  ++state.open_objects;
  return object;
}

int get_name(fid_t named, void* address, std::size_t* length) {
  const Endpoint& endpoint = as<Endpoint>(named);
  const Address mine{static_cast<std::uint64_t>(endpoint.domain.rail), endpoint.id};
  if (*length < sizeof mine) return -FI_ETOOSMALL;
  std::memcpy(address, &mine, sizeof mine);
  *length = sizeof mine;
  return 0;
}

// What the caller did wrong, as far as it is told at once.
ssize_t check_write(FakeState& state, const Endpoint& endpoint, const Flight& flight, const void* descriptor,
                    fi_addr_t to) {
  if (!endpoint.is_enabled) return -FI_EOPBADSTATE;
  if (to >= endpoint.table->endpoints.size()) return -FI_EINVAL;
  if (flight.bytes == 0 || flight.context == nullptr || flight.data >> 32 != 0) return -FI_EINVAL;
  if (std::find(state.regions.begin(), state.regions.end(), descriptor) == state.regions.end()) return -FI_EINVAL;
  const Region& source = *flight.registration;
  const bool covers = &source.domain == &endpoint.domain && (source.access & FI_WRITE) != 0 &&
                      flight.from >= source.begin && flight.from + flight.bytes <= source.begin + source.bytes;
  return covers ? 0 : -FI_EINVAL;
}

ssize_t write_data(fid_ep* from, const void* buffer, std::size_t bytes, void* descriptor, std::uint64_t data,
                   fi_addr_t to, std::uint64_t address, std::uint64_t key, void* context) {
  Endpoint& endpoint = *static_cast<Endpoint*>(from);
  FakeState& state = endpoint.domain.state;
  const std::lock_guard lock(state.mutex);
  Flight flight{.source = &endpoint,
                .from = static_cast<const std::byte*>(buffer),
                .bytes = bytes,
                .address = address,
                .key = key,
                .data = data,
                .context = context,
                .registration = static_cast<const Region*>(descriptor)};
  if (const ssize_t code = check_write(state, endpoint, flight, descriptor, to); code != 0) return code;
  if (endpoint.in_flight >= state.options.operations_max) return -FI_EAGAIN;
  flight.target = endpoint.table->endpoints[to];
  for (const Flight& other : state.flights) {
    const auto distance = static_cast<const char*>(other.context) - static_cast<const char*>(context);
    if (!other.is_complete && std::abs(distance) < static_cast<std::ptrdiff_t>(sizeof(fi_context2))) {
      state.fault("two writes in flight share a context");
      return -FI_EINVAL;
    }
  }
  std::memset(context, kScribble, sizeof(fi_context2));
  ++endpoint.in_flight;
  state.flights.push_back(std::move(flight));
  return 0;
}

int open_endpoint(fid_domain* from, fi_info*, fid_ep** made, void*) {
  static fi_ops_cm names = {};
  static fi_ops_rma writes = {};
  Domain& domain = *static_cast<Domain*>(from);
  const std::lock_guard lock(domain.state.mutex);
  names.getname = get_name;
  writes.writedata = write_data;
  auto* endpoint = opened(domain.state, new Endpoint{{}, domain, domain.state.next_endpoint++}, FI_CLASS_EP);
  endpoint->cm = &names;
  endpoint->rma = &writes;
  domain.state.endpoints[endpoint->id] = endpoint;
  *made = endpoint;
  return 0;
}

ssize_t read_queue(fid_cq* read, void* into, std::size_t count) {
  Queue& queue = *static_cast<Queue*>(read);
  const std::lock_guard lock(queue.state.mutex);
  queue.state.progress(queue);
  if (queue.events.empty()) return -FI_EAGAIN;
  if (queue.events.front().error != 0) return -FI_EAVAIL;
  std::size_t taken = 0;
  for (; taken < count && !queue.events.empty() && queue.events.front().error == 0; ++taken) {
    static_cast<fi_cq_data_entry*>(into)[taken] = queue.events.front().entry;
    queue.events.pop_front();
  }
  return static_cast<ssize_t>(taken);
}

ssize_t read_error(fid_cq* read, fi_cq_err_entry* into, std::uint64_t) {
  Queue& queue = *static_cast<Queue*>(read);
  const std::lock_guard lock(queue.state.mutex);
  if (queue.events.empty() || queue.events.front().error == 0) return -FI_EAGAIN;
  const Event event = queue.events.front();
  queue.events.pop_front();
  into->op_context = event.entry.op_context;
  into->flags = event.entry.flags;
  into->err = event.error;
  into->prov_errno = event.provider_error;
  return 1;
}

const char* error_words(fid_cq*, int provider_error, const void*, char*, std::size_t) {
  switch (provider_error) {
    case kBadRemoteAddress:
      return "bad remote address or key";
    case kBadQueuePair:
      return "the peer has ended";
    case kUnknownPeer:
      return "the target does not know the sender";
  }
  return "nothing known";
}

int open_queue(fid_domain* from, fi_cq_attr* attributes, fid_cq** made, void*) {
  static fi_ops_cq reads = {};
  Domain& domain = *static_cast<Domain*>(from);
  const std::lock_guard lock(domain.state.mutex);
  if (attributes->format != FI_CQ_FORMAT_DATA || attributes->size == 0) return -FI_EINVAL;
  if (attributes->size > domain.state.options.queue_places_max) return -FI_EINVAL;
  reads.read = read_queue;
  reads.readerr = read_error;
  reads.strerror = error_words;
  auto* queue = opened(domain.state, new Queue{{}, domain.state, attributes->size, {}}, FI_CLASS_CQ);
  queue->ops = &reads;
  *made = queue;
  return 0;
}

int insert_address(fid_av* into, const void* bytes, std::size_t count, fi_addr_t* number, std::uint64_t, void*) {
  Table& table = *static_cast<Table*>(into);
  const std::lock_guard lock(table.domain.state.mutex);
  Address address;
  std::memcpy(&address, bytes, sizeof address);
  if (count != 1 || address.rail != static_cast<std::uint64_t>(table.domain.rail)) return 0;
  *number = table.endpoints.size();
  table.endpoints.push_back(address.endpoint);
  return 1;
}

int open_table(fid_domain* from, fi_av_attr* attributes, fid_av** made, void*) {
  static fi_ops_av inserts = {};
  Domain& domain = *static_cast<Domain*>(from);
  const std::lock_guard lock(domain.state.mutex);
  if (attributes->type != FI_AV_TABLE) return -FI_EINVAL;
  inserts.insert = insert_address;
  auto* table = opened(domain.state, new Table{{}, domain, {}}, FI_CLASS_AV);
  table->ops = &inserts;
  *made = table;
  return 0;
}

// The key is the provider's: 32 bits that cannot be guessed from the one that was asked for.
int register_region(fid* from, const void* begin, std::size_t bytes, std::uint64_t access, std::uint64_t, std::uint64_t,
                    std::uint64_t, fid_mr** made, void*) {
  Domain& domain = as<Domain>(from);
  const std::lock_guard lock(domain.state.mutex);
  if (begin == nullptr || bytes == 0) return -FI_EINVAL;
  auto* region =
      opened(domain.state, new Region{{}, domain, static_cast<const std::byte*>(begin), bytes, access}, FI_CLASS_MR);
  region->key = 0x10000 + domain.state.random.below(std::uint64_t{1} << 31);
  region->mem_desc = region;
  domain.state.regions.push_back(region);
  *made = region;
  return 0;
}

LibfabricInfo describe(const FakeProviderOptions& options, int rail) {
  LibfabricInfo info(fi_allocinfo());
  info->caps = FI_MSG | FI_RMA | FI_WRITE | FI_REMOTE_WRITE;
  info->mode = FI_CONTEXT2;
  info->fabric_attr->prov_name = strdup("fake");
  info->fabric_attr->name = strdup("fake");
  info->domain_attr->name = strdup(fmt::format("fake{}", rail).c_str());
  info->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_PROV_KEY | FI_MR_LOCAL | FI_MR_ALLOCATED;
  info->domain_attr->cq_data_size = options.cq_data_size;
  info->domain_attr->mr_key_size = 4;
  info->ep_attr->type = FI_EP_RDM;
  info->ep_attr->max_msg_size = std::size_t{1} << 30;
  info->tx_attr->size = options.operations_max;
  return info;
}

}  // namespace

FakeNetwork::FakeNetwork(const FakeProviderOptions& options) : state_(std::make_unique<FakeState>(options)) {}
FakeNetwork::~FakeNetwork() = default;

LibfabricDomain FakeNetwork::open(int rail) {
  static fi_ops_domain opens = {};
  static fi_ops_mr registers = {};
  const std::lock_guard lock(state_->mutex);
  opens.av_open = open_table;
  opens.cq_open = open_queue;
  opens.endpoint = open_endpoint;
  registers.reg = register_region;
  LibfabricDomain made;
  made.info = describe(state_->options, rail);
  made.fabric.reset(opened(*state_, new Fabric{{}, *state_}, FI_CLASS_FABRIC));
  auto* domain = opened(*state_, new Domain{{}, *state_, rail}, FI_CLASS_DOMAIN);
  domain->ops = &opens;
  domain->mr = &registers;
  made.domain.reset(domain);
  return made;
}

std::vector<LibfabricDomain> FakeNetwork::open_rails(int rails) {
  std::vector<LibfabricDomain> domains;
  for (int rail = 0; rail < rails; ++rail) domains.push_back(open(rail));
  return domains;
}

std::vector<std::string> FakeNetwork::faults() const {
  const std::lock_guard lock(state_->mutex);
  return state_->faults;
}

int FakeNetwork::open_objects() const {
  const std::lock_guard lock(state_->mutex);
  return state_->open_objects;
}

}  // namespace mrb::test
