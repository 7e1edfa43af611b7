#include "config/settings.hpp"

#include "config/loading.hpp"

using namespace mrb;
using mrb::test::contains;
using mrb::test::fault;
using mrb::test::fault_any;
using mrb::test::fault_of;
using mrb::test::load;
using mrb::test::sources_of;
using mrb::test::TemporaryFile;

namespace {

using Values = std::vector<std::string>;

Values values_of(const std::string& text) {
  return load("grpo: {prompts: '" + text + "'}").at("grpo.prompts").values;
}

}  // namespace

TEST_CASE("stronger sources override weaker ones, and every value says where it comes from", "[config]") {
  const TemporaryFile file("grpo: {prompts: 2, group_size: 2, prompt_tokens: 2, response_tokens_min: 2}\n");
  SettingsSources sources = sources_of(file);
  sources.environment = {{"MRB_GRPO_GROUP_SIZE", "3"},
                         {"MRB_GRPO_PROMPT_TOKENS", "3"},
                         {"MRB_GRPO_RESPONSE_TOKENS_MIN", "3"},
                         {"HOME", "/"}};
  sources.sets = {"grpo.prompt_tokens=4", "grpo.response_tokens_min=4"};
  sources.flags = {{"grpo.response_tokens_min", "5"}};
  const Settings settings = load_settings(sources);
  const auto check = [&](const char* key, const char* value, const std::string& origin) {
    INFO(key);
    CHECK(settings.at(key).values == Values{value});
    CHECK(settings.at(key).origin == origin);
  };
  check("grpo.epochs", "1", "default");
  check("grpo.prompts", "2", file.path() + ":1:17");
  check("grpo.group_size", "3", "MRB_GRPO_GROUP_SIZE");
  check("grpo.prompt_tokens", "4", "--set grpo.prompt_tokens");
  check("grpo.response_tokens_min", "5", "--grpo-response-tokens-min");
}

TEST_CASE("a stronger source replaces a list, and the last --set of a key holds", "[config]") {
  const TemporaryFile file("dispatcher: [alltoall, rank_dedup]\n");
  SettingsSources sources = sources_of(file);
  sources.environment = {{"MRB_DISPATCHER", "rank_dedup"}};
  CHECK(load_settings(sources).at("dispatcher").values == Values{"rank_dedup"});
  sources.sets = {"dispatcher=reference", "dispatcher=alltoall,rank_dedup"};
  CHECK(load_settings(sources).at("dispatcher").values == Values{"alltoall", "rank_dedup"});
}

TEST_CASE("lists come as YAML or on one line, each value once", "[config]") {
  CHECK(values_of("1,2,4") == Values{"1", "2", "4"});
  CHECK(values_of("1-8*2") == Values{"1", "2", "4", "8"});
  CHECK(values_of("8-64+8").size() == 8);
  CHECK(load("grpo: {prompts: [4, 2, 4]}").at("grpo.prompts").values == Values{"4", "2"});
  CHECK(load("grpo: {clip_low: '0.1,1e-3'}").at("grpo.clip_low").values == Values{"0.1", "0.001"});
  CHECK(load("dispatcher: alltoall, rank_dedup").at("dispatcher").values == Values{"alltoall", "rank_dedup"});
  CHECK(load("model.tied_head: [true, false]").at("model.tied_head").values == Values{"true", "false"});
  CHECK(fault("grpo: {prompts: 1-1000000+1}") ==
        "FILE:1:17: 'grpo.prompts': there are 1000000 values\n  fix: give at most 1000");
  CHECK_THAT(fault("grpo: {prompts: 8-1*2}"),
             contains("'grpo.prompts': the range '8-1*2' goes nowhere\n  fix: write ranges like"));
  CHECK_THAT(fault("grpo: {prompts: '1,,2'}"), contains("'grpo.prompts' cannot be ''"));
}

TEST_CASE("a field of the whole run takes one value", "[config]") {
  CHECK(fault("seed: [1, 2]") ==
        "FILE:1:7: 'seed' has 2 values: 1, 2\n  fix: give one: it holds for the whole run and is no axis");
  CHECK_THAT(fault("ranks: 1,2"), contains("'ranks' has 2 values: 1, 2"));
  CHECK_THAT(fault("output: {dir: [a, b]}"), contains("'output.dir' has 2 values: a, b"));
  CHECK_THAT(fault_of({.sets = {"measure.blocks=1-4*2"}}),
             contains("--set measure.blocks: 'measure.blocks' has 3 values: 1, 2, 4"));
  CHECK(load("output: {dir: 'a,b'}").at("output.dir").values == Values{"a,b"});
  CHECK(load("seed: [3]").at("seed").values == Values{"3"});
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
  CHECK(text ==
        "9 faults in the configuration\n"
        "FILE:6:3: the key 'temperature' stands here a second time\n  fix: keep one of them\n"
        "FILE:1:7: there is no key 'rank'\n  fix: did you mean 'ranks'?\n"
        "FILE:3:11: there is no key 'grpo.promts'\n  fix: did you mean 'grpo.prompts'?\n"
        "FILE:4:12: 'grpo.prompts' cannot be 'many'\n  fix: give a whole number, 1 to 1048576\n"
        "FILE:5:16: 'grpo.temperature' cannot be '0'\n  fix: give 0.01 to 100\n"
        "FILE:8:13: 'dispatcher' cannot be 'alltoal'\n"
        "  fix: did you mean 'alltoall'? It is one of: reference, alltoall, rank_dedup\n"
        "FILE:9:7: 'seed' has 2 values: 1, 2\n  fix: give one: it holds for the whole run and is no axis\n"
        "FILE:10:12: transport 'libfabric' was left out of this build\n"
        "  fix: configure with -DMRB_WITH_LIBFABRIC=ON and build again\n"
        "FILE:7:28: top_k is 9, and there are 8 experts\n  fix: use a top_k of 1 to 8");
}

TEST_CASE("faults of all sources come together", "[config]") {
  const TemporaryFile file("ranks: 0\n");
  SettingsSources sources = sources_of(file);
  sources.environment = {{"MRB_SED", "3"}, {"MRB_SEED", "x"}};
  sources.sets = {"seed", "=3", "grpo.prompt=1", "compute=gpu"};
  sources.flags = {{"measure.steps", "0"}};
  CHECK(fault_of(sources) ==
        "8 faults in the configuration\n"
        "FILE:1:8: 'ranks' cannot be '0'\n  fix: give a whole number, 1 to 4096\n"
        "MRB_SED: this variable sets nothing\n  fix: did you mean MRB_SEED? Unset it otherwise\n"
        "MRB_SEED: 'seed' cannot be 'x'\n  fix: give a whole number, 0 to 9007199254740991\n"
        "--set seed: there is no '=' behind a key\n  fix: write it like --set grpo.prompts=32\n"
        "--set =3: there is no '=' behind a key\n  fix: write it like --set grpo.prompts=32\n"
        "--set grpo.prompt: there is no key 'grpo.prompt'\n  fix: did you mean 'grpo.prompts'?\n"
        "--set compute: 'compute' cannot be 'gpu'\n  fix: did you mean 'cpu'? It is one of: cpu\n"
        "--measure-steps: 'measure.steps' cannot be '0'\n  fix: give a whole number, 1 to 1000000");
}

TEST_CASE("a wrong value is a fault also where something stronger overrides it", "[config]") {
  const TemporaryFile file("seed: x\n");
  SettingsSources sources = sources_of(file);
  sources.flags = {{"seed", "3"}};
  CHECK_THAT(fault_of(sources), contains("FILE:1:7: 'seed' cannot be 'x'"));
}

TEST_CASE("variables of others are not looked at", "[config]") {
  CHECK_NOTHROW(load_settings({.environment = {{"SEED", "x"}, {"MRBX", "y"}, {"XMRB_SEED", "z"}}}));
  CHECK(load_settings({.environment = {{"MRB_TRANSPORT", "mpi"}}}).at("transport").values == Values{"mpi"});
}

TEST_CASE("a value that means nothing in any combination is a fault, not set aside", "[config]") {
  CHECK(fault("grpo: {length_mean: 5}") ==
        "FILE:1:21: 'grpo.length_mean' is 5, and means nothing here\n"
        "  fix: leave it out, or set grpo.lengths: lognormal or the like");
  CHECK(fault("grpo: {lengths: [fixed, lognormal], length_mean: 5}") == "no fault");
  CHECK(fault("grpo: {length_mean: 4}") == "no fault");  // the default: a resolved configuration has it
  CHECK_THAT(fault("grpo: {objective: cispo, dual_clip: 2}"), contains("set grpo.objective: clip or the like"));
  CHECK_THAT(fault("grpo: {correction: decoupled, correction_high: 5}"), contains("'grpo.correction_high' is 5"));
  CHECK_THAT(fault("grpo: {lengths: lognormel, length_mean: 5}"), !contains("means nothing"));
}

TEST_CASE("a section is no value", "[config]") {
  CHECK(fault("grpo: 3") ==
        "FILE:1:7: 'grpo' is a section, and has no value itself\n  fix: set the keys in it, such as "
        "grpo.preset");
  CHECK_THAT(fault("measure: [1]"), contains("fix: set the keys in it, such as measure.blocks"));
  CHECK_THAT(fault("baseline: alltoall"),
             contains("'baseline' is a section") && contains("such as baseline.ranks_per_node"));
  CHECK_THAT(fault("ranks: {count: 3}"), contains("there is no key 'ranks.count'\n  fix: did you mean"));
}

TEST_CASE("names are checked where the command line knows them, and free elsewhere", "[config]") {
  CHECK(test::load_any("dispatcher: my_own").at("dispatcher").values == Values{"my_own"});
  CHECK_THAT(fault("dispatcher: my_own"), contains("It is one of: reference, alltoall, rank_dedup"));
  CHECK_THAT(fault_any("dispatcher: my own"), contains("fix: give a name shown by moe-rl-bench list"));
}

TEST_CASE("the baseline names values of the methods", "[config]") {
  const Settings settings = load("dispatcher: [alltoall, rank_dedup]\nbaseline: {dispatcher: rank_dedup}\n");
  CHECK(settings.baseline == std::map<std::string, std::string>{{"dispatcher", "rank_dedup"}});
  const TemporaryFile file("dispatcher: [alltoall, rank_dedup]\nbaseline: {dispatcher: {name: alltoall}}\n");
  SettingsSources sources = sources_of(file);
  CHECK(load_settings(sources).baseline.at("dispatcher") == "alltoall");
  sources.sets = {"baseline.dispatcher=rank_dedup"};
  CHECK(load_settings(sources).baseline.at("dispatcher") == "rank_dedup");

  CHECK(fault("baseline: {dispatcher: rank_dedup}") ==
        "FILE:1:24: the baseline's 'dispatcher' is 'rank_dedup', which is not among its values\n  fix: use "
        "one of: alltoall");
  CHECK_THAT(fault("baseline: {seed: 1}"),
             contains("the baseline cannot name 'seed'\n  fix: did you mean '") &&
                 contains("A baseline names: ranks_per_node, grpo.micro_batch_tokens, ") &&
                 contains("schedule, schedule.rollout_train_ratio"));
  CHECK_THAT(fault("baseline: {dispatcher: [a, b]}"),
             contains("the baseline's 'dispatcher' has 2 values\n  fix: give the one to compare with"));
  CHECK_THAT(fault("dispatcher: alltoal\nbaseline: {dispatcher: rank_dedup}"),
             contains("cannot be 'alltoal'") && !contains("among"));
}

TEST_CASE("what belongs to libfabric is a fault without it", "[config]") {
  CHECK(fault_any("transport: {name: mpi, provider: tcp}") ==
        "FILE:1:34: 'transport.provider' is tcp, and the transport is mpi\n  fix: leave it out, or use "
        "transport: libfabric");
  CHECK(
      fault_any("transport: {name: mpi, rails: 2}") ==
      "FILE:1:31: 'transport.rails' is 2, and the transport is mpi\n  fix: leave it out, or use transport: libfabric");
  CHECK_THAT(fault_any("transport: {name: mpi, progress: thread}"),
             contains("'transport.progress' is thread, and the transport is mpi"));
  CHECK(fault_any("transport: {name: [mpi, libfabric], provider: tcp, rails: 2}") == "no fault");
  CHECK_THAT(fault_any("transport: {name: libfabric, provider: ''}"),
             contains("'transport.provider' cannot be ''") && contains("one of: tcp, shm, efa"));
}

TEST_CASE("a product that is too large is a fault with its numbers", "[config]") {
  CHECK(fault("grpo: {prompts: 1-200+1, group_size: 2-200+1}") ==
        "configuration: 200 values of grpo.prompts x 199 values of grpo.group_size make 39800 combinations\n"
        "  fix: give shorter lists, of at most 10000 combinations");
  CHECK_THAT(fault("grpo: {prompts: 1-200+1, group_size: 2-200+1}\nseed: x"), contains("2 faults"));
}

TEST_CASE("ranks come from mpirun unless the user says otherwise, and then they must agree", "[config]") {
  SettingsSources sources{.world_size = 4};
  CHECK(load_settings(sources).at("ranks").values == Values{"4"});
  CHECK(load_settings(sources).at("ranks").origin == "mpirun");
  sources.flags = {{"ranks", "2"}};
  CHECK(fault_of(sources) ==
        "--ranks: 'ranks' is 2, and mpirun started 4\n  fix: start mpirun -np 2, or leave ranks out");
  CHECK_THAT(fault_of({.world_size = 3}), contains("mpirun: 8 experts do not divide over 3 ranks"));
}

TEST_CASE("one rank needs no transport that leaves its process", "[config]") {
  CHECK(load_settings({}).at("transport").values == Values{"loopback"});
  CHECK(load_settings({}).at("transport").origin == "default for one rank");
  CHECK(load_settings({.world_size = 4}).at("transport").values == Values{"mpi"});
  CHECK(load_settings({.flags = {{"ranks", "2"}}}).at("transport").origin == "default");
}
