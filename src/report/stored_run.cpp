#include "report/stored_run.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/error.hpp"
#include "report/json.hpp"
#include "stats/summary.hpp"

namespace mrb {

namespace {

using Json = nlohmann::ordered_json;

// One object of the document. What is missing or of another kind becomes a fault and a value of no harm, so that all
// faults are found in one go.
class Reader {
 public:
  Reader(const Json& json, std::string path, std::vector<std::string>& faults)
      : json_(json), path_(std::move(path)), faults_(faults) {
    if (!json.is_object()) fault("", "an object", json);
  }

  // Null counts as empty: it stands for what is unknown.
  std::string text(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr || value->is_null()) return "";
    if (!value->is_string()) return fault(key, "a text", *value), "";
    return value->get<std::string>();
  }

  bool truth(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr || value->is_null()) return false;
    if (!value->is_boolean()) return fault(key, "true or false", *value), false;
    return value->get<bool>();
  }

  // Counts, bytes and nanoseconds: never negative.
  double number(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) return 0;
    const double number = value->is_number() ? value->get<double>() : -1;
    if (std::isfinite(number) && number >= 0) return number;
    return fault(key, "a number of at least 0", *value), 0;
  }

  // Any number; null, which stands for what is unknown, is not a number.
  double real(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr || value->is_null()) return std::nan("");
    if (!value->is_number()) return fault(key, "a number", *value), 0;
    return value->get<double>();
  }

  int count(const char* key) const {
    constexpr double kCountMax = 1e9;
    const double value = number(key);
    if (value <= kCountMax) return static_cast<int>(value);
    return fault(key, "a whole number of at most 1e9", *find(key)), 0;
  }

  void object(const char* key, const std::function<void(const Reader&)>& read) const {
    if (const Json* value = find(key)) read(Reader(*value, place(key), faults_));
  }

  // An object of objects, by name.
  void named(const char* key, const std::function<void(const std::string&, const Reader&)>& read) const {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_object()) return fault(key, "an object", *value);
    for (const auto& [name, entry] : value->items()) read(name, Reader(entry, place(key) + "." + name, faults_));
  }

  void list(const char* key, const std::function<void(const Reader&)>& read) const {
    each(key, [&](const Json& entry, const std::string& where) { read(Reader(entry, where, faults_)); });
  }

  std::vector<std::string> texts(const char* key) const {
    std::vector<std::string> result;
    each(key, [&](const Json& entry, const std::string& where) {
      if (entry.is_string()) return result.push_back(entry.get<std::string>());
      faults_.push_back(fmt::format("{}: a text is needed, not {}", where, shown(entry)));
    });
    return result;
  }

  std::map<std::string, std::string> text_map(const char* key) const {
    std::map<std::string, std::string> result;
    const Json* value = find(key);
    if (value == nullptr) return result;
    if (!value->is_object()) return fault(key, "an object", *value), result;
    const Reader reader(*value, place(key), faults_);
    for (const auto& [name, entry] : value->items()) result[name] = reader.text(name.c_str());
    return result;
  }

  bool is_false(const char* key) const {
    const Json* value = find(key);
    return value != nullptr && *value == false;
  }

  bool has(const char* key) const { return json_.is_object() && json_.contains(key); }

  void fault(const std::string& key, const char* needed, const Json& found) const {
    faults_.push_back(fmt::format("{}: {} is needed, not {}", place(key), needed, shown(found)));
  }

 private:
  const Json* find(const char* key) const {
    if (!json_.is_object()) return nullptr;
    const auto found = json_.find(key);
    if (found != json_.end()) return &*found;
    faults_.push_back(fmt::format("{}: is missing", place(key)));
    return nullptr;
  }

  void each(const char* key, const std::function<void(const Json&, const std::string&)>& read) const {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_array()) return fault(key, "a list", *value);
    for (std::size_t i = 0; i < value->size(); ++i) read((*value)[i], fmt::format("{}[{}]", place(key), i));
  }

  std::string place(const std::string& key) const {
    return path_.empty() ? (key.empty() ? "the document" : key) : key.empty() ? path_ : path_ + "." + key;
  }

  static std::string shown(const Json& json) {
    constexpr std::size_t kLengthMax = 40;
    if (json.is_structured()) return json.is_array() ? "a list" : "an object";
    const std::string text = json.dump(-1, ' ', true, Json::error_handler_t::replace);
    return text.size() <= kLengthMax ? text : text.substr(0, kLengthMax) + "...";
  }

  const Json& json_;
  std::string path_;
  std::vector<std::string>& faults_;
};

StoredStep read_step(const Reader& reader) {
  StoredStep step{.step = reader.count("step"),
                  .warmup = reader.truth("warmup"),
                  .wall_ns = reader.number("wall_ns"),
                  .tokens = reader.number("prompt_tokens") + reader.number("response_tokens"),
                  .loss = reader.real("loss"),
                  .log_prob_mean = reader.real("log_prob_mean"),
                  .logical_bytes = reader.number("dispatch_logical_bytes"),
                  .wire_bytes = reader.number("dispatch_wire_bytes")};
  reader.named("phases", [&](const std::string& name, const Reader& phase) {
    step.phases[name] = {phase.number("ns_max"), phase.number("ns_min"), phase.number("ns_sum")};
  });
  return step;
}

StoredCell read_cell(const Reader& reader) {
  StoredCell cell{.id = reader.text("id"),
                  .workload_id = reader.text("workload_id"),
                  .label = reader.text("label"),
                  .is_baseline = reader.truth("baseline"),
                  .status = reader.text("status"),
                  .reason = reader.text("reason"),
                  .source = reader.text("source"),
                  .params = reader.text_map("params")};
  reader.list("launches", [&](const Reader& launch) {
    cell.launches.push_back({.block = launch.count("block"),
                             .index = launch.count("index"),
                             .transport = launch.text("transport"),
                             .provider = launch.text("provider")});
    launch.list("steps", [&](const Reader& step) { cell.launches.back().steps.push_back(read_step(step)); });
  });
  if (reader.has("correctness")) {
    reader.object("correctness", [&](const Reader& correctness) {
      cell.work_tolerance = correctness.number("tolerance");
      const double lag = correctness.has("lag") ? correctness.real("lag") : 0;
      if (lag >= -1 && lag <= 1e9) cell.lag = static_cast<int>(lag);
      cell.same_work = !correctness.is_false("same_work");  // unknown, where there is no baseline, is not wrong
    });
  }
  return cell;
}

void read_environment(const Reader& environment, StoredRun& run) {
  std::set<std::string> processors, cores;
  environment.list("nodes", [&](const Reader& node) {
    run.nodes.push_back({.host = node.text("host"),
                         .kernel = node.text("kernel"),
                         .processor = node.text("processor"),
                         .cores_online = node.count("cores_online"),
                         .cores_allowed = node.count("cores_allowed"),
                         .memory_bytes = node.number("memory_bytes")});
    processors.insert(run.nodes.back().processor);
    cores.insert(fmt::format("{} of {}", run.nodes.back().cores_allowed, run.nodes.back().cores_online));
  });
  run.compute_device = environment.text("compute_device");
  run.compute_library = environment.text("compute_library");
  run.environment = environment.text_map("env");
  run.fingerprint = {{"nodes", std::to_string(run.nodes.size())},
                     {"processor", fmt::format("{}", fmt::join(processors, " + "))},
                     {"cores allowed", fmt::format("{}", fmt::join(cores, " + "))},
                     {"compute device", run.compute_device}};
  environment.list("libraries",
                   [&](const Reader& library) { run.libraries[library.text("name")] = library.text("loaded"); });
}

void refuse_file(const std::string& file, const std::vector<std::string>& faults) {
  constexpr std::size_t kShownMax = 8;
  if (faults.empty()) return;
  std::string text = fmt::format("'{}' is not a result of this program:", file);
  for (std::size_t i = 0; i < std::min(faults.size(), kShownMax); ++i) text += "\n  " + faults[i];
  if (faults.size() > kShownMax) text += fmt::format("\n  and {} more", faults.size() - kShownMax);
  throw Error(ErrorKind::config, text, "give the result.json that a run has written, unchanged");
}

// The schema is looked at first: a later one may lack what this one has.
void check_schema(const Json& json, const std::string& file) {
  if (!json.is_object() || !json.contains("schema_version") || !json["schema_version"].is_number_integer())
    return refuse_file(file, {"schema_version: a whole number is needed"});
  const auto version = json["schema_version"].get<std::int64_t>();
  if (version >= 1 && version <= kResultSchemaVersion) return;
  throw Error(ErrorKind::not_comparable,
              fmt::format("'{}' has result schema {}; this program reads 1 to {}", file, version, kResultSchemaVersion),
              "use the version of moe-rl-bench that wrote it, or a later one");
}

std::filesystem::path find_file(const std::string& name, const std::string& results_dir) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  for (const fs::path& path : {fs::path(name), fs::path(results_dir) / name}) {
    if (fs::is_regular_file(path, ignored)) return path;
    if (fs::is_regular_file(path / "result.json", ignored)) return path / "result.json";
  }
  throw Error(ErrorKind::config,
              fmt::format("there is no result '{}', neither a file nor a run in '{}'", name, results_dir),
              "give a result.json, a run's folder, or a run's id with --results-dir");
}

}  // namespace

StoredRun parse_stored_run(const std::string& text, const std::string& file) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) refuse_file(file, {"it is not JSON, or was cut off"});
  check_schema(json, file);
  std::vector<std::string> faults;
  const Reader reader(json, "", faults);
  StoredRun run{.file = file};
  reader.object("tool", [&](const Reader& tool) {
    run.version = tool.text("version");
    run.commit = tool.text("commit");
    run.build = tool.text("build");
  });
  reader.object("run", [&](const Reader& head) {
    run.id = head.text("id");
    run.started = head.text("started");
    run.ended = head.text("ended");
    run.status = head.text("status");
    run.arguments = head.texts("argv");
    if (head.has("ab_session")) run.session = head.text("ab_session");
    run.notes = head.texts("notes");
  });
  reader.named("config", [&](const std::string& key, const Reader& setting) {
    run.settings.push_back({key, setting.texts("values"), setting.text("origin")});
  });
  reader.object("environment", [&](const Reader& environment) { read_environment(environment, run); });
  reader.list("ranks", [&](const Reader&) { ++run.ranks; });
  if (reader.has("doctor")) {
    reader.object("doctor", [&](const Reader& doctor) {
      doctor.list("findings", [&](const Reader& finding) {
        if (finding.text("severity") != "note")
          run.taints.push_back(finding.text("id") + ": " + finding.text("problem"));
      });
    });
  }
  run.fingerprint["ranks"] = std::to_string(run.ranks);
  std::set<std::string> ids;
  reader.list("cells", [&](const Reader& cell) {
    run.cells.push_back(read_cell(cell));
    if (!ids.insert(run.cells.back().id).second)
      faults.push_back(fmt::format("cells[{}].id: '{}' is there twice", run.cells.size() - 1, run.cells.back().id));
  });
  refuse_file(file, faults);
  return run;
}

StoredRun read_stored_run(const std::string& name, const std::string& results_dir) {
  const auto path = find_file(name, results_dir);
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (!file && !file.eof())
    throw Error(ErrorKind::config, fmt::format("'{}' cannot be read", path.string()), "look at its permissions");
  return parse_stored_run(text.str(), path.string());
}

double tokens_per_s(const StoredLaunch& launch) {
  double tokens = 0, wall_ns = 0;
  for (const StoredStep& step : launch.steps) {
    if (step.warmup) continue;
    tokens += step.tokens;
    wall_ns += step.wall_ns;
  }
  return wall_ns > 0 ? tokens / wall_ns * 1e9 : 0;
}

double step_ms_mean(const StoredLaunch& launch) {
  double wall_ns = 0;
  int steps = 0;
  for (const StoredStep& step : launch.steps) {
    if (step.warmup) continue;
    wall_ns += step.wall_ns;
    ++steps;
  }
  return steps > 0 ? wall_ns / steps / 1e6 : 0;
}

double step_ms_p99(const StoredLaunch& launch) {
  std::vector<double> times;
  for (const StoredStep& step : launch.steps) {
    if (!step.warmup) times.push_back(step.wall_ns);
  }
  if (times.empty()) return 0;
  std::sort(times.begin(), times.end());
  return quantile(times, 0.99) / 1e6;
}

}  // namespace mrb
