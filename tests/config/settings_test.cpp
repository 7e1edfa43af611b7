#include "config/settings.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.hpp"
#include "support/catch.hpp"
#include "support/temporary_file.hpp"

using namespace mrb;
using mrb::test::contains;
using mrb::test::TemporaryFile;

namespace {

SettingsSources with_file(const TemporaryFile& file) {
  SettingsSources sources{.file = file.path()};
  sources.choices = {{"dispatcher", {"reference", "alltoall", "rank_dedup"}}, {"transport", {"loopback", "mpi"}}, {"compute", {"cpu"}}};
  sources.left_out = {{"transport", {{"libfabric", "LIBFABRIC"}}}};
  return sources;
}

Settings load(const std::string& yaml) {
  const TemporaryFile file(yaml);
  return load_settings(with_file(file));
}

// The message of loading this, with the file's path as FILE.
std::string fault(const std::string& yaml) {
  const TemporaryFile file(yaml);
  try {
    load_settings(with_file(file));
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::config);
    std::string text = error.what();
    for (std::size_t at; (at = text.find(file.path())) != std::string::npos;) text.replace(at, file.path().size(), "FILE");
    return text;
  }
  return "no fault";
}

std::vector<std::string> values(const std::string& text) { return load("grpo: {prompts: '" + text + "'}").at("grpo.prompts").values; }

}  // namespace

TEST_CASE("stronger sources override weaker ones, and every value says where it comes from", "[config]") {
  const TemporaryFile file("grpo: {prompts: 2, group_size: 2, prompt_tokens: 2, response_tokens_min: 2}\n");
  SettingsSources sources = with_file(file);
  sources.environment = {{"MRB_GRPO_GROUP_SIZE", "3"}, {"MRB_GRPO_PROMPT_TOKENS", "3"}, {"MRB_GRPO_RESPONSE_TOKENS_MIN", "3"}, {"HOME", "/"}};
  sources.sets = {"grpo.prompt_tokens=4", "grpo.response_tokens_min=4"};
  sources.flags = {{"grpo.response_tokens_min", "5"}};
  const Settings settings = load_settings(sources);
  const auto check = [&](const char* key, const char* value, const std::string& origin) {
    INFO(key);
    CHECK(settings.at(key).values == std::vector<std::string>{value});
    CHECK(settings.at(key).origin == origin);
  };
  check("grpo.epochs", "1", "default");
  check("grpo.prompts", "2", file.path() + ":1:17");
  check("grpo.group_size", "3", "MRB_GRPO_GROUP_SIZE");
  check("grpo.prompt_tokens", "4", "--set grpo.prompt_tokens");
  check("grpo.response_tokens_min", "5", "--grpo-response-tokens-min");
}

TEST_CASE("lists come as YAML or on one line", "[config]") {
  CHECK(values("1,2,4") == std::vector<std::string>{"1", "2", "4"});
  CHECK(values("1-8*2") == std::vector<std::string>{"1", "2", "4", "8"});
  CHECK(values("8-64+8").size() == 8);
  CHECK(values("3, 5-9+2") == std::vector<std::string>{"3", "5", "7", "9"});
  CHECK(load("grpo: {prompts: [4, 2, 4]}").at("grpo.prompts").values == std::vector<std::string>{"4", "2"});
  CHECK(load("grpo: {clip_low: '0.1,1e-3'}").at("grpo.clip_low").values == std::vector<std::string>{"0.1", "0.001"});
  CHECK_THAT(fault("grpo: {prompts: 1-1000000+1}"), contains("has more than 1000 values") && contains("fix: write ranges like 1-8*2"));
  CHECK_THAT(fault("grpo: {prompts: 8-1*2}"), contains("a range that goes nowhere"));
  CHECK_THAT(fault("grpo: {prompts: 0-8*2}"), contains("a range that goes nowhere"));
}

TEST_CASE("the product of lists has every combination once, and one baseline per workload", "[config]") {
  const auto points = expand(load("grpo: {prompts: [2, 4]}\ndispatcher: [alltoall, rank_dedup]\ntransport: [mpi, loopback]\n"
                                  "baseline: {dispatcher: rank_dedup}\n"));
  REQUIRE(points.size() == 8);
  for (const Point& point : points) {
    INFO(canonical_lines(point.config, FieldSet::all));
    CHECK(point.is_baseline == (point.config.dispatcher.name == "rank_dedup" && point.config.transport.name == "mpi"));
    CHECK(point.workload.size() == 1);
    CHECK(point.method.size() == 2);
  }
  CHECK(canonical_lines(points[0].config, FieldSet::workload) == canonical_lines(points[3].config, FieldSet::workload));
  CHECK(canonical_lines(points[0].config, FieldSet::workload) != canonical_lines(points[4].config, FieldSet::workload));
}

TEST_CASE("points that differ in a key without meaning are one point", "[config]") {
  const TemporaryFile file("transport: {name: [mpi, libfabric], provider: [tcp, shm]}\n");
  const auto points = expand(load_settings({.file = file.path()}));
  REQUIRE(points.size() == 3);  // mpi, libfabric/tcp, libfabric/shm
  CHECK(points[0].is_baseline);
  CHECK(points[0].config.transport.provider.empty());
}

TEST_CASE("the short and the long form of a section say the same", "[config]") {
  const auto lines = [](const std::string& yaml) { return canonical_lines(expand(load(yaml))[0].config, FieldSet::all); };
  CHECK(lines("model: small\ntransport: mpi\n") == lines("model: {name: small}\ntransport: {name: mpi}\n"));
  CHECK(lines("model.top_k: 1\n") == lines("model:\n  top_k: 1\n"));
}

TEST_CASE("keys under model change the preset, for every model of a list", "[config]") {
  const auto points = expand(load("model: {name: [tiny, small], layers: 3}\n"));
  REQUIRE(points.size() == 2);
  CHECK(points[0].config.model.hidden == 128);
  CHECK(points[1].config.model.hidden == 384);
  for (const Point& point : points) CHECK(point.config.model.layers == 3);
}

TEST_CASE("all faults come in one message, each with its place and its fix", "[config]") {
  const std::string text = fault(
      "rank: 4\n"
      "grpo:\n"
      "  promts: 3\n"
      "  prompts: many\n"
      "  temperature: 0\n"
      "  temperature: 1\n"
      "model: {name: tiny, top_k: 9}\n"
      "dispatcher: [alltoal, rank_dedup]\n"
      "seed: [1, 2]\n"
      "transport: libfabric\n");
  CHECK_THAT(text, contains("9 faults in the configuration"));
  CHECK_THAT(text, contains("FILE:1:7: there is no key 'rank'\n  fix: did you mean 'ranks'?"));
  CHECK_THAT(text, contains("FILE:3:11: there is no key 'grpo.promts'\n  fix: did you mean 'grpo.prompts'?"));
  CHECK_THAT(text, contains("FILE:4:12: 'grpo.prompts' cannot be 'many'\n  fix: give a whole number, 1 to 1048576"));
  CHECK_THAT(text, contains("FILE:5:16: 'grpo.temperature' cannot be '0'\n  fix: give 0.01 to 100"));
  CHECK_THAT(text, contains("FILE:6:3: the key 'temperature' stands here a second time\n  fix: keep one of them"));
  CHECK_THAT(text, contains("FILE:7:28: top_k is 9, and there are 8 experts\n  fix: use a top_k of 1 to 8"));
  CHECK_THAT(text, contains("FILE:8:13: 'dispatcher' cannot be 'alltoal'\n  fix: did you mean 'alltoall'?"));
  CHECK_THAT(text, contains("FILE:9:7: 'seed' has 2 values: 1, 2\n  fix: give one"));
  CHECK_THAT(text, contains("FILE:10:12: transport 'libfabric' was left out of this build\n  fix: configure with -DMRB_WITH_LIBFABRIC=ON"));
}

TEST_CASE("what does not fit together is a fault with the values and what would fit", "[config]") {
  CHECK_THAT(fault("ranks: 3"), contains("FILE:1:8: 8 experts do not divide over 3 ranks") && contains("fix: use one of: 1, 2, 4, 8 ranks"));
  CHECK_THAT(fault("model: {heads: 3}"), contains("3 heads do not divide over 2 kv_heads") && contains("fix: make heads a multiple"));
  CHECK_THAT(fault("model: {head_dim: 31}"), contains("head_dim is 31") && contains("fix: make it even"));
  CHECK_THAT(fault("model: {dense_layers: 2}"), contains("all 2 layers are dense") && contains("fix: use dense_layers of 0 to 1"));
  CHECK_THAT(fault("model: {dense_layers: 1}"), contains("dense_ff is 0") && contains("fix: give model.dense_ff"));
  CHECK_THAT(fault("grpo: {response_tokens_min: 9}"), contains("above response_tokens_max of 8") && contains("fix: make the smaller"));
  CHECK_THAT(fault("grpo: {minibatches: 300}"), contains("300 minibatches of 256 answers") && contains("fix: use fewer"));
  CHECK_THAT(fault("model: deepseek-v3"), contains("'deepseek-v3' has mla attention") && contains("fix: use a model with grouped"));
  CHECK_THAT(fault("baseline: {dispatcher: rank_dedup}"), contains("not among its values") && contains("fix: use one of: alltoall"));
  CHECK_THAT(fault("baseline: {seed: 1}"), contains("the baseline cannot name 'seed'") && contains("fix: did you mean"));
  CHECK_THAT(fault("transport: {name: mpi, provider: tcp}"), contains("the transport is mpi") && contains("fix: leave it out"));
  CHECK_THAT(fault("grpo: {prompts: 1-200+1, group_size: 2-200+1}"), contains("more than 10000 combinations") && contains("fix: give fewer"));
  const TemporaryFile file("transport: libfabric\n");
  CHECK_THROWS_WITH(load_settings({.file = file.path()}), contains("needs a provider") && contains("fix: set transport.provider to tcp, shm or efa"));
}

TEST_CASE("ranks come from mpirun unless the user says otherwise, and then they must agree", "[config]") {
  SettingsSources sources{.world_size = 4};
  CHECK(load_settings(sources).at("ranks").values[0] == "4");
  CHECK(load_settings(sources).at("transport").values[0] == "mpi");
  CHECK(load_settings({}).at("transport").values[0] == "loopback");
  sources.flags = {{"ranks", "2"}};
  CHECK_THROWS_WITH(load_settings(sources), contains("'ranks' is 2, and mpirun started 4") && contains("fix: start mpirun -np 2"));
}

TEST_CASE("an MRB_ variable that sets nothing is a fault, others are not looked at", "[config]") {
  CHECK_THROWS_WITH(load_settings({.environment = {{"MRB_SED", "3"}}}), contains("MRB_SED: this variable sets nothing") && contains("fix: did you mean MRB_SEED?"));
  CHECK_THROWS_WITH(load_settings({.sets = {"seed"}}), contains("there is no '='") && contains("fix: write it like --set"));
  CHECK_NOTHROW(load_settings({.environment = {{"SEED", "x"}, {"MRBX", "y"}}}));
}

TEST_CASE("files that are no configuration end at once", "[config]") {
  CHECK_THAT(fault(""), contains("FILE: the file is empty") && contains("fix: make a complete one: moe-rl-bench config init"));
  CHECK_THAT(fault("\n \n"), contains("the file is empty"));
  CHECK_THAT(fault("# only words\n"), contains("the file is empty"));
  CHECK_THAT(fault("hello"), contains("a configuration is a mapping") && contains("fix: write it like this"));
  CHECK_THAT(fault(std::string(2 << 20, 'a')), contains("the file has 2.0 MiB, a configuration at most 1.0 MiB"));
  CHECK_THAT(fault(std::string("ranks: 1\nseed: \0", 16)), contains("FILE:2: a control character (byte 0)"));
  CHECK_THAT(fault("a: [1"), contains("this is not YAML") && contains("fix: compare with"));
  CHECK_THAT(fault("ranks: 1\n---\nseed: 2\n"), contains("the file holds 2 documents"));
  CHECK_THAT(fault("ranks:\n"), contains("'ranks' has no value"));
  CHECK_THAT(fault("grpo: {prompts: {a: 1}}"), contains("a mapping where a value belongs"));
  CHECK_THROWS_WITH(load_settings({.file = "/no/such/file.yaml"}), contains("there is no such file") && contains("fix: give the path"));
  CHECK_THROWS_WITH(load_settings({.file = "/"}), contains("this is a directory"));
  CHECK_THROWS_WITH(load_settings({.file = "/dev/zero"}), contains("this is not a regular file"));
}

TEST_CASE("nesting and aliases without end are refused, not followed", "[config]") {
  for (const char* piece : {"[", "{", "- ", "? ", ": ", "{a: "}) {
    std::string text = "a: ";
    if (piece[1] == ' ') text.clear();
    for (int i = 0; i < 100000; ++i) text += piece;
    INFO(piece);
    CHECK_THAT(fault(text), contains("nested too deeply"));
  }
  std::string laughs = "a0: &a0 [x]\n";
  for (int i = 1; i < 60; ++i) laughs += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) + ", *a" + std::to_string(i - 1) + "]\n";
  CHECK_THAT(fault(laughs), contains("holds something that is no value"));
  CHECK_THAT(fault("a: &a [*a]\n"), contains("holds something that is no value"));
  std::string stairs;
  for (int i = 0; i < 900; ++i) stairs += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  CHECK(fault(stairs) != "no fault");
}

TEST_CASE("what config show prints is read back as the same settings", "[config]") {
  const Settings settings = load("ranks: 2\nmodel: {name: [tiny, small], layers: 2}\ngrpo: {clip_low: '0.1,0.2'}\ndispatcher: [alltoall, rank_dedup]\nbaseline: {dispatcher: rank_dedup}\n");
  const Settings again = load(settings_yaml(settings, Origins::hidden));
  for (std::size_t i = 0; i < settings.fields.size(); ++i) {
    INFO(settings.fields[i].key);
    CHECK(again.fields[i].values == settings.fields[i].values);
  }
  CHECK(again.baseline == settings.baseline);
  CHECK_THAT(settings_yaml(settings, Origins::shown), contains("# default") && contains(":1:8"));
}

TEST_CASE("one point's YAML is read back as that point", "[config]") {
  const auto points = expand(load("model: {top_k: [1, 3]}\ntransport: mpi\n"));
  const std::string yaml = config_yaml(points[1].config, {"why: because"});
  CHECK(yaml.starts_with("# why: because\n"));
  CHECK(canonical_lines(expand(load(yaml))[0].config, FieldSet::all) == canonical_lines(points[1].config, FieldSet::all));
}

TEST_CASE("config init is a valid configuration with every default", "[config]") {
  const auto points = expand(load("transport: mpi\n"));
  CHECK(canonical_lines(expand(load(starter_yaml()))[0].config, FieldSet::all) == canonical_lines(points[0].config, FieldSet::all));
}

TEST_CASE("every field has its flag, and the schema its key", "[config]") {
  const std::string schema = config_json_schema();
  for (const FieldDoc& doc : field_docs()) {
    INFO(doc.key);
    CHECK(doc.flag.starts_with("--"));
    CHECK_FALSE(doc.sentence.empty());
    const std::string last = doc.key.substr(doc.key.find('.') + 1);
    CHECK_THAT(schema, contains("\"" + last + "\""));
  }
}
