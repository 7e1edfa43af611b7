#include "bench/micro.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <memory>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/units.hpp"
#include "bench/dispatcher_options.hpp"
#include "bench/micro_bench.hpp"
#include "bench/plan.hpp"
#include "bench/traffic_meter.hpp"
#include "cluster/machine.hpp"
#include "cluster/nic_counters.hpp"
#include "dispatch/routing_source.hpp"
#include "dispatch/traffic_model.hpp"

namespace mrb {

namespace {

// One word, for scripts that read columns. Without dispatch only what concerns the transport is in it.
std::string label_of(Point point, bool is_dispatch) {
  if (!is_dispatch) {
    point.workload.clear();
    std::erase_if(point.method, [](const auto& entry) {
      return !entry.first.starts_with("transport") && !entry.first.starts_with("chaos");
    });
    point.method["transport"] = point.config.transport.name;  // also where it is the only one
  }
  std::string label = point_label(point);
  std::ranges::replace(label, ' ', ':');
  return label;
}

// Collective.
bool are_on_one_host(Bootstrap& bootstrap) {
  const auto hosts = hosts_of(bootstrap);
  return std::ranges::all_of(hosts, [&](const auto& host) { return host == hosts.front(); });
}

// Rows of one dispatch and what is made of them, in f32: tokens, their sums, and the rows that come here.
std::uint64_t payload_bytes(const DispatcherOptions& options) {
  return static_cast<std::uint64_t>(options.tokens_max) * static_cast<std::uint64_t>(options.hidden) *
         static_cast<std::uint64_t>(options.top_k + 2) * sizeof(float);
}

std::string reason_to_skip_dispatch(const MicroSpec& spec, const Config& config, int ranks_per_node,
                                    std::uint64_t memory_bytes_per_rank) {
  const DispatcherOptions options = micro_dispatcher_options(spec, config, ranks_per_node);
  const DispatcherCapabilities capabilities = dispatcher_capabilities(config.dispatcher.name, options);
  if (const std::string misfit = dispatcher_misfit(capabilities, options); !misfit.empty()) return misfit;
  const std::int64_t tokens = micro_tokens(spec.sizes.back(), options);
  if (tokens > capabilities.tokens_max) {
    return fmt::format(
        "dispatcher '{}' would have room for {} tokens of a rank (dispatcher.tokens_max), and the "
        "largest size is {}",
        capabilities.name, capabilities.tokens_max, tokens);
  }
  const std::uint64_t needed = payload_bytes(options) + capabilities.buffer_bytes;
  if (memory_bytes_per_rank > 0 && needed > memory_bytes_per_rank) {
    return fmt::format("it needs about {} a rank ({} for rows; and {} for dispatch: {}), and there are {}",
                       bytes_text(needed), bytes_text(payload_bytes(options)), bytes_text(capabilities.buffer_bytes),
                       capabilities.buffer_formula, bytes_text(memory_bytes_per_rank));
  }
  return "";
}

std::string reason_to_skip(const MicroSpec& spec, const Config& config, int ranks_per_node,
                           std::uint64_t memory_bytes_per_rank) {
  if (const std::string misfit = transport_misfit(config); !misfit.empty()) return misfit;
  if (!is_of_dispatch(spec.operation)) {
    return config.ranks > 1 ? "" : "it needs at least 2 ranks: use --ranks 2, or start it under mpirun";
  }
  return reason_to_skip_dispatch(spec, config, ranks_per_node, memory_bytes_per_rank);
}

// What one rank measured at one size, as it travels to rank 0: all in one list of numbers.
struct RankSample {
  std::vector<std::int64_t> ns, cast_ns;  // by iteration
  double period_ns = 0;
  DispatchBytes bytes;
  std::uint64_t nic_bytes = 0, wrong = 0;

  std::vector<std::uint64_t> numbers() const {
    std::uint64_t period;
    std::memcpy(&period, &period_ns, sizeof period);
    std::vector<std::uint64_t> all = {period, bytes.logical, bytes.wire, bytes.wire_between_nodes, nic_bytes, wrong};
    for (const std::int64_t value : ns) all.push_back(static_cast<std::uint64_t>(value));
    for (const std::int64_t value : cast_ns) all.push_back(static_cast<std::uint64_t>(value));
    return all;
  }
};

RankSample rank_sample_from(const std::vector<std::byte>& received) {
  std::vector<std::uint64_t> all(received.size() / sizeof(std::uint64_t));
  std::memcpy(all.data(), received.data(), received.size());
  constexpr std::size_t kFront = 6;
  const std::size_t iterations = (all.size() - kFront) / 2;
  RankSample sample{.ns = {},
                    .cast_ns = {},
                    .bytes = {.logical = all[1], .wire = all[2], .wire_between_nodes = all[3]},
                    .nic_bytes = all[4],
                    .wrong = all[5]};
  std::memcpy(&sample.period_ns, all.data(), sizeof sample.period_ns);
  for (std::size_t i = 0; i < iterations; ++i) {
    sample.ns.push_back(static_cast<std::int64_t>(all[kFront + i]));
    sample.cast_ns.push_back(static_cast<std::int64_t>(all[kFront + iterations + i]));
  }
  return sample;
}

MicroSample slowest_of(const std::vector<RankSample>& ranks, int launch, int iterations) {
  MicroSample sample{.launch = launch, .slowest_ns = {}, .fastest_ns = {}, .cast_ns = {}};
  for (std::size_t i = 0; i < ranks.front().ns.size(); ++i) {
    std::int64_t slowest = 0, fastest = std::numeric_limits<std::int64_t>::max(), cast = 0;
    for (const RankSample& rank : ranks) {
      if (rank.ns[i] == MicroBench::kNotMeasured) continue;
      slowest = std::max(slowest, rank.ns[i]);
      fastest = std::min(fastest, rank.ns[i]);
      cast = std::max(cast, rank.cast_ns[i]);
    }
    sample.slowest_ns.push_back(slowest);
    sample.fastest_ns.push_back(fastest);
    sample.cast_ns.push_back(cast);
  }
  const auto raise = [&](double& value, std::uint64_t total) {
    value = std::max(value, static_cast<double>(total) / iterations);
  };
  for (const RankSample& rank : ranks) {
    sample.period_ns = std::max(sample.period_ns, rank.period_ns);
    raise(sample.logical_bytes_max, rank.bytes.logical);
    raise(sample.wire_bytes_max, rank.bytes.wire);
    raise(sample.wire_bytes_between_nodes_max, rank.bytes.wire_between_nodes);
    raise(sample.nic_bytes_max, rank.nic_bytes);
    sample.wrong += rank.wrong;
  }
  return sample;
}

// Transport, channel and operation made anew, then every size.
class MicroLaunch {
 public:
  MicroLaunch(const MicroSpec& spec, const Config& config, const LaunchContext& context, bool one_host)
      : spec_(spec),
        context_(context),
        one_host_(one_host),
        transport_(make_transport(config.transport.name, context.bootstrap, transport_options(config))),
        channel_(*transport_, context.bootstrap, config.transport.timeout_s),
        bench_(make_bench(config)) {}

  ~MicroLaunch() {
    if (std::uncaught_exceptions() > 0) return;
    try {
      bench_.reset();
      context_.bootstrap.barrier();  // nobody closes an endpoint that a peer still writes to
    } catch (const Error&) {
      // The rank that did not come is named by the next collective call.
    }
  }
  MicroLaunch(const MicroLaunch&) = delete;
  MicroLaunch& operator=(const MicroLaunch&) = delete;

  const TransportCapabilities& carrier() const { return channel_.capabilities(); }
  std::string nic_source() const { return counters().source; }

  // Collective. Complete on rank 0.
  MicroSample measure(std::size_t size_index, int launch) {
    const RankSample mine = measure_here(size_index, launch);
    const auto numbers = mine.numbers();
    std::vector<RankSample> ranks;
    for (const auto& received : context_.bootstrap.all_gather(std::as_bytes(std::span(numbers)))) {
      ranks.push_back(rank_sample_from(received));
    }
    return slowest_of(ranks, launch, spec_.iterations);
  }

 private:
  std::unique_ptr<MicroBench> make_bench(const Config& config) {
    switch (spec_.operation) {
      case MicroOperation::transport:
        return make_transport_bench(channel_, context_, spec_, config);
      case MicroOperation::alltoallv:
        return make_alltoallv_bench(channel_, context_, spec_, config);
      default:
        return make_dispatch_bench(channel_, context_, spec_, config);
    }
  }

  RankSample measure_here(std::size_t size_index, int launch) {
    RankSample sample;
    bench_->prepare(size_index);
    // Every iteration of every size and launch draws another routing, the same for all variants.
    const int iterations = spec_.warmup + spec_.iterations;
    auto index = (static_cast<std::uint64_t>(launch) * spec_.sizes.size() + size_index) *
                 static_cast<std::uint64_t>(iterations + spec_.iterations);
    NicCounters before;
    for (int i = 0; i < iterations; ++i, ++index) {
      const bool counts = i >= spec_.warmup;
      if (i == spec_.warmup) before = counters();
      bench_->before(index);
      const DispatchBytes bytes_before = bench_->bytes();
      context_.bootstrap.barrier();
      const MicroBench::Times times = bench_->run();
      if (counts) {
        sample.ns.push_back(times.total_ns);
        sample.cast_ns.push_back(times.cast_ns);
        sample.bytes += bench_->bytes() - bytes_before;
      }
      if (spec_.check && counts) sample.wrong += bench_->count_wrong();
    }
    context_.bootstrap.barrier();
    sample.nic_bytes = counters().sent_bytes - before.sent_bytes;
    sample.period_ns = bench_->run_in_a_row(index, spec_.iterations, sample.wrong);
    context_.bootstrap.barrier();
    return sample;
  }

  NicCounters counters() const { return read_nic_counters(channel_.capabilities().provider, one_host_); }

  const MicroSpec& spec_;
  const LaunchContext& context_;
  bool one_host_;
  std::unique_ptr<Transport> transport_;
  Channel channel_;
  std::unique_ptr<MicroBench> bench_;
};

class MicroRunner {
 public:
  MicroRunner(const MicroSpec& spec, const std::vector<MicroVariant>& variants, std::vector<std::string> notes,
              const LaunchContext& context, const MicroHooks& hooks)
      : context_(context),
        hooks_(hooks),
        is_first_(context.bootstrap.rank() == 0),
        one_host_(are_on_one_host(context.bootstrap)) {
    record_.spec = spec;
    record_.notes = std::move(notes);
    for (const MicroVariant& variant : variants) {
      MicroResult result{.variant = variant, .samples = std::vector<std::vector<MicroSample>>(spec.sizes.size())};
      if (!variant.reason.empty()) {
        result.status = ResultStatus::skipped;
        result.reason = variant.reason;
      }
      record_.results.push_back(std::move(result));
    }
    if (!is_of_dispatch(spec.operation)) return;
    const DispatcherOptions options = micro_dispatcher_options(spec, variants.front().config, context.ranks_per_node);
    for (const std::uint64_t size : spec.sizes) record_.tokens.push_back(micro_tokens(size, options));
  }

  MicroRecord run() {
    for (int launch = 0; launch < record_.spec.launches && !interrupted_; ++launch) {
      const auto count = static_cast<int>(record_.results.size());
      for (int i = 0; i < count && !interrupted_; ++i) {
        launch_one(record_.results[static_cast<std::size_t>(launch % 2 == 0 ? i : count - 1 - i)], launch);
      }
      if (!interrupted_) ++record_.launches_done;
      report(fmt::format("launch {:>3} of {}", launch + 1, record_.spec.launches));
    }
    int failed = 0, done = 0;
    for (const MicroResult& result : record_.results) {
      failed += result.status == ResultStatus::failed ? 1 : 0;
      done += result.status == ResultStatus::done ? 1 : 0;
    }
    record_.status = interrupted_ ? "interrupted" : done == 0 ? "failed" : failed > 0 ? "partial" : "ok";
    if (is_first_) hooks_.save(record_);
    return std::move(record_);
  }

 private:
  void launch_one(MicroResult& result, int launch) {
    if (result.status == ResultStatus::skipped || result.status == ResultStatus::failed) return;
    const auto made = set_up(result);
    if (!made) return;
    result.transport = made->carrier().name;
    result.provider = made->carrier().provider;
    result.nic_source = made->nic_source();
    for (std::size_t size = 0; size < record_.spec.sizes.size(); ++size) {
      interrupted_ = context_.bootstrap.max(hooks_.interrupted() ? 1 : 0) > 0;
      if (interrupted_) return;
      MicroSample sample = made->measure(size, launch);
      if (is_first_) result.samples[size].push_back(std::move(sample));
    }
    result.status = ResultStatus::done;
  }

  std::unique_ptr<MicroLaunch> set_up(MicroResult& result) {
    try {
      return std::make_unique<MicroLaunch>(record_.spec, result.variant.config, context_, one_host_);
    } catch (const Error& error) {
      // Nobody answers a rank that has stopped: that is the end, not one variant's failure.
      if (error.kind() == ErrorKind::timeout || error.kind() == ErrorKind::internal) throw;
      result.status = ResultStatus::failed;
      result.reason = error.what();
      report(fmt::format("{}: failed: {}", result.variant.label, error.what()));
      return nullptr;
    }
  }

  void report(const std::string& line) {
    if (!is_first_) return;
    hooks_.progress(line);
    hooks_.save(record_);
  }

  LaunchContext context_;
  const MicroHooks& hooks_;
  bool is_first_;
  bool one_host_;
  bool interrupted_ = false;
  MicroRecord record_;
};

std::vector<double> in_us(const std::vector<std::int64_t>& ns) {
  std::vector<double> us;
  for (const std::int64_t value : ns) us.push_back(ns_to_us(value));
  std::sort(us.begin(), us.end());
  return us;
}

double median_over(const std::vector<MicroSample>& launches, const std::function<double(const MicroSample&)>& figure) {
  std::vector<double> values;
  for (const MicroSample& launch : launches) values.push_back(figure(launch));
  return summarize(values).median;
}

double time_to_compare(const MicroSample& sample) {
  return sample.period_ns > 0 ? sample.period_ns / 1e3 : quantile(in_us(sample.slowest_ns), 0.5);
}

}  // namespace

bool is_of_dispatch(MicroOperation operation) {
  return operation != MicroOperation::transport && operation != MicroOperation::alltoallv;
}

std::string micro_operation_text(MicroOperation operation) {
  switch (operation) {
    case MicroOperation::dispatch:
      return "dispatch";
    case MicroOperation::combine:
      return "combine";
    case MicroOperation::pair:
      return "pair";
    case MicroOperation::transport:
      return "transport";
    case MicroOperation::alltoallv:
      break;
  }
  return "alltoallv";
}

std::vector<MicroVariant> micro_variants(const Settings& settings, const MicroSpec& spec, const LaunchContext& context,
                                         std::uint64_t memory_bytes_per_rank) {
  std::vector<MicroVariant> variants;
  std::set<std::string> seen;
  bool has_baseline = false;
  for (const Point& point : expand(settings)) {
    MicroVariant variant{.label = label_of(point, is_of_dispatch(spec.operation)), .config = point.config};
    if (!seen.insert(variant.label).second) continue;  // they differ in what has no meaning here
    variant.reason = reason_to_skip(spec, variant.config, context.ranks_per_node, memory_bytes_per_rank);
    variant.is_baseline = point.is_baseline && variant.reason.empty() && !has_baseline;
    has_baseline = has_baseline || variant.is_baseline;
    variants.push_back(std::move(variant));
  }
  for (MicroVariant& variant : variants) {
    if (has_baseline || !variant.reason.empty()) continue;
    variant.is_baseline = has_baseline = true;
  }
  if (has_baseline) return variants;
  std::string reasons;
  for (const MicroVariant& variant : variants) reasons += fmt::format("\n  {}: {}", variant.label, variant.reason);
  throw Error(ErrorKind::config, "nothing of this can run here:" + reasons,
              "change what the reasons name; moe-rl-bench list shows what this build has");
}

MicroRecord run_micro(const MicroSpec& spec, const std::vector<MicroVariant>& variants, std::vector<std::string> notes,
                      const LaunchContext& context, const MicroHooks& hooks) {
  return MicroRunner(spec, variants, std::move(notes), context, hooks).run();
}

int exit_code_of(const MicroRecord& record) {
  for (const MicroResult& result : record.results) {
    for (const auto& launches : result.samples) {
      for (const MicroSample& sample : launches) {
        if (sample.wrong > 0) return static_cast<int>(ErrorKind::wrong_result);
      }
    }
  }
  if (record.status == "failed") return static_cast<int>(ErrorKind::environment);
  return record.status == "partial" ? static_cast<int>(ErrorKind::partial) : 0;
}

MicroFigures micro_figures(const std::vector<MicroSample>& launches) {
  const auto slowest = [&](double q) {
    return median_over(launches, [q](const MicroSample& s) { return quantile(in_us(s.slowest_ns), q); });
  };
  const auto median = [&](auto member) {
    return median_over(launches, [member](const MicroSample& s) { return quantile(in_us(s.*member), 0.5); });
  };
  const auto plain = [&](double MicroSample::*member) {
    return median_over(launches, [member](const MicroSample& s) { return s.*member; });
  };
  MicroFigures figures{.p50_us = slowest(0.5),
                       .p95_us = slowest(0.95),
                       .p99_us = slowest(0.99),
                       .fastest_us = median(&MicroSample::fastest_ns),
                       .cast_us = median(&MicroSample::cast_ns),
                       .period_us = plain(&MicroSample::period_ns) / 1e3,
                       .logical_bytes = plain(&MicroSample::logical_bytes_max),
                       .wire_bytes = plain(&MicroSample::wire_bytes_max),
                       .wire_bytes_between_nodes = plain(&MicroSample::wire_bytes_between_nodes_max),
                       .nic_bytes = plain(&MicroSample::nic_bytes_max)};
  figures.spread_ratio = figures.fastest_us > 0 ? figures.p50_us / figures.fastest_us : 0;
  figures.launch_min_us = std::numeric_limits<double>::max();
  for (const MicroSample& launch : launches) {
    const double p50_us = quantile(in_us(launch.slowest_ns), 0.5);
    figures.launch_min_us = std::min(figures.launch_min_us, p50_us);
    figures.launch_max_us = std::max(figures.launch_max_us, p50_us);
    figures.wrong += launch.wrong;
  }
  return figures;
}

RatioEstimate micro_ratio(const std::vector<MicroSample>& variant, const std::vector<MicroSample>& baseline) {
  std::vector<double> log_ratios;
  for (std::size_t i = 0; i < std::min(variant.size(), baseline.size()); ++i) {
    log_ratios.push_back(std::log(time_to_compare(baseline[i]) / time_to_compare(variant[i])));
  }
  return estimate_ratio(log_ratios);
}

}  // namespace mrb
