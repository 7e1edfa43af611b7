#include "grpo/weight_mail.hpp"

#include <cstring>
#include <mutex>

#include "support/catch.hpp"
#include "support/threaded_ranks.hpp"
#include "transport/transport.hpp"

using namespace mrb;

namespace {

Config sides(int train_ranks, int rollout_ranks, int expert_parallel) {
  Config config;
  config.ranks = train_ranks + rollout_ranks;
  config.schedule.name = "async";
  config.schedule.rollout_ranks = rollout_ranks;
  config.rollout.expert_parallel = expert_parallel;
  config.rollout.bucket_bytes = 4096;
  config.model.layers = 2;
  config.model.hidden = 16;
  config.model.experts = 8;
  config.model.expert_ff = 12;
  return config;
}

// A number for every element, by tensor and place in it, experts counted over all ranks; and by version.
std::vector<float> numbered(const Config& config, int rank, int ranks, int version) {
  const int local = config.model.experts / ranks;
  const ParameterLayout layout = lay_out_parameters(config.model, local);
  std::vector<float> values(static_cast<std::size_t>(layout.count));
  for (std::size_t tensor = 0; tensor < layout.tensors.size(); ++tensor) {
    const ParameterTensor& entry = layout.tensors[tensor];
    const std::int64_t size = entry.rows * entry.columns;
    const std::int64_t first = entry.is_expert ? size / local * local * rank : 0;
    for (std::int64_t i = 0; i < size; ++i) {
      values[static_cast<std::size_t>(entry.offset + i)] =
          static_cast<float>(version * 1000003 + static_cast<int>(tensor) * 65537 + static_cast<int>(first + i));
    }
  }
  return values;
}

}  // namespace

TEST_CASE("what ranks of one copy send covers the receiver's weights exactly once", "[grpo]") {
  const ModelShape shape = sides(1, 1, 1).model;
  for (const int from : {1, 2, 4, 8}) {
    for (const int to : {1, 2, 4, 8}) {
      for (int rank = 0; rank < to; ++rank) {
        INFO(from << " ranks to rank " << rank << " of " << to);
        std::vector<int> covered(static_cast<std::size_t>(lay_out_parameters(shape, shape.experts / to).count));
        for (int sender = 0; sender < from; ++sender) {
          for (const WeightRange& range : weights_between(shape, {sender, from}, {rank, to})) {
            for (std::int64_t i = 0; i < range.count; ++i) ++covered[static_cast<std::size_t>(range.to + i)];
          }
        }
        CHECK(std::ranges::all_of(covered, [](int times) { return times == 1; }));
      }
    }
  }
}

TEST_CASE("weights are the same bits on both sides for every pair of expert-parallel degrees", "[grpo]") {
  for (const int train_ranks : {1, 2, 4}) {
    for (const int expert_parallel : {1, 2, 4}) {
      INFO(train_ranks << " ranks train, " << expert_parallel << " share the experts to generate");
      const Config config = sides(train_ranks, 4, expert_parallel);
      const Roles roles = roles_of(config);
      std::mutex mutex;
      int wrong = 0, checked = 0;
      test::run_ranks(config.ranks, [&](Bootstrap& bootstrap) {
        const auto transport = make_transport("loopback", bootstrap, {.chaos = {.seed = 7}});
        Channel channel(*transport, bootstrap, 30);
        WeightMail mail(config, roles, channel);
        for (int version = 1; version <= 3; ++version) {
          if (roles.trains(bootstrap.rank())) {
            mail.send(version, numbered(config, bootstrap.rank(), train_ranks, version), true);
            while (mail.versions_taken() < version) continue;
            continue;
          }
          while (mail.versions_arrived() < version) continue;
          const int rank = roles.rollout_rank(bootstrap.rank()) % expert_parallel;
          auto expected = numbered(config, rank, expert_parallel, version);
          std::vector<float> got(expected.size());
          const bool right = mail.take(got) == version && got == expected;
          const std::lock_guard lock(mutex);
          wrong += right ? 0 : 1;
          ++checked;
        }
        channel.wait_sent("the end");
        bootstrap.barrier();
      });
      CHECK(wrong == 0);
      CHECK(checked == 12);
    }
  }
}
