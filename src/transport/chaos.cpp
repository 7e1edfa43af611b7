// Where a put waits:
//
//   sender:  held (its source not yet read) --+--> boxed: header and bytes into a slot of the target's mailbox
//                                             +--> direct: header into the slot, bytes straight into the region
//   target:  landing (header and bytes are there) --> bytes from the slot into the region, the immediate to the caller
//
// Boxed bytes come late, after the sender has its source back; direct bytes come early, while the target looks elsewhere.
// Waits are counted in polls, so that chance decides and not the machine. A slot returns to its sender by a put of one
// byte, the credit. The real immediate travels in the header; that of the wrapped transport says kind, sender and slot.
#include "transport/chaos.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>

#include "base/aligned_buffer.hpp"
#include "base/clock.hpp"
#include "base/random.hpp"
#include "base/units.hpp"
#include "transport/bounds.hpp"

namespace mrb {

namespace {

// Of each pair of ranks. More than the puts that a protocol leaves behind without its target ever looking.
constexpr std::size_t kSlots = 16;
constexpr std::size_t kHeldMax = 24;
// Short enough to split rows of a usual width, long enough for tests to be fast.
constexpr std::size_t kPutBytesLow = 513, kPutBytesSpread = 512;
// How long the end waits for credits that a peer owes.
constexpr double kEndTimeout_s = 0.5;

enum Kind : std::uint32_t { kBoxed = 1, kHeader, kData, kCredit };

constexpr unsigned kKindShift = 8;  // in the exchange of an immediate: the slot below, the kind above

struct Header {
  RegionId region = 0;
  std::uint32_t immediate = 0;
  std::uint64_t offset_bytes = 0;
  std::uint64_t bytes = 0;
};

struct Held {
  Put put;
  std::uint64_t due_poll = 0;
};

struct Landing {
  std::size_t sender = 0;
  std::size_t slot = 0;
  bool is_boxed = false;
  std::uint64_t due_poll = 0;
};

std::size_t slot_bytes_for(std::size_t put_bytes) {
  const std::size_t line = AlignedBuffer::kAlignment;
  return (sizeof(Header) + put_bytes + line - 1) / line * line;
}

class Chaos final : public Transport {
 public:
  Chaos(std::unique_ptr<Transport> inner, Bootstrap& bootstrap, const ChaosOptions& options);
  ~Chaos() override;

  const TransportCapabilities& capabilities() const override { return capabilities_; }
  RegionId expose(std::span<std::byte> memory) override;
  void withdraw(RegionId region) override;
  bool try_put(const Put& put) override;
  void poll(std::vector<std::uint32_t>& arrived) override;
  std::size_t pending_puts() const override { return held_.size() + unsent_.size() + inner_->pending_puts(); }
  std::string state() const override;

  std::size_t late_puts() const { return late_puts_; }

 private:
  struct Region {
    std::span<std::byte> mine;
    std::vector<std::uint64_t> bytes_of;  // by rank
  };

  bool has_stopped() const { return me_ == stop_rank_ && taken_ >= stop_after_puts_; }
  std::size_t slot_at(std::size_t rank, std::size_t slot) const { return (rank * kSlots + slot) * slot_bytes_; }
  std::size_t credit_at(std::size_t rank) const { return slot_at(ranks_, 0) + rank; }

  std::uint64_t draw_due_poll();
  bool release(const Put& put);
  void send(const Put& put);
  void take_arrivals();
  void arrive(Kind kind, std::size_t sender, std::size_t slot);
  bool land(const Landing& landing, std::vector<std::uint32_t>& arrived);
  Header header_of(const Landing& landing) const;
  std::byte* target_of(const Header& header) const;
  void require_no_late_puts() const;
  template <class Waiting, class Take>
  void take_due(std::vector<Waiting>& waiting, const Take& take);

  Bootstrap& bootstrap_;
  std::size_t ranks_;
  int me_;
  int stop_rank_;
  std::uint64_t stop_after_puts_;
  Random random_;
  std::size_t put_bytes_max_;
  std::size_t slot_bytes_;
  AlignedBuffer out_;  // slot (rank, s) goes to slot (me, s) of that rank's in_; then a credit byte for each rank
  AlignedBuffer in_;   // must both outlive the transport
  std::unique_ptr<Transport> inner_;
  TransportCapabilities capabilities_;
  std::vector<Region> regions_;  // by id; the first two are the mailboxes
  RegionId out_region_;
  RegionId in_region_;

  std::uint64_t polls_ = 0;
  std::uint64_t taken_ = 0;
  std::size_t late_puts_ = 0;
  bool is_ending_ = false;  // the memory that puts go into may be gone
  std::vector<Held> held_;
  std::vector<std::vector<std::size_t>> free_slots_;  // by target
  std::vector<Put> unsent_;                           // what the transport could not take at once
  std::vector<std::uint8_t> half_arrived_;            // by (sender, slot): header or bytes of a direct put are there
  std::vector<Landing> landing_;
  std::vector<std::uint32_t> inner_arrived_;  // scratch of take_arrivals()
};

Chaos::Chaos(std::unique_ptr<Transport> inner, Bootstrap& bootstrap, const ChaosOptions& options)
    : bootstrap_(bootstrap),
      ranks_(static_cast<std::size_t>(bootstrap.size())),
      me_(bootstrap.rank()),
      stop_rank_(options.stop_rank),
      stop_after_puts_(options.stop_after_puts),
      random_({options.seed, Random::chaos, static_cast<std::uint64_t>(me_)}),
      put_bytes_max_(std::min(
          inner->capabilities().put_bytes_max - sizeof(Header),
          kPutBytesLow + 2 * static_cast<std::size_t>(Random({options.seed, Random::chaos}).below(kPutBytesSpread)))),
      slot_bytes_(slot_bytes_for(put_bytes_max_)),
      out_(slot_at(ranks_, 0) + ranks_),
      in_(out_.size()),
      inner_(std::move(inner)),
      capabilities_(inner_->capabilities()),
      out_region_(expose(out_.bytes())),
      in_region_(expose(in_.bytes())),
      half_arrived_(ranks_ * kSlots) {
  capabilities_.provider += fmt::format(" under chaos (seed {})", options.seed);
  capabilities_.put_bytes_max = put_bytes_max_;
  std::vector<std::size_t> slots(kSlots);
  for (std::size_t slot = 0; slot < kSlots; ++slot) slots[slot] = slot;
  free_slots_.assign(ranks_, slots);
  const std::uint64_t late_ms = random_.below(static_cast<std::uint64_t>(options.late_start_ms) + 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(late_ms));
}

// What was sent has been waited for by now, but the credits for it may still be on their way here.
Chaos::~Chaos() {
  if (std::uncaught_exceptions() > 0 || has_stopped() || !held_.empty() || !unsent_.empty() || late_puts_ > 0) return;
  is_ending_ = true;
  const auto is_owed = [&] {
    std::size_t free = 0;
    for (const auto& slots : free_slots_) free += slots.size();
    return free < ranks_ * kSlots;
  };
  const std::int64_t deadline_ns = steady_now_ns() + s_to_ns(kEndTimeout_s);
  try {
    while (is_owed() && steady_now_ns() < deadline_ns) {
      take_arrivals();
      sched_yield();
    }
  } catch (const Error&) {  // a peer has ended
  }
}

std::string Chaos::state() const {
  return fmt::format("chaos: {}{} puts held, {} landing; {}", has_stopped() ? "stopped by chaos.stop_rank; " : "",
                     held_.size() + unsent_.size(), landing_.size(), inner_->state());
}

RegionId Chaos::expose(std::span<std::byte> memory) {
  const std::uint64_t bytes = memory.size();
  Region region{memory, {}};
  for (const auto& theirs : bootstrap_.all_gather(std::as_bytes(std::span(&bytes, 1)))) {
    std::memcpy(&region.bytes_of.emplace_back(), theirs.data(), sizeof bytes);
  }
  const RegionId id = inner_->expose(memory);
  regions_.resize(id + 1);
  regions_[id] = std::move(region);
  return id;
}

void Chaos::withdraw(RegionId region) {
  // A rank that has failed leaves things as they are.
  if (!has_stopped() && std::uncaught_exceptions() == 0) {
    take_arrivals();
    for (const Held& held : held_) late_puts_ += held.put.source_region == region;
    for (const Landing& landing : landing_) late_puts_ += header_of(landing).region == region;
  }
  regions_.at(region).mine = {};
  inner_->withdraw(region);
}

void Chaos::require_no_late_puts() const {
  if (late_puts_ == 0) return;
  throw Error(
      ErrorKind::internal,
      fmt::format("memory was withdrawn while {} puts were still to be read from it or written into it", late_puts_),
      "report this with the command that shows it");
}

bool Chaos::try_put(const Put& put) {
  const Region& source = regions_.at(put.source_region);
  require_inside("source", put.source_region, source.mine.size(), put.source_offset_bytes, put.bytes);
  const std::size_t target_bytes = regions_.at(put.target_region).bytes_of.at(static_cast<std::size_t>(put.peer));
  require_inside("target", put.target_region, target_bytes, put.target_offset_bytes, put.bytes);
  if (put.bytes == 0 || put.bytes > put_bytes_max_) {
    throw Error(ErrorKind::internal,
                fmt::format("a put of {} bytes, where 1 to {} are allowed", put.bytes, put_bytes_max_),
                "report this with the command that shows it");
  }
  require_no_late_puts();
  if (has_stopped() || held_.size() == kHeldMax || random_.below(8) == 0) return false;
  ++taken_;
  const std::uint64_t due_poll = draw_due_poll();
  if (due_poll > polls_ || !release(put)) held_.push_back({put, due_poll});
  return true;
}

void Chaos::poll(std::vector<std::uint32_t>& arrived) {
  if (has_stopped()) return;
  require_no_late_puts();
  ++polls_;
  take_arrivals();
  take_due(held_, [&](const Held& held) { return release(held.put); });
  take_due(landing_, [&](const Landing& landing) { return land(landing, arrived); });
}

// Most waits are short, so that tests are fast; a few outlast many others.
std::uint64_t Chaos::draw_due_poll() {
  const std::uint64_t kind = random_.below(16);
  if (kind < 6) return polls_;
  return polls_ + 1 + random_.below(kind < 13 ? 8 : kind < 15 ? 40 : 250);
}

// Takes out what is due, in random order, where `take` says that it could.
template <class Waiting, class Take>
void Chaos::take_due(std::vector<Waiting>& waiting, const Take& take) {
  for (std::size_t left = waiting.size(); left > 0; --left) {
    Waiting& drawn = waiting[left - 1];
    std::swap(waiting[random_.below(left)], drawn);
    if (drawn.due_poll > polls_ || !take(drawn)) continue;
    drawn = waiting.back();
    waiting.pop_back();
  }
}

// False when all slots at the target are taken.
bool Chaos::release(const Put& put) {
  auto& free_slots = free_slots_[static_cast<std::size_t>(put.peer)];
  if (free_slots.empty()) return false;
  const std::size_t slot = free_slots.back();
  free_slots.pop_back();
  const auto immediate = [&](Kind kind) {
    return immediate_of(kind << kKindShift | static_cast<std::uint32_t>(slot), me_);
  };

  const bool is_boxed = random_.below(2) == 0;
  const Header header{put.target_region, put.immediate, put.target_offset_bytes, put.bytes};
  const std::size_t place = slot_at(static_cast<std::size_t>(put.peer), slot);
  std::memcpy(out_.data() + place, &header, sizeof header);
  if (is_boxed) {
    std::memcpy(out_.data() + place + sizeof header, regions_[put.source_region].mine.data() + put.source_offset_bytes,
                put.bytes);
  }
  const Put note{put.peer,
                 out_region_,
                 place,
                 in_region_,
                 slot_at(static_cast<std::size_t>(me_), slot),
                 sizeof header + (is_boxed ? put.bytes : 0),
                 immediate(is_boxed ? kBoxed : kHeader)};
  if (is_boxed) {
    send(note);
    return true;
  }
  Put data = put;
  data.immediate = immediate(kData);
  const bool note_first = random_.below(2) == 0;
  send(note_first ? note : data);
  send(note_first ? data : note);
  return true;
}

void Chaos::send(const Put& put) {
  if (!unsent_.empty() || !inner_->try_put(put)) unsent_.push_back(put);
}

void Chaos::take_arrivals() {
  inner_arrived_.clear();
  inner_->poll(inner_arrived_);
  for (const std::uint32_t immediate : inner_arrived_) {
    const std::uint32_t exchange = immediate >> kRankBits;
    arrive(static_cast<Kind>(exchange >> kKindShift), immediate % kRanksMax, exchange % (1u << kKindShift));
  }
  const auto taken =
      std::find_if(unsent_.begin(), unsent_.end(), [&](const Put& put) { return !inner_->try_put(put); });
  unsent_.erase(unsent_.begin(), taken);
}

void Chaos::arrive(Kind kind, std::size_t sender, std::size_t slot) {
  if (kind == kCredit) {
    free_slots_[sender].push_back(slot);
    return;
  }
  if (is_ending_) return;
  if (kind != kBoxed && (half_arrived_[sender * kSlots + slot] ^= 1) != 0) return;
  landing_.push_back({sender, slot, kind == kBoxed, draw_due_poll()});
  if (kind != kBoxed || random_.below(2) == 0) return;
  // A part is there early: who looks before the count says so sees a torn write.
  const Header header = header_of(landing_.back());
  std::memcpy(target_of(header), in_.data() + slot_at(sender, slot) + sizeof header, random_.below(header.bytes));
}

Header Chaos::header_of(const Landing& landing) const {
  Header header;
  std::memcpy(&header, in_.data() + slot_at(landing.sender, landing.slot), sizeof header);
  return header;
}

std::byte* Chaos::target_of(const Header& header) const {
  const auto& mine = regions_.at(header.region).mine;
  require_inside("target", header.region, mine.size(), header.offset_bytes, header.bytes);
  return mine.data() + header.offset_bytes;
}

// False when the credit could not be sent. It goes first: a caller that has all its arrivals may never poll again, and
// the sender would wait for ever.
bool Chaos::land(const Landing& landing, std::vector<std::uint32_t>& arrived) {
  const Header header = header_of(landing);
  if (landing.is_boxed) {
    std::memcpy(target_of(header), in_.data() + slot_at(landing.sender, landing.slot) + sizeof header, header.bytes);
  }
  const auto me = static_cast<std::size_t>(me_);
  const auto slot = static_cast<std::uint32_t>(landing.slot);
  if (!inner_->try_put({static_cast<int>(landing.sender), out_region_, credit_at(landing.sender), in_region_,
                        credit_at(me), 1, immediate_of(kCredit << kKindShift | slot, me_)})) {
    return false;
  }
  arrived.push_back(header.immediate);
  return true;
}

}  // namespace

std::unique_ptr<Transport> make_chaos(std::unique_ptr<Transport> inner, Bootstrap& bootstrap,
                                      const ChaosOptions& chaos) {
  return std::make_unique<Chaos>(std::move(inner), bootstrap, chaos);
}

std::size_t late_puts(const Transport& transport) {
  const auto* chaos = dynamic_cast<const Chaos*>(&transport);
  return chaos == nullptr ? 0 : chaos->late_puts();
}

}  // namespace mrb
