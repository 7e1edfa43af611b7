#include "cluster/nic_counters.hpp"

#include <filesystem>
#include <fstream>

#include "support/catch.hpp"
#include "support/temporary_file.hpp"

using namespace mrb;
using namespace mrb::test;

namespace {

void write(const std::string& file, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(file).parent_path());
  std::ofstream(file) << text;
}

}  // namespace

TEST_CASE("the counters are those of what carries the bytes", "[cluster]") {
  const TemporaryFolder root;
  const std::string net = root.path() + "/sys/class/net/", rdma = root.path() + "/sys/class/infiniband/";
  write(net + "lo/statistics/tx_bytes", "1000\n");
  write(net + "eth0/statistics/tx_bytes", "20\n");
  write(net + "eth1/statistics/tx_bytes", "3\n");
  write(net + "eth2/statistics/tx_bytes", "5000\n");
  write(net + "eth2/master", "");  // of a bond, which counts the same bytes
  write(rdma + "rdmap1s6/ports/1/hw_counters/tx_bytes", "7\n");
  write(rdma + "rdmap0s6/ports/1/hw_counters/tx_bytes", "40\n");
  write(rdma + "mlx5_0/ports/1/hw_counters/other", "9\n");

  const NicCounters here = read_nic_counters("tcp;ofi_rxm", true, root.path());
  CHECK(here.source == "tx_bytes of lo");
  CHECK(here.sent_bytes == 1000);
  const NicCounters there = read_nic_counters("tcp;ofi_rxm", false, root.path());
  CHECK(there.source == "tx_bytes of eth0, eth1");
  CHECK(there.sent_bytes == 23);
  const NicCounters efa = read_nic_counters("efa, fabric efa-direct", false, root.path());
  CHECK(efa.source == "tx_bytes of rdmap0s6, rdmap1s6");
  CHECK(efa.sent_bytes == 47);
  CHECK(read_nic_counters("shm", true, root.path()).source.empty());
  CHECK(read_nic_counters("efa", false, root.path() + "/nothing").source.empty());
}
