#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <memory>
#include <set>

#include "base/error.hpp"
#include "base/units.hpp"
#include "bench/micro.hpp"
#include "bench/plan.hpp"
#include "cli/cli.hpp"
#include "cli/rank_main.hpp"
#include "cluster/agree.hpp"
#include "dispatch/routing_source.hpp"
#include "dispatch/traffic_model.hpp"
#include "report/micro_table.hpp"
#include "report/results_folder.hpp"

namespace mrb {

namespace {

constexpr std::uint64_t kSizeMax = std::uint64_t{1} << 40;
constexpr std::size_t kSizesMax = 1000;

// What was written on the command line.
struct MicroOptions {
  SettingsOptions settings;
  MicroSpec spec;
  std::string begin, end, step;
  double factor = 2;
  bool has_factor = false;
  int check = 1;
  std::string tokens;  // in place of sizes
  std::string routes = "fresh";
  std::string datatype;
  std::string json_file;
};

[[noreturn]] void refuse(const std::string& problem, const std::string& fix) {
  throw Error(ErrorKind::config, problem, fix);
}

// "1M" is 1024 x 1024, as in nccl-tests.
std::uint64_t size_in(const std::string& text, const std::string& flag) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string unit(end, text.data() + text.size());
  double factor = 1;
  for (const char* name : {"K", "M", "G"}) {
    factor *= 1024;
    if (unit == name || unit == std::string(1, static_cast<char>(std::tolower(*name)))) {
      number *= factor;
      factor = 0;
      break;
    }
  }
  const bool has_unit = factor == 0;
  if (error != std::errc() || (!unit.empty() && !has_unit) || !(number >= 1) ||
      number > static_cast<double>(kSizeMax)) {
    refuse(fmt::format("{} {}: this is no size", flag, text), "write bytes, with K, M or G for powers of 1024: 4K");
  }
  return static_cast<std::uint64_t>(number);
}

std::vector<std::uint64_t> sizes_of(const MicroOptions& options) {
  const std::uint64_t begin = size_in(options.begin, "-b"), end = size_in(options.end, "-e");
  if (begin > end) {
    refuse(fmt::format("-b {} is above -e {}", options.begin, options.end), "give the smaller size with -b");
  }
  if (!options.step.empty() && options.has_factor) {
    refuse("-i and -f both say how sizes grow", "give a step (-i) or a factor (-f)");
  }
  if (options.step.empty() && !(options.factor > 1)) {
    refuse(fmt::format("-f {} does not make sizes grow", options.factor), "use a factor above 1, or a step (-i)");
  }
  std::vector<std::uint64_t> sizes;
  const std::uint64_t step = options.step.empty() ? 0 : size_in(options.step, "-i");
  for (double size = static_cast<double>(begin); size <= static_cast<double>(end);) {
    const auto whole = static_cast<std::uint64_t>(size);
    if (sizes.empty() || sizes.back() != whole) sizes.push_back(whole);
    if (sizes.size() > kSizesMax) {
      refuse(fmt::format("-b {} to -e {} are more than {} sizes", options.begin, options.end, kSizesMax),
             "use a larger step (-i) or factor (-f)");
    }
    size = options.step.empty() ? size * options.factor : size + static_cast<double>(step);
  }
  return sizes;
}

std::vector<std::uint64_t> token_counts_in(const std::string& text) {
  std::vector<std::uint64_t> counts;
  for (const char* at = text.data(); at < text.data() + text.size(); ++at) {
    std::uint64_t count = 0;
    const auto [end, error] = std::from_chars(at, text.data() + text.size(), count);
    if (error != std::errc() || count == 0 || count > (1u << 24) || (end != text.data() + text.size() && *end != ',')) {
      refuse(fmt::format("--tokens {}: '{}' is no number of tokens", text, at), "write a list like 1,64,4096");
    }
    counts.push_back(count);
    at = end;
  }
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

// Sizes and numbers, all checked before anything starts.
MicroSpec spec_of(const MicroOptions& options, const Settings& settings) {
  MicroSpec spec = options.spec;
  spec.check = options.check != 0;
  spec.routes = options.routes == "cached" ? RouteUse::cached : RouteUse::fresh;
  if (options.tokens.empty()) {
    spec.sizes = sizes_of(options);
    return spec;
  }
  const Config config = expand(settings).front().config;
  const DispatcherOptions dispatcher{.hidden = config.model.hidden,
                                     .dispatch_wire = parse_wire_type(config.dispatcher.dispatch_dtype)};
  for (const std::uint64_t count : token_counts_in(options.tokens)) {
    spec.sizes.push_back(count * row_bytes(dispatcher, dispatcher.dispatch_wire));
  }
  return spec;
}

// One shape for all variants: sizes and routing would mean something else for another.
void require_one_shape(const Settings& settings) {
  for (const char* key :
       {"model", "model.hidden", "model.experts", "model.top_k", "dispatcher.dispatch_dtype", "seed"}) {
    if (settings.at(key).values.size() < 2) continue;
    refuse(fmt::format("{} has {} values, and micro measures one at a time", key, settings.at(key).values.size()),
           "give it one value, and call micro once for each");
  }
}

class Micro {
 public:
  Micro(Bootstrap& bootstrap, const MicroOptions& options)
      : bootstrap_(bootstrap), options_(options), machines_(meet(bootstrap, read_machine())) {}

  void prepare(const std::vector<std::string>& arguments) {
    const Settings settings = load_on_all_ranks(bootstrap_, options_.settings, machines_, Purpose::show);
    run_on_all(bootstrap_, [&] {
      require_one_shape(settings);
      spec_ = spec_of(options_, settings);
      variants_ = micro_variants(settings, spec_, context(), memory_bytes_per_rank(machines_));
      if (is_of_dispatch(spec_.operation)) try_routing();
      if (bootstrap_.rank() != 0) return;
      info_ = describe_run(machines_, arguments);
      info_.settings = settings;
      if (!options_.json_file.empty()) replace_file(options_.json_file, "");
    });
  }

  int execute() {
    catch_signals();
    const MicroHooks hooks{.interrupted = is_interrupted,
                           .save = [&](const MicroRecord& record) { save(record); },
                           .progress = [](const std::string& line) { std::fputs((line + "\n").c_str(), stderr); }};
    const MicroRecord record = run_micro(spec_, variants_, notes(), context(), hooks);
    if (bootstrap_.rank() == 0) std::fputs(micro_table(info_, record).c_str(), stdout);
    const int code = record.status == "interrupted" ? interrupted_exit_code() : exit_code_of(record);
    return static_cast<int>(bootstrap_.max(bootstrap_.rank() == 0 ? code : 0));
  }

 private:
  LaunchContext context() const { return {bootstrap_, clock_, ranks_per_node(machines_), 1}; }

  void try_routing() const {
    const Config& config = variants_.front().config;
    make_routing_source(spec_.routing, {.expert_count = config.model.experts,
                                        .rank_count = config.ranks,
                                        .top_k = config.model.top_k,
                                        .seed = config.seed});
  }

  std::vector<std::string> notes() const {
    const int of_node = ranks_per_node(machines_);
    std::set<std::string> notes;
    for (const MicroVariant& variant : variants_) notes.merge(notes_on(variant.config, of_node));
    const int ranks = of_node > 0 ? of_node : bootstrap_.size();
    const int cores = machines_.front().cores_allowed;
    if (ranks > cores)
      notes.insert(fmt::format("{} ranks share {} cores: times are those of taking turns", ranks, cores));
    return {notes.begin(), notes.end()};
  }

  void save(const MicroRecord& record) {
    if (options_.json_file.empty()) return;
    if (record.status != "running") info_.ended = utc_now();
    replace_file(options_.json_file, micro_json(info_, record));
  }

  Bootstrap& bootstrap_;
  const MicroOptions& options_;
  SteadyClock clock_;
  std::vector<Machine> machines_;  // by rank
  MicroSpec spec_;
  std::vector<MicroVariant> variants_;
  RunInfo info_;
};

int run_micro_rank(const std::string& bootstrap_name, const MicroOptions& options,
                   const std::vector<std::string>& arguments) {
  std::unique_ptr<Micro> micro;
  const RankMain main{.prepare =
                          [&](Bootstrap& bootstrap) {
                            micro = std::make_unique<Micro>(bootstrap, options);
                            micro->prepare(arguments);
                          },
                      .execute = [&](Bootstrap&) { return micro->execute(); }};
  return run_as_rank(bootstrap_name, options.settings, main);
}

int run(const MicroOptions& options, const std::vector<std::string>& arguments) {
  if (started_by_mpirun()) return run_micro_rank("mpi", options, arguments);
  SettingsSources sources = options.settings.sources();
  sources.purpose = Purpose::show;
  const Settings settings = load_settings(sources);  // faults are shown here, once, before any rank starts
  require_one_shape(settings);
  spec_of(options, settings);
  return run_with_ranks(settings, arguments,
                        [&](const std::string& bootstrap) { return run_micro_rank(bootstrap, options, arguments); });
}

bool concerns_transport(const std::string& key) {
  return key == "ranks" || key == "seed" || key == "transport" || key.starts_with("transport.") ||
         key.starts_with("chaos.");
}

bool concerns_dispatch(const std::string& key) {
  return concerns_transport(key) || key == "ranks_per_node" || key == "dispatcher" || key.starts_with("dispatcher.") ||
         key == "model" || key == "model.hidden" || key == "model.experts" || key == "model.top_k";
}

void add_operation(CLI::App& micro, MicroOperation operation, const std::string& sentence,
                   const std::vector<std::string>& arguments, int& exit_code) {
  CLI::App* command = micro.add_subcommand(micro_operation_text(operation), sentence);
  const auto options = std::make_shared<MicroOptions>();
  options->spec.operation = operation;
  const bool is_dispatch = is_of_dispatch(operation);
  options->begin = is_dispatch ? "4K" : "8";
  options->end = is_dispatch ? "1M" : "4M";
  options->factor = is_dispatch ? 4 : 8;
  options->spec.repeats = operation == MicroOperation::transport ? 100 : 1;

  MicroSpec& spec = options->spec;
  const auto count = CLI::Range(1, 1000000);
  command->add_option("-b,--minbytes", options->begin, "Smallest size, with K, M or G")->capture_default_str();
  command->add_option("-e,--maxbytes", options->end, "Largest size")->capture_default_str();
  command->add_option("-f,--stepfactor", options->factor, "Sizes grow by this factor")->capture_default_str();
  command->add_option("-i,--stepbytes", options->step, "Or by this many bytes");
  command->add_option("-n,--iters", spec.iterations, "Counted iterations of each size and launch")
      ->check(count)
      ->capture_default_str();
  command->add_option("-w,--warmup_iters", spec.warmup, "Iterations before them that are not counted")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  command->add_option("-c,--check", options->check, "Check what every counted iteration gave: 1 or 0")
      ->check(CLI::IsMember({0, 1}))
      ->capture_default_str();
  command->add_option("--launches", spec.launches, "How often everything is made anew; a launch is the sample")
      ->check(count)
      ->capture_default_str();
  command->add_option("-J,--json", options->json_file, "Also write everything to this file, raw samples included");
  if (is_dispatch) {
    CLI::Option* tokens =
        command->add_option("--tokens", options->tokens, "Tokens of a rank, a list, in place of sizes: 1,64,4096");
    for (const char* size : {"-b", "-e", "-f", "-i"}) tokens->excludes(command->get_option(size));
    command->add_option("-d,--datatype", options->datatype, "Of rows on the wire, both ways: f32, bf16, fp8, fp8_pow2");
    command->add_option("--routing", spec.routing, routing_source_forms())->capture_default_str();
    if (operation != MicroOperation::combine) {
      command->add_option("--routes", options->routes, "Whether route and counts are part of the time")
          ->check(CLI::IsMember({"fresh", "cached"}))
          ->capture_default_str();
    }
  } else {
    command->add_option("-m,--agg_iters", spec.repeats, "Operations in a row in one iteration")
        ->check(count)
        ->capture_default_str();
  }
  if (operation == MicroOperation::transport) {
    command->add_option("-W,--window", spec.window, "Puts of the stream that are under way at a time")
        ->check(count)
        ->capture_default_str();
  }
  if (operation == MicroOperation::alltoallv) {
    command->add_option("--imbalance", spec.imbalance, "Lengths are drawn from size x (1 - this) to (1 + this)")
        ->check(CLI::Range(0.0, 1.0))
        ->capture_default_str();
  }
  options->settings.add_to(*command, is_dispatch ? concerns_dispatch : concerns_transport);
  if (is_dispatch) {  // -d is both
    for (const char* one : {"--dispatcher-dispatch-dtype", "--dispatcher-combine-dtype"}) {
      command->get_option("-d")->excludes(command->get_option(one));
    }
  }
  command->callback([=, &exit_code] {
    options->has_factor = command->count("-f") > 0;
    if (!options->datatype.empty()) {
      options->settings.flags.emplace_back("dispatcher.dispatch_dtype", options->datatype);
      options->settings.flags.emplace_back("dispatcher.combine_dtype", options->datatype);
    }
    exit_code = run(*options, arguments);
  });
}

}  // namespace

void add_micro_command(CLI::App& app, const std::vector<std::string>& arguments, int& exit_code) {
  CLI::App* micro = app.add_subcommand("micro", "How fast are dispatch, combine and the transports alone, by size?");
  micro->require_subcommand(1);
  const auto add = [&](MicroOperation operation, const char* sentence) {
    add_operation(*micro, operation, sentence, arguments, exit_code);
  };
  add(MicroOperation::dispatch, "Tokens to their experts");
  add(MicroOperation::combine, "Rows back to their tokens");
  add(MicroOperation::pair, "Both, one after the other: what a layer pays");
  add(MicroOperation::transport, "Puts between pairs of ranks: latency and bandwidth");
  add(MicroOperation::alltoallv, "Every rank to every rank, without tokens");
}

}  // namespace mrb
