#include "transport/libfabric/rail.hpp"

#include <fmt/format.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.hpp"

namespace mrb {

namespace {

// Own puts in flight over all peers, at most. Enough to fill a network with pieces of 64 KiB.
constexpr std::size_t kPutsMax = 256;
// Puts of one peer that have arrived and were not read, where the queue has so many places.
constexpr std::size_t kWindowMax = 256;
// A window is credited in two halves, so no more of a peer's credits can wait to be read.
constexpr std::size_t kCreditsPerPeer = 2;
constexpr std::size_t kEventsPerPoll = 64;
constexpr std::uint32_t kCredit = kExchanges;

// Where credits are written from, and into: a cache line each.
constexpr std::size_t kCreditSource = 0;
constexpr std::size_t kCreditTarget = 64;
constexpr std::size_t kCreditBytes = 128;

// A write that came in has one of these or both: shm of libfabric 2 gives the second alone.
constexpr std::uint64_t kArrivalFlags = FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;

// What begins an introduction; the endpoint's address follows.
struct Greeting {
  std::uint64_t credit_base = 0;
  std::uint64_t credit_key = 0;
  std::uint64_t window = 0;
};

}  // namespace

RailRoom RailRoom::share(std::size_t operations_max, std::size_t ranks) {
  const std::size_t credits_max = std::max<std::size_t>(1, kCreditsPerPeer * (ranks - 1));
  RailRoom room;
  room.credits = std::clamp<std::size_t>(operations_max / 4, 1, credits_max);
  room.puts = operations_max > room.credits ? std::min(operations_max - room.credits, kPutsMax) : 1;
  return room;
}

std::size_t RailRoom::places(std::size_t window, std::size_t ranks) const {
  return puts + credits + (ranks - 1) * (window + kCreditsPerPeer);
}

std::size_t RailRoom::window(std::size_t places, std::size_t ranks) const {
  if (ranks == 1) return kWindowMin;
  const std::size_t of_peer = (places - puts - credits) / (ranks - 1);
  return (of_peer - kCreditsPerPeer) / 2 * 2;
}

LibfabricRail::LibfabricRail(LibfabricDomain domain, int rank, int ranks)
    : domain_(std::move(domain)), rank_(rank), credit_memory_(kCreditBytes) {
  addressing_ = RegionAddressing::from_mr_mode(static_cast<std::uint64_t>(info().domain_attr->mr_mode));
  if (info().domain_attr->cq_data_size < sizeof(Put::immediate)) {
    throw Error(ErrorKind::environment,
                fmt::format("provider '{}' carries {} bytes with a write, and {} are needed",
                            info().fabric_attr->prov_name, info().domain_attr->cq_data_size, sizeof(Put::immediate)),
                "use another provider or version of libfabric");
  }
  const auto rank_count = static_cast<std::size_t>(ranks);
  room_ = RailRoom::share(info().tx_attr->size, rank_count);
  endpoint_ = std::make_unique<LibfabricEndpoint>(
      domain_, rank_count,
      QueuePlaces{room_.places(kWindowMax, rank_count), room_.places(RailRoom::kWindowMin, rank_count)});
  window_ = static_cast<std::uint32_t>(room_.window(endpoint_->queue_places(), rank_count));

  operations_ = std::vector<Operation>(room_.puts + room_.credits);
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    operations_[i].is_credit = i >= room_.puts;
    (operations_[i].is_credit ? free_credits_ : free_puts_).push_back(&operations_[i]);
  }
  peers_.resize(rank_count);
  credits_due_.reserve(kCreditsPerPeer * rank_count);
  credit_registration_ = register_memory(credit_memory_.bytes(), 0);
}

std::vector<std::byte> LibfabricRail::introduction() const {
  const Greeting greeting{reinterpret_cast<std::uint64_t>(credit_memory_.data()), fi_mr_key(credit_registration_.get()),
                          window_};
  const auto bytes = std::as_bytes(std::span(&greeting, 1));
  std::vector<std::byte> text(bytes.begin(), bytes.end());
  const auto address = endpoint_->address();
  text.insert(text.end(), address.begin(), address.end());
  return text;
}

void LibfabricRail::meet(std::span<const std::vector<std::byte>> introductions) {
  std::vector<std::vector<std::byte>> addresses;
  for (std::size_t rank = 0; rank < introductions.size(); ++rank) {
    Greeting greeting;
    std::memcpy(&greeting, introductions[rank].data(), sizeof greeting);
    addresses.emplace_back(introductions[rank].begin() + sizeof greeting, introductions[rank].end());
    peers_[rank].window = static_cast<std::uint32_t>(greeting.window);
    peers_[rank].credit_base = greeting.credit_base;
    peers_[rank].credit_key = greeting.credit_key;
  }
  endpoint_->add_peers(addresses);
}

LibfabricObject<fid_mr> LibfabricRail::register_memory(std::span<std::byte> memory, std::uint64_t key) {
  fid_mr* registration = nullptr;
  const int code = fi_mr_reg(domain_.domain.get(), memory.data(), memory.size(), FI_WRITE | FI_REMOTE_WRITE, 0,
                             addressing_.requested_key(key), 0, &registration, nullptr);
  if (code != 0) {
    throw Error(ErrorKind::environment,
                fmt::format("fi_mr_reg of {} bytes failed with code {}: {}", memory.size(), code, fi_strerror(-code)),
                "check the limit of locked memory (ulimit -l) and the memory limit of the container");
  }
  return LibfabricObject<fid_mr>(registration);
}

std::uint64_t LibfabricRail::expose(RegionId region, std::span<std::byte> memory) {
  registrations_.resize(std::max<std::size_t>(registrations_.size(), region + std::size_t{1}));
  registrations_[region].reset();
  if (memory.empty()) return 0;
  registrations_[region] = register_memory(memory, region + std::uint64_t{1});  // key 0 is that of credits
  return fi_mr_key(registrations_[region].get());
}

void LibfabricRail::withdraw(RegionId region) {
  registrations_.at(region).reset();
}

bool LibfabricRail::start(std::vector<Operation*>& free, int peer, const void* source, std::size_t bytes,
                          fid_mr* registration, std::uint64_t remote_address, std::uint64_t key,
                          std::uint32_t immediate) {
  Operation& operation = *free.back();
  operation.peer = peer;
  void* descriptor = addressing_.local_descriptor ? fi_mr_desc(registration) : nullptr;
  const auto code = fi_writedata(endpoint_->endpoint(), source, bytes, descriptor, immediate, endpoint_->peer(peer),
                                 remote_address, key, &operation.context);
  if (code == -FI_EAGAIN) {
    ++eagains_;
    return false;
  }
  if (code != 0) libfabric_call(code, fmt::format("fi_writedata of {} bytes to rank {}", bytes, peer));
  free.pop_back();
  return true;
}

bool LibfabricRail::try_write(const Write& write) {
  if (free_puts_.empty()) return false;
  Peer& peer = peers_[static_cast<std::size_t>(write.peer)];
  if (peer.uncredited == peer.window) {
    ++refused_for_credit_;
    return false;
  }
  if (!start(free_puts_, write.peer, write.source, write.bytes, registrations_[write.source_region].get(),
             addressing_.remote_address(write.target_base, write.target_offset_bytes), write.target_key,
             write.immediate)) {
    return false;
  }
  ++peer.uncredited;
  return true;
}

void LibfabricRail::poll(std::vector<std::uint32_t>& arrived) {
  std::array<fi_cq_data_entry, kEventsPerPoll> events;
  const auto count = fi_cq_read(endpoint_->queue(), events.data(), events.size());
  if (count == -FI_EAVAIL) throw_queue_error();
  if (count != -FI_EAGAIN) {
    libfabric_call(count, "fi_cq_read");
    for (const fi_cq_data_entry& event : std::span(events).first(static_cast<std::size_t>(count))) {
      if ((event.flags & kArrivalFlags) != 0) {
        take_arrival(static_cast<std::uint32_t>(event.data), arrived);
      } else {
        take_completion(event);
      }
    }
  }
  if (!credits_due_.empty()) send_credits();
}

void LibfabricRail::take_arrival(std::uint32_t immediate, std::vector<std::uint32_t>& arrived) {
  const std::uint32_t sender = immediate & (kRanksMax - 1);
  if (sender >= peers_.size()) {
    throw Error(ErrorKind::internal,
                fmt::format("a put with the immediate {:#x} arrived, and there are {} ranks", immediate, peers_.size()),
                "report this with the version of libfabric");
  }
  Peer& peer = peers_[sender];
  if (immediate >> kRankBits == kCredit) {
    peer.uncredited -= peer.window / 2;
    return;
  }
  arrived.push_back(immediate);
  if (++peer.uncounted < window_ / 2) return;
  peer.uncounted = 0;
  credits_due_.push_back(static_cast<int>(sender));
}

void LibfabricRail::take_completion(const fi_cq_data_entry& event) {
  if (!is_own(event.op_context)) {
    throw Error(ErrorKind::internal,
                fmt::format("provider '{}' completed something that is neither a put of this rank nor one to it: flags "
                            "{:#x}, context {}",
                            info().fabric_attr->prov_name, event.flags, event.op_context),
                "report this with the version of libfabric, or use transport: mpi");
  }
  auto* operation = static_cast<Operation*>(event.op_context);
  (operation->is_credit ? free_credits_ : free_puts_).push_back(operation);
}

// What the provider does not take now goes with the next poll().
void LibfabricRail::send_credits() {
  std::size_t sent = 0;
  for (; sent < credits_due_.size() && !free_credits_.empty(); ++sent) {
    const int rank = credits_due_[sent];
    const Peer& peer = peers_[static_cast<std::size_t>(rank)];
    if (!start(free_credits_, rank, credit_memory_.data() + kCreditSource, 1, credit_registration_.get(),
               addressing_.remote_address(peer.credit_base, kCreditTarget), peer.credit_key,
               immediate_of(kCredit, rank_))) {
      break;
    }
  }
  credits_due_.erase(credits_due_.begin(), credits_due_.begin() + static_cast<std::ptrdiff_t>(sent));
}

void LibfabricRail::throw_queue_error() {
  ++errors_;
  fi_cq_err_entry event = {};
  libfabric_call(fi_cq_readerr(endpoint_->queue(), &event, 0), "fi_cq_readerr");
  const char* words = fi_cq_strerror(endpoint_->queue(), event.prov_errno, event.err_data, nullptr, 0);
  const auto* operation = static_cast<const Operation*>(event.op_context);
  const bool is_own_put = is_own(operation);
  throw Error(ErrorKind::environment,
              fmt::format("{} failed: {} ({}); provider '{}' says {}: {}",
                          is_own_put ? fmt::format("a put to rank {}", operation->peer) : "receiving a put",
                          fi_strerror(event.err), event.err, info().fabric_attr->prov_name, event.prov_errno,
                          words ? words : "nothing"),
              is_own_put ? fmt::format("look at rank {} first: it may have ended", operation->peer)
                         : "look for a rank that has ended");
}

std::string LibfabricRail::state() const {
  std::string without;
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    const Peer& peer = peers_[rank];
    if (peer.window == 0 || peer.uncredited < peer.window) continue;
    without += fmt::format("{}rank {} ({} puts not read)", without.empty() ? ", no credit from " : ", ", rank,
                           peer.uncredited);
  }
  return fmt::format("{}: {} of {} puts in flight{}, {} credits to send, {} x EAGAIN, {} x no credit, {} queue errors",
                     info().domain_attr->name, pending_writes(), room_.puts, without, credits_due_.size(), eagains_,
                     refused_for_credit_, errors_);
}

}  // namespace mrb
