#include "bench/traffic_meter.hpp"

#include <chrono>
#include <thread>

#include "base/aligned_buffer.hpp"
#include "support/catch.hpp"
#include "support/threaded_ranks.hpp"

using namespace mrb;
using namespace mrb::test;

TEST_CASE("how late each rank was is added up over the ranks that waited for it", "[bench]") {
  TrafficSample sample;
  run_ranks(3, [&](Bootstrap& bootstrap) {
    const auto transport = make_transport("loopback", bootstrap, {});
    Channel channel(*transport, bootstrap, 10);
    AlignedBuffer memory(64);
    const RegionId region = channel.expose(memory.bytes());
    TrafficMeter meter(bootstrap, channel.capabilities(), {{channel, {0, 1, 2}}});
    const Tag tag = channel.next_tag();
    if (bootstrap.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      for (const int peer : {0, 2}) channel.put(peer, {region, 0}, {region, 0}, 8, tag, "dispatch");
    } else {
      channel.wait_arrivals(tag, std::vector<std::size_t>{0, 8, 0}, "dispatch");
    }
    const TrafficSample mine = meter.stop();
    if (bootstrap.rank() == 0) sample = mine;
  });
  CHECK(sample.late_ns[1] > 0);
  CHECK(sample.late_ns[0] == 0);
  CHECK(sample.late_ns[2] == 0);
  CHECK(sample.nic_source.empty());  // memory passes no interface
  CHECK(sample.handed_bytes == 0);
}

TEST_CASE("bytes that EFA's counters do not know are doubted", "[bench]") {
  LaunchSample launch{.provider = "efa", .traffic = {"tx_bytes of rdmap0s6", 1000 << 20, 1000 << 20, {}}};
  CHECK(efa_doubt(launch) == "");
  launch.traffic.nic_bytes = 100 << 20;
  CHECK_THAT(efa_doubt(launch),
             contains("1000.0 MiB went to other hosts") && contains("100.0 MiB (tx_bytes of rdmap0s6)"));
  launch.traffic = {"", 0, 1000, {}};
  CHECK_THAT(efa_doubt(launch), contains("there are no counters"));
  launch.provider = "tcp;ofi_rxm";  // sockets are what was asked for
  CHECK(efa_doubt(launch) == "");
}
