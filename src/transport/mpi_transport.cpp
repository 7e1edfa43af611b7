// A put over MPI's two-sided messages. The sender sends a header; a short put carries its bytes in it, a long
// one is followed by a message that the target receives straight into its region:
//
//   sender  --[header, bytes]-->  target: copies the bytes, reports the immediate
//   sender  --[header]--------->  target: posts a receive at region + offset
//           --[payload]-------->  target: reports the immediate once it has arrived
//
// MPI keeps the order of messages between two ranks with the same tag, so the payloads of one sender meet
// their receives in the order of its headers.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sched.h>

#include <array>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <set>
#include <string>

#include "base/clock.hpp"
#include "base/units.hpp"
#include "cluster/mpi_call.hpp"
#include "transport/bounds.hpp"
#include "transport/mpi_requests.hpp"
#include "transport/transport.hpp"

namespace mrb {

namespace {

enum MessageTag : int { kHeaderTag = 1, kPayloadTag = 2 };

struct Header {
  RegionId region = 0;
  std::uint32_t immediate = 0;
  std::uint64_t offset_bytes = 0;
  std::uint64_t bytes = 0;
};

// With its header a short put just fits the 4 KiB that shared memory in Open MPI sends at once, without
// asking the target first.
constexpr std::size_t kInlineBytesMax = 3968;

struct Message {
  Header header;
  std::array<std::byte, kInlineBytesMax> payload;
};

// In flight, over all peers: 2 MiB of messages, and payloads enough to keep a pipe full with pieces of 64
// KiB.
constexpr std::size_t kHeadersMax = 512;
constexpr std::size_t kPayloadsMax = 128;
// Headers that can arrive between two polls without MPI having to store them: half a MiB.
constexpr std::size_t kReceives = 128;
// Counts in MPI are ints. 1 GiB keeps well away from their limit.
constexpr std::size_t kPutBytesMax = std::size_t{1} << 30;
constexpr double kStartTimeout_s = 60;
// How long the end waits for puts that no target takes any more.
constexpr double kEndTimeout_s = 5;

// The parts of Open MPI that carry messages are shared objects that stay loaded when they were selected, and
// are unloaded otherwise. That is as close as one comes to being told; elsewhere all there is to say is the
// interface.
std::string carriers() {
  std::set<std::string> loaded;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    for (const std::string_view kind : {"mca_pml_", "mca_mtl_", "mca_btl_"}) {
      const std::size_t at = line.find(kind);
      const std::size_t end = line.find(".so", at);
      if (at != std::string::npos && end != std::string::npos) loaded.insert(line.substr(at + 4, end - at - 4));
    }
  }
  return loaded.empty() ? "MPI point-to-point" : fmt::format("{}", fmt::join(loaded, ", "));
}

// What MPI reads and writes on its own time.
struct Messages {
  std::vector<Message> out = std::vector<Message>(kHeadersMax);
  std::vector<Message> in = std::vector<Message>(kReceives);
};

class MpiTransport final : public Transport {
 public:
  explicit MpiTransport(Bootstrap& bootstrap);
  ~MpiTransport() override;

  const TransportCapabilities& capabilities() const override { return capabilities_; }
  RegionId expose(std::span<std::byte> memory) override;
  void withdraw(RegionId region) override { regions_.at(region).mine = {}; }
  bool try_put(const Put& put) override;
  void poll(std::vector<std::uint32_t>& arrived) override;
  std::size_t pending_puts() const override { return payloads_sending_.size(); }
  std::string state() const override;

 private:
  struct Region {
    std::span<std::byte> mine;
    std::vector<std::uint64_t> bytes_of;  // by rank
  };

  MPI_Request send(const void* bytes, std::size_t count, int peer, MessageTag tag);
  void open_communicator();
  void post_receive(std::size_t slot);
  void take_header(const Message& message, int sender, std::vector<std::uint32_t>& arrived);
  bool let_go();

  Bootstrap& bootstrap_;
  TransportCapabilities capabilities_;
  MPI_Comm ranks_ = MPI_COMM_NULL;
  std::vector<Region> regions_;
  std::unique_ptr<Messages> messages_ = std::make_unique<Messages>();

  std::vector<std::uint32_t> free_slots_;  // of messages_->out
  MpiRequests headers_sending_;            // label: slot
  MpiRequests payloads_sending_;           // label: not used

  std::array<MPI_Request, kReceives> receives_;  // into messages_->in; a ring, in the order in which they match
  std::size_t next_receive_ = 0;
  MpiRequests payloads_receiving_;  // label: immediate
};

MpiTransport::MpiTransport(Bootstrap& bootstrap) : bootstrap_(bootstrap) {
  int started = 0;
  mpi_call(MPI_Initialized(&started), "MPI_Initialized");
  if (!started) {
    throw Error(ErrorKind::config, "transport 'mpi' needs ranks that were started by mpirun",
                "start with --ranks N or under mpirun, or use transport: loopback");
  }
  open_communicator();
  mpi_call(MPI_Comm_set_errhandler(ranks_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  capabilities_ = {
      .name = "mpi", .provider = carriers(), .loaded_library = mpi_library_name(), .put_bytes_max = kPutBytesMax};
  for (std::uint32_t slot = 0; slot < kHeadersMax; ++slot) free_slots_.push_back(slot);
  for (std::size_t slot = 0; slot < kReceives; ++slot) post_receive(slot);
}

MpiTransport::~MpiTransport() {
  int ended = 0;
  MPI_Finalized(&ended);
  if (ended || !let_go()) {
    // A peer has stopped in the middle of a message. The memory stays for MPI, which may yet use it.
    (void)messages_.release();
    return;
  }
  MPI_Comm_free(&ranks_);
}

// All ranks of MPI, or those of the bootstrap when it is a part of them.
void MpiTransport::open_communicator() {
  int mine = 0, all = 0;
  mpi_call(MPI_Comm_rank(MPI_COMM_WORLD, &mine), "MPI_Comm_rank");
  mpi_call(MPI_Comm_size(MPI_COMM_WORLD, &all), "MPI_Comm_size");
  std::vector<int> members;
  for (const auto& theirs : bootstrap_.all_gather(std::as_bytes(std::span(&mine, 1)))) {
    std::memcpy(&members.emplace_back(), theirs.data(), sizeof mine);
  }
  if (static_cast<int>(members.size()) == all) {
    MPI_Request request = MPI_REQUEST_NULL;
    mpi_call(MPI_Comm_idup(MPI_COMM_WORLD, &ranks_, &request), "MPI_Comm_idup");
    mpi_wait(request, kStartTimeout_s, "MPI_Comm_idup");
    return;
  }
  MPI_Group world = MPI_GROUP_NULL, part = MPI_GROUP_NULL;
  mpi_call(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
  mpi_call(MPI_Group_incl(world, static_cast<int>(members.size()), members.data(), &part), "MPI_Group_incl");
  // It has no deadline, and needs none: all members have just been heard of.
  mpi_call(MPI_Comm_create_group(MPI_COMM_WORLD, part, 0, &ranks_), "MPI_Comm_create_group");
  MPI_Group_free(&part);
  MPI_Group_free(&world);
}

// Ends all requests. False when some do not end; a rank that is failing anyhow does not wait for them.
bool MpiTransport::let_go() {
  const std::int64_t limit_ns = std::uncaught_exceptions() > 0 ? 0 : s_to_ns(kEndTimeout_s);
  const std::int64_t deadline_ns = steady_now_ns() + limit_ns;
  try {
    for (MPI_Request& request : receives_) mpi_call(MPI_Cancel(&request), "MPI_Cancel");
    payloads_receiving_.cancel();
    while (true) {
      headers_sending_.take_done();
      payloads_sending_.take_done();
      payloads_receiving_.take_done();
      int received = 0;
      mpi_call(MPI_Testall(kReceives, receives_.data(), &received, MPI_STATUSES_IGNORE), "MPI_Testall");
      if (received && headers_sending_.size() + payloads_sending_.size() + payloads_receiving_.size() == 0) return true;
      if (steady_now_ns() >= deadline_ns) return false;
      sched_yield();
    }
  } catch (const Error&) {
    return false;
  }
}

RegionId MpiTransport::expose(std::span<std::byte> memory) {
  const std::uint64_t bytes = memory.size();
  Region region{memory, {}};
  for (const auto& theirs : bootstrap_.all_gather(std::as_bytes(std::span(&bytes, 1)))) {
    std::memcpy(&region.bytes_of.emplace_back(), theirs.data(), sizeof bytes);
  }
  regions_.push_back(std::move(region));
  bootstrap_.barrier();  // a put must not come before its target knows the region
  return static_cast<RegionId>(regions_.size() - 1);
}

bool MpiTransport::try_put(const Put& put) {
  const Region& source = regions_.at(put.source_region);
  require_inside("source", put.source_region, source.mine.size(), put.source_offset_bytes, put.bytes);
  const std::size_t target_bytes = regions_.at(put.target_region).bytes_of.at(static_cast<std::size_t>(put.peer));
  require_inside("target", put.target_region, target_bytes, put.target_offset_bytes, put.bytes);
  const bool is_long = put.bytes > kInlineBytesMax;
  if (free_slots_.empty() || (is_long && payloads_sending_.size() == kPayloadsMax)) return false;

  const std::uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  Message& message = messages_->out[slot];
  message.header = {put.target_region, put.immediate, put.target_offset_bytes, put.bytes};
  const std::byte* bytes = source.mine.data() + put.source_offset_bytes;
  if (!is_long) std::memcpy(message.payload.data(), bytes, put.bytes);
  headers_sending_.add(send(&message, sizeof(Header) + (is_long ? 0 : put.bytes), put.peer, kHeaderTag), slot);
  if (is_long) payloads_sending_.add(send(bytes, put.bytes, put.peer, kPayloadTag), 0);
  return true;
}

std::string MpiTransport::state() const {
  return fmt::format("{} of {} headers and {} of {} payloads on their way out, {} payloads on their way in",
                     headers_sending_.size(), kHeadersMax, payloads_sending_.size(), kPayloadsMax,
                     payloads_receiving_.size());
}

void MpiTransport::poll(std::vector<std::uint32_t>& arrived) {
  for (std::size_t taken = 0; taken < kReceives; ++taken) {
    int done = 0;
    MPI_Status status;
    mpi_call(MPI_Test(&receives_[next_receive_], &done, &status), "MPI_Test");
    if (!done) break;
    take_header(messages_->in[next_receive_], status.MPI_SOURCE, arrived);
    post_receive(next_receive_);
    next_receive_ = (next_receive_ + 1) % kReceives;
  }
  for (const std::uint32_t immediate : payloads_receiving_.take_done()) arrived.push_back(immediate);
  for (const std::uint32_t slot : headers_sending_.take_done()) free_slots_.push_back(slot);
  payloads_sending_.take_done();
}

void MpiTransport::take_header(const Message& message, int sender, std::vector<std::uint32_t>& arrived) {
  const Header& header = message.header;
  const std::span<std::byte> memory = regions_.at(header.region).mine;
  require_inside("target", header.region, memory.size(), header.offset_bytes, header.bytes);
  std::byte* target = memory.data() + header.offset_bytes;
  if (header.bytes <= kInlineBytesMax) {
    std::memcpy(target, message.payload.data(), header.bytes);
    arrived.push_back(header.immediate);
    return;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  mpi_call(MPI_Irecv(target, static_cast<int>(header.bytes), MPI_BYTE, sender, kPayloadTag, ranks_, &request),
           "MPI_Irecv");
  payloads_receiving_.add(request, header.immediate);
}

MPI_Request MpiTransport::send(const void* bytes, std::size_t count, int peer, MessageTag tag) {
  MPI_Request request = MPI_REQUEST_NULL;
  mpi_call(MPI_Isend(bytes, static_cast<int>(count), MPI_BYTE, peer, tag, ranks_, &request), "MPI_Isend");
  return request;
}

void MpiTransport::post_receive(std::size_t slot) {
  mpi_call(
      MPI_Irecv(&messages_->in[slot], sizeof(Message), MPI_BYTE, MPI_ANY_SOURCE, kHeaderTag, ranks_, &receives_[slot]),
      "MPI_Irecv");
}

}  // namespace

std::unique_ptr<Transport> make_mpi_transport(Bootstrap& bootstrap, const TransportOptions&) {
  return std::make_unique<MpiTransport>(bootstrap);
}

}  // namespace mrb
