#include "report/micro_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.hpp"
#include "report/config_json.hpp"
#include "report/tuned.hpp"
#include "stats/modes.hpp"

namespace mrb {

namespace {

using Json = nlohmann::ordered_json;

std::string carried_by(const MicroResult& result) {
  return result.provider.empty() ? result.transport : fmt::format("{} ({})", result.transport, result.provider);
}

std::string type_of(const MicroRecord& record, const Config& config) {
  if (!is_of_dispatch(record.spec.operation)) return "int8";
  return record.spec.operation == MicroOperation::combine ? config.dispatcher.combine_dtype
                                                          : config.dispatcher.dispatch_dtype;
}

std::string header(const RunInfo& info, const MicroRecord& record) {
  const MicroSpec& spec = record.spec;
  const Config& config = record.results.front().variant.config;
  std::string text =
      fmt::format("# moe-rl-bench {} ({}) micro {} · {} on {} ({}) · seed {}\n", info.build.version, info.build.commit,
                  micro_operation_text(spec.operation), counted(info.ranks.size(), "rank"),
                  counted(info.nodes.size(), "node"), info.nodes.front().host, config.seed);
  if (is_of_dispatch(spec.operation)) {
    text += fmt::format(
        "# hidden {} · {} experts · top {} · routing {}, another one in every iteration · {} routes · "
        "wire {} forth, {} back\n",
        config.model.hidden, config.model.experts, config.model.top_k, spec.routing,
        spec.routes == RouteUse::fresh ? "fresh" : "cached", config.dispatcher.dispatch_dtype,
        config.dispatcher.combine_dtype);
  } else if (spec.operation == MicroOperation::transport) {
    text +=
        fmt::format("# {} of ranks at a time · an iteration: {} times there and back · stream: windows of {} puts\n",
                    counted(info.ranks.size() / 2, "pair"), spec.repeats, spec.window);
  } else {
    text += fmt::format("# every rank to every rank · lengths: size x (1 ± {}) · an iteration: {} in a row\n",
                        spec.imbalance, spec.repeats);
  }
  text +=
      fmt::format("# {} of {} launches, each {} warm-up and {} counted iterations of every size · {} · status: {}\n",
                  record.launches_done, spec.launches, spec.warmup, spec.iterations,
                  spec.check ? "every counted iteration is checked, outside of the time" : "nothing is checked (-c 0)",
                  record.status);
  for (const std::string& note : record.notes) text += "# note: " + note + "\n";
  return text;
}

std::string meaning(const MicroRecord& record) {
  std::string text =
      "#\n# time: of the slowest rank, median iteration; p95 and p99 likewise; each the median over launches\n";
  text += "# launches: smallest and largest median of a launch; fastest: median of the fastest rank\n";
  switch (record.spec.operation) {
    case MicroOperation::transport:
      text += "# time: one way, half of there and back; algbw: size / time; busbw: size / period\n";
      text += "# period: of a put in the stream, until the target has all of it\n";
      break;
    case MicroOperation::alltoallv:
      text += "# size: from each rank to each peer; algbw, busbw: bytes that the busiest rank sends to others / time\n";
      break;
    default:
      text += "# size: of one rank's tokens as they cross the wire\n";
      text += "# algbw: logical bytes of the busiest rank (copies that leave it, from the routing) / time\n";
      text += "# busbw: wire bytes of the busiest rank (counted as handed to the transport) / time\n";
      text += "# cast: the part of the time in which rows are rounded\n";
      if (record.spec.operation == MicroOperation::pair) {
        text += fmt::format("# period: of {} pairs one after the other, without a barrier\n", record.spec.iterations);
      }
  }
  text += "# nic: bytes that the busiest node sent in an iteration, by its own counters; barriers are in it\n";
  return text;
}

double gbyte_per_s_of(double bytes, double us) {
  return us > 0 ? bytes / us / 1e3 : 0;
}

struct Bandwidths {
  double alg = 0, bus = 0;
};

Bandwidths bandwidths(const MicroRecord& record, const MicroFigures& figures, std::uint64_t size) {
  const auto bytes = static_cast<double>(size);
  if (record.spec.operation == MicroOperation::transport) {
    return {gbyte_per_s_of(bytes, figures.p50_us), gbyte_per_s_of(bytes, figures.period_us)};
  }
  const double repeats = is_of_dispatch(record.spec.operation) ? 1 : record.spec.repeats;
  return {gbyte_per_s_of(figures.logical_bytes / repeats, figures.p50_us),
          gbyte_per_s_of(figures.wire_bytes / repeats, figures.p50_us)};
}

std::uint64_t count_of(const MicroRecord& record, std::size_t size, const Config& config) {
  if (record.tokens.empty()) return record.spec.sizes[size];
  return static_cast<std::uint64_t>(record.tokens[size]) * static_cast<std::uint64_t>(config.model.hidden);
}

struct Column {
  const char* name;
  const char* unit;
  int width;
};

// The first nine are nccl-tests' own.
constexpr Column kColumns[] = {
    {"size", "(B)", 11},     {"count", "(elements)", 11}, {"type", "", 9},         {"redop", "", 6},
    {"root", "", 5},         {"time", "(us)", 10},        {"algbw", "(GB/s)", 8},  {"busbw", "(GB/s)", 8},
    {"#wrong", "", 6},       {"variant", "", 0},          {"tokens", "", 8},       {"p95", "(us)", 10},
    {"p99", "(us)", 10},     {"launches", "(us)", 19},    {"fastest", "(us)", 10}, {"spread", "(ratio)", 7},
    {"cast", "(us)", 10},    {"period", "(us)", 10},      {"logical", "(B)", 11},  {"wire", "(B)", 11},
    {"off-node", "(B)", 11}, {"nic", "(B)", 11}};

// The column of variants is as wide as the longest label.
int width_of(const Column& column, const MicroRecord& record) {
  std::size_t width = static_cast<std::size_t>(column.width);
  if (width > 0) return column.width;
  for (const MicroResult& result : record.results) width = std::max(width, result.variant.label.size());
  return static_cast<int>(width);
}

std::string column_heads(const MicroRecord& record) {
  std::string names = "#", units = "#";
  for (const Column& column : kColumns) {
    names += fmt::format(" {:>{}}", column.name, width_of(column, record));
    units += fmt::format(" {:>{}}", column.unit, width_of(column, record));
  }
  return "#\n" + names + "\n" + units + "\n";
}

std::string figure(double value, int digits) {
  return fmt::format("{:.{}f}", value, digits);
}

// A figure that there is not is a dash.
std::string or_dash(double value, int digits) {
  return value > 0 ? figure(value, digits) : "-";
}

std::string row(const MicroRecord& record, const MicroResult& result, std::size_t size) {
  const MicroFigures figures = micro_figures(result.samples[size]);
  const Config& config = result.variant.config;
  const Bandwidths bandwidth = bandwidths(record, figures, record.spec.sizes[size]);
  const std::string cells[] = {fmt::format("{}", record.spec.sizes[size]),
                               fmt::format("{}", count_of(record, size, config)),
                               type_of(record, config),
                               "none",
                               "-1",
                               figure(figures.p50_us, 2),
                               figure(bandwidth.alg, 3),
                               figure(bandwidth.bus, 3),
                               record.spec.check ? fmt::format("{}", figures.wrong) : "N/A",
                               result.variant.label,
                               record.tokens.empty() ? "-" : fmt::format("{}", record.tokens[size]),
                               figure(figures.p95_us, 2),
                               figure(figures.p99_us, 2),
                               fmt::format("{:.2f}..{:.2f}", figures.launch_min_us, figures.launch_max_us),
                               figure(figures.fastest_us, 2),
                               figure(figures.spread_ratio, 2),
                               or_dash(figures.cast_us, 2),
                               or_dash(figures.period_us, 2),
                               figure(figures.logical_bytes, 0),
                               figure(figures.wire_bytes, 0),
                               figure(figures.wire_bytes_between_nodes, 0),
                               result.nic_source.empty() ? "-" : figure(figures.nic_bytes, 0)};
  static_assert(std::size(cells) == std::size(kColumns));
  std::string text = " ";
  for (std::size_t i = 0; i < std::size(cells); ++i)
    text += fmt::format(" {:>{}}", cells[i], width_of(kColumns[i], record));
  return text + "\n";
}

bool has_samples(const MicroResult& result, std::size_t size) {
  return !result.samples[size].empty();
}

std::string modes_line(const MicroRecord& record, const MicroResult& result, std::size_t size) {
  std::vector<double> us;
  for (const MicroSample& launch : result.samples[size]) us.push_back(micro_figures({launch}).p50_us);
  const auto modes = find_two_modes(us);
  if (!modes) return "";
  return fmt::format(
      "# two modes: {} at {} B: {} launches at {:.2f} us and {} at {:.2f} us; no figure between them was "
      "measured\n",
      result.variant.label, record.spec.sizes[size], modes->low_count, modes->low_median, modes->high_count,
      modes->high_median);
}

const MicroResult* baseline_of(const MicroRecord& record) {
  for (const MicroResult& result : record.results) {
    if (result.variant.is_baseline && result.status == ResultStatus::done) return &result;
  }
  return nullptr;
}

std::string ratio_lines(const MicroRecord& record) {
  const MicroResult* baseline = baseline_of(record);
  if (baseline == nullptr || record.results.size() < 2) return "";
  std::string text =
      fmt::format("#\n# speed against the baseline, {}, 95% interval over launches that ran next to each other ({})\n",
                  baseline->variant.label,
                  record.spec.operation == MicroOperation::pair        ? "by period"
                  : record.spec.operation == MicroOperation::transport ? "by period of the stream"
                                                                       : "by time");
  for (std::size_t size = 0; size < record.spec.sizes.size(); ++size) {
    for (const MicroResult& result : record.results) {
      if (&result == baseline || !has_samples(result, size) || !has_samples(*baseline, size)) continue;
      const RatioEstimate ratio = micro_ratio(result.samples[size], baseline->samples[size]);
      text += fmt::format("# {:>11} B  {:<26}  {:<19}  {}\n", record.spec.sizes[size], ratio_text(ratio),
                          verdict_text(ratio.verdict), result.variant.label);
    }
  }
  return text;
}

// As nccl-tests ends.
std::string footer(const MicroRecord& record) {
  std::uint64_t wrong = 0;
  double bus = 0;
  int rows = 0;
  for (const MicroResult& result : record.results) {
    for (std::size_t size = 0; size < record.spec.sizes.size(); ++size) {
      if (!has_samples(result, size)) continue;
      const MicroFigures figures = micro_figures(result.samples[size]);
      wrong += figures.wrong;
      bus += bandwidths(record, figures, record.spec.sizes[size]).bus;
      ++rows;
    }
  }
  std::string text = "#\n";
  if (record.spec.check) {
    text += fmt::format("# Out of bounds values : {} {}\n", wrong, wrong == 0 ? "OK" : "FAILED");
  }
  return text + fmt::format("# Avg bus bandwidth    : {:.4f}\n", rows > 0 ? bus / rows : 0);
}

Json sample_json(const MicroSample& sample) {
  return {{"launch", sample.launch},
          {"slowest_ns", sample.slowest_ns},
          {"fastest_ns", sample.fastest_ns},
          {"cast_ns", sample.cast_ns},
          {"period_ns", sample.period_ns > 0 ? Json(sample.period_ns) : Json(nullptr)},
          {"logical_bytes_max", sample.logical_bytes_max},
          {"wire_bytes_max", sample.wire_bytes_max},
          {"wire_bytes_between_nodes_max", sample.wire_bytes_between_nodes_max},
          {"nic_bytes_max", sample.nic_bytes_max},
          {"wrong", sample.wrong}};
}

Json result_json(const MicroRecord& record, const MicroResult& result) {
  const Config& config = result.variant.config;
  Json sizes = Json::array();
  for (std::size_t size = 0; size < record.spec.sizes.size(); ++size) {
    Json launches = Json::array();
    for (const MicroSample& sample : result.samples[size]) launches.push_back(sample_json(sample));
    Json entry = {{"size_bytes", record.spec.sizes[size]}};
    if (!record.tokens.empty()) entry["tokens"] = record.tokens[size];
    entry["launches"] = launches;
    sizes.push_back(entry);
  }
  return {{"label", result.variant.label},
          {"is_baseline", result.variant.is_baseline},
          {"status", status_text(result.status)},
          {"reason", result.reason},
          {"source", "measured"},
          {"transport", result.transport},
          {"provider", result.provider},
          {"nic_source", result.nic_source},
          {"config", config_json(config)},
          {"sizes", sizes}};
}

}  // namespace

std::string micro_table(const RunInfo& info, const MicroRecord& record) {
  std::string text = header(info, record) + meaning(record) + column_heads(record);
  for (std::size_t size = 0; size < record.spec.sizes.size(); ++size) {
    for (const MicroResult& result : record.results) {
      if (has_samples(result, size)) text += row(record, result, size);
    }
  }
  for (const MicroResult& result : record.results) {
    for (std::size_t size = 0; size < record.spec.sizes.size(); ++size) text += modes_line(record, result, size);
  }
  for (const MicroResult& result : record.results) {
    if (result.status == ResultStatus::skipped || result.status == ResultStatus::failed) {
      text += fmt::format("# {}: {}: {}\n", result.variant.label, status_text(result.status),
                          result.reason.substr(0, result.reason.find('\n')));
    } else {
      text += fmt::format("# {}: measured; carried by {}; nic: {}\n", result.variant.label, carried_by(result),
                          result.nic_source.empty() ? "none is passed" : result.nic_source);
    }
  }
  return text + ratio_lines(record) + footer(record);
}

std::string micro_json(const RunInfo& info, const MicroRecord& record) {
  const MicroSpec& spec = record.spec;
  Json ranks = Json::array();
  for (const RankInfo& rank : info.ranks)
    ranks.push_back({{"rank", rank.rank}, {"host", rank.host}, {"cpus", rank.cpus}});
  Json results = Json::array();
  for (const MicroResult& result : record.results) results.push_back(result_json(record, result));
  const Json json = {
      {"schema_version", 1},
      {"tool", {{"name", "moe-rl-bench"}, {"version", info.build.version}, {"commit", info.build.commit}}},
      {"started", info.started},
      {"ended", info.ended.empty() ? Json(nullptr) : Json(info.ended)},
      {"argv", info.arguments},
      {"status", record.status},
      {"operation", micro_operation_text(spec.operation)},
      {"routing", spec.routing},
      {"routes", spec.routes == RouteUse::fresh ? "fresh" : "cached"},
      {"launches", spec.launches},
      {"warmup", spec.warmup},
      {"iterations", spec.iterations},
      {"repeats", spec.repeats},
      {"window", spec.window},
      {"imbalance", spec.imbalance},
      {"checked", spec.check},
      {"notes", record.notes},
      {"environment", info.environment},
      {"ranks", ranks},
      {"results", results}};
  return json.dump(1) + "\n";
}

}  // namespace mrb
