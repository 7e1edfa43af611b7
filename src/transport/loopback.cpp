// Ranks that share one process: a put is a copy. One rank is the usual case (`solo`); tests run several as
// threads.
#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <mutex>

#include "transport/bounds.hpp"
#include "transport/transport.hpp"

namespace mrb {

namespace {

// What the other ranks see of one rank, for as long as one of them is there.
struct Mailbox {
  std::mutex mutex;
  bool is_closed = false;                     // its rank has ended: puts are no longer taken
  std::vector<std::span<std::byte>> regions;  // by id; empty after withdraw
  std::vector<std::uint32_t> immediates;
};

// How a rank tells the others where its mailbox is. Only valid within one process, hence the process id.
struct Address {
  std::int64_t process = 0;
  const std::shared_ptr<Mailbox>* mailbox = nullptr;
};

class Loopback final : public Transport {
 public:
  explicit Loopback(Bootstrap& bootstrap) : bootstrap_(bootstrap) {
    capabilities_.name = "loopback";
    capabilities_.provider = "memcpy";
    capabilities_.loaded_library = "none";
    capabilities_.put_bytes_max = std::size_t{1} << 40;
    const Address mine{getpid(), &mine_};
    const auto gathered = bootstrap.all_gather(std::as_bytes(std::span(&mine, 1)));
    for (const auto& bytes : gathered) {
      Address address;
      std::memcpy(&address, bytes.data(), sizeof address);
      if (address.process != mine.process) {
        throw Error(ErrorKind::config,
                    fmt::format("transport 'loopback' cannot reach {} ranks in other processes", gathered.size() - 1),
                    "use transport: mpi or libfabric, or ranks: 1");
      }
      peers_.push_back(*address.mailbox);
    }
    bootstrap.barrier();  // nobody ends before all have it
  }

  ~Loopback() override {
    const std::lock_guard lock(mine_->mutex);
    mine_->is_closed = true;
    mine_->regions.clear();
  }
  Loopback(const Loopback&) = delete;
  Loopback& operator=(const Loopback&) = delete;

  const TransportCapabilities& capabilities() const override { return capabilities_; }

  RegionId expose(std::span<std::byte> memory) override {
    RegionId id;
    {
      const std::lock_guard lock(mine_->mutex);
      id = static_cast<RegionId>(mine_->regions.size());
      mine_->regions.push_back(memory);
    }
    bootstrap_.barrier();  // nobody writes before all have exposed
    return id;
  }

  void withdraw(RegionId region) override {
    const std::lock_guard lock(mine_->mutex);
    mine_->regions.at(region) = {};
  }

  bool try_put(const Put& put) override {
    require_immediate(put.immediate, bootstrap_.rank());
    const std::byte* source = nullptr;
    {
      const std::lock_guard lock(mine_->mutex);
      source = inside(mine_->regions, put.source_region, put.source_offset_bytes, put.bytes, "source");
    }
    Mailbox& peer = *peers_.at(static_cast<std::size_t>(put.peer));
    const std::lock_guard lock(peer.mutex);
    if (peer.is_closed) return false;
    std::memcpy(inside(peer.regions, put.target_region, put.target_offset_bytes, put.bytes, "target"), source,
                put.bytes);
    peer.immediates.push_back(put.immediate);
    return true;
  }

  void poll(std::vector<std::uint32_t>& arrived) override {
    const std::lock_guard lock(mine_->mutex);
    arrived.insert(arrived.end(), mine_->immediates.begin(), mine_->immediates.end());
    mine_->immediates.clear();
  }

  std::size_t pending_puts() const override { return 0; }

  std::string state() const override {
    const std::lock_guard lock(mine_->mutex);
    return fmt::format("{} puts have arrived here and were not polled", mine_->immediates.size());
  }

 private:
  static std::byte* inside(const std::vector<std::span<std::byte>>& regions, RegionId region, std::size_t offset,
                           std::size_t bytes, std::string_view side) {
    require_inside(side, region, region < regions.size() ? regions[region].size() : 0, offset, bytes);
    return regions[region].data() + offset;
  }

  Bootstrap& bootstrap_;
  TransportCapabilities capabilities_;
  std::shared_ptr<Mailbox> mine_ = std::make_shared<Mailbox>();
  std::vector<std::shared_ptr<Mailbox>> peers_;
};

}  // namespace

std::unique_ptr<Transport> make_loopback_transport(Bootstrap& bootstrap, const TransportOptions&) {
  return std::make_unique<Loopback>(bootstrap);
}

}  // namespace mrb
