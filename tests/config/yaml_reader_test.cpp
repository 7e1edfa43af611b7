#include "config/yaml_reader.hpp"

#include <fmt/format.h>

#include <iterator>

#include "base/random.hpp"
#include "config/loading.hpp"

using namespace mrb;
using mrb::test::contains;
using mrb::test::fault;
using mrb::test::repeated;
using mrb::test::TemporaryFile;

namespace {

// "key=value" for each, "key=[a, b]" for lists, in order; faults are an error.
std::string read(const std::string& yaml) {
  const TemporaryFile file(yaml);
  Faults faults;
  std::string text;
  for (const Given& given : read_yaml(file.path(), faults)) {
    std::string values;
    for (const auto& value : given.values) values += (values.empty() ? "" : ", ") + value;
    text += (text.empty() ? "" : " ") + given.key + "=" + (given.is_list ? "[" + values + "]" : values);
  }
  faults.report();
  return text;
}

}  // namespace

TEST_CASE("a file becomes keys and values in its order", "[config]") {
  CHECK(read("ranks: 4\ngrpo:\n  prompts: [1, 2]\n  epochs: 3\nmodel: tiny\n") ==
        "ranks=4 grpo.prompts=[1, 2] grpo.epochs=3 model=tiny");
  CHECK(read("transport: {name: mpi}\nmodel.layers: 3\n") == "transport.name=mpi model.layers=3");
  CHECK(read("dispatcher:\n- a\n- b\n") == "dispatcher=[a, b]");
  CHECK(read("baseline: {dispatcher: a, transport: {name: b, provider: c}}") ==
        "baseline.dispatcher=a baseline.transport.name=b baseline.transport.provider=c");
  CHECK(read("{}").empty());
}

TEST_CASE("quotes, comments, a byte order mark and Windows line ends change nothing", "[config]") {
  CHECK(read("\xef\xbb\xbf# [0, 1)\r\n'ranks' : \"4\"  # ranks\r\n") == "ranks=4");
  CHECK(read("%YAML 1.2\n---\nranks: 4\n...\n") == "ranks=4");
  CHECK(read(repeated("# half open: [0, 1)\n", 100) + "ranks: 4") == "ranks=4");
}

TEST_CASE("every value knows its place", "[config]") {
  const TemporaryFile file("ranks: 4\ngrpo:\n  prompts:\n    - 1\n");
  Faults faults;
  const auto given = read_yaml(file.path(), faults);
  REQUIRE(given.size() == 2);
  CHECK(given[0].where == file.path() + ":1:8");
  CHECK(given[0].key_where == file.path() + ":1:1");
  CHECK(given[1].where == file.path() + ":4:5");
  CHECK(given[1].key_where == file.path() + ":3:3");
}

TEST_CASE("a file that is no single mapping is refused", "[config]") {
  for (const char* nothing : {"", "\n \n", "# only words\n", "---\n", "~", "\xef\xbb\xbf"}) {
    CHECK(fault(nothing) == "FILE: the file is empty\n  fix: make a complete one: moe-rl-bench config init > my.yaml");
  }
  for (const char* other : {"hello", "[1, 2]", "- ranks: 4\n"}) {
    CHECK_THAT(fault(other), contains("FILE:1:1: a configuration is a mapping of keys to values\n  fix: "
                                      "write it like this: `ranks: 4`"));
  }
  for (const char* more : {"ranks: 1\n---\nseed: 2\n", "{ranks: 1},", "{ranks: 1} seed"}) {
    CHECK_THAT(fault(more), contains("the file goes on behind the end of its document\n  fix: keep one document"));
  }
  for (const char* broken : {"a: [1", "a: b: c", "a: 'x", "ranks: 1\n,", "a: *b", "a: @"}) {
    INFO(broken);
    CHECK_THAT(fault(broken), contains("FILE:") && contains("this is not YAML: ") &&
                                  contains("\n  fix: compare with the output of moe-rl-bench config init"));
  }
}

TEST_CASE("what stands in the wrong place is a fault, and the rest is read", "[config]") {
  CHECK(fault("ranks:\n") == "FILE:1:1: 'ranks' has no value\n  fix: give it one, or leave the key out");
  CHECK_THAT(fault("grpo: {prompts: {a: 1}}"),
             contains("FILE:1:17: a mapping stands where 'grpo.prompts' needs a value"));
  CHECK_THAT(fault("model.layers: {a: 1}"), contains("a mapping stands where 'model.layers' needs a value"));
  CHECK_THAT(fault("? [a, b]\n: 1"), contains("a list stands where a key belongs\n  fix: write keys like `ranks:`"));
  CHECK_THAT(fault("? {a: b}\n: 1"), contains("a mapping stands where a key belongs"));
  CHECK_THAT(fault("~: 1"), contains("nothing stands where a key belongs"));
  CHECK_THAT(fault("dispatcher: [alltoall, [x, [y]], {a: b}, ~]"),
             contains("3 faults") &&
                 contains("FILE:1:24: a list stands in the list of 'dispatcher'\n  fix: give plain values: [a, b]") &&
                 contains("FILE:1:34: a mapping stands") && contains("FILE:1:42: nothing stands"));
  CHECK_THAT(fault("? [a]\n: {b: c}\nrank: 2\n"), contains("2 faults") && contains("did you mean 'ranks'?"));
}

TEST_CASE("a list has one to a thousand values", "[config]") {
  CHECK(fault("dispatcher: []") == "FILE:1:13: 'dispatcher' has a list of 0 values\n  fix: give 1 to 1000");
  CHECK_THAT(fault("grpo: {prompts: [" + repeated("1,", 1001) + "]}"), contains("has a list of 1001 values"));
}

TEST_CASE("the same key twice is a fault, in any spelling", "[config]") {
  CHECK(fault("seed: 1\nseed: 1\n") == "FILE:2:1: the key 'seed' stands here a second time\n  fix: keep one of them");
  CHECK_THAT(fault("grpo: {epochs: 1}\ngrpo: {epochs: 2, prompts: x}\n"),
             contains("FILE:2:1: the key 'grpo'") && !contains("prompts"));
  CHECK(fault("transport: mpi\ntransport.name: mpi\n") ==
        "FILE:2:1: the key 'transport.name' was already given at FILE:1:1\n  fix: keep one of them");
  CHECK_THAT(fault("grpo: {epochs: 1}\ngrpo.epochs: 1\n"), contains("already given at FILE:1:8"));
  CHECK_THAT(fault("baseline: {transport: loopback, transport.name: loopback}"),
             contains("'baseline.transport.name' was already given"));
}

TEST_CASE("what YAML can do beyond plain values is refused by name", "[config]") {
  CHECK(fault("seed: &a 1\nranks: *a\ngrpo: {epochs: *a}\n") ==
        "FILE:2:8: aliases (`*name`) are not followed\n  fix: write the value out");
  CHECK_THAT(fault("grpo:\n  <<: {epochs: 1}\n"),
             contains("FILE:2:3: merge keys (`<<`) are not followed\n  fix: write the keys out"));
  CHECK_THAT(fault("ranks: !!int 4"),
             contains("FILE:1:8: the tag 'tag:yaml.org,2002:int' is not understood\n  fix: leave it out"));
  CHECK_THAT(fault("grpo: !mine {epochs: 1}"), contains("the tag '!mine'"));
}

TEST_CASE("aliases that expand without end are not expanded", "[config]") {
  std::string laughs = "a0: &a0 [x]\n";
  for (int i = 1; i < 60; ++i) laughs += fmt::format("a{0}: &a{0} [*a{1}, *a{1}]\n", i, i - 1);
  CHECK_THAT(fault(laughs), contains("aliases (`*name`) are not followed"));
  CHECK_THAT(fault("a: &a [*a]\n"), contains("aliases"));
  CHECK_THAT(fault("&a a: {*a : *a}\n"), contains("aliases"));
}

TEST_CASE("nesting without end is refused, not followed", "[config]") {
  for (const char* piece : {"[", "{", "- ", "? ", "{a: ", "[a, ", "[? "}) {
    for (const char* before : {"", "a: ", "\"#\": "}) {
      INFO(before << piece);
      CHECK_THAT(fault(before + repeated(piece, 20000)), contains("fix: "));
    }
  }
  CHECK_THAT(fault(repeated("- ", 20000)), contains("a configuration is a mapping"));
  CHECK_THAT(fault("a: " + repeated("[", 20000)),
             contains("this is nested too deeply\n  fix: a configuration has sections"));
  std::string stairs;
  for (std::size_t i = 0; i < 600; ++i) stairs += std::string(i, ' ') + "a:\n";
  CHECK_THAT(fault(stairs), contains("FILE:17:17: this is nested too deeply"));
}

TEST_CASE("keys without end are not all reported", "[config]") {
  std::string keys;
  for (int i = 0; i < 20000; ++i) keys += fmt::format("k{}: 1\n", i);
  CHECK_THAT(fault(keys), contains("1000 or more faults in the configuration") && contains("... and 950 more"));
}

// A few thousand of the mutations that were tried; each ends in settings or in one error with a fix.
TEST_CASE("a configuration with random damage is read or refused", "[config]") {
  const std::string pieces[] = {"[",     "]",     "{",     "}",    ": ", "- ",   "? ", "*a",
                                "&a ",   "!t ",   "|\n",   "\n  ", "\"", "'",    " #", ",",
                                "<<: ",  "---\n", "...\n", "%",    "~",  "\xff", "\t", std::string(1, '\0'),
                                "1-8*2", "name"};
  Random random({7});
  const std::string whole = starter_yaml();
  for (int round = 0; round < 1000; ++round) {
    std::string text = whole.substr(0, 200 + random.below(whole.size() - 200));
    for (std::uint64_t changes = 1 + random.below(4); changes > 0; --changes) {
      const std::size_t at = random.below(text.size());
      text.replace(at, random.below(3), pieces[random.below(std::size(pieces))]);
    }
    INFO(text);
    const std::string message = fault(text);
    CHECK((message == "no fault" || message.find("\n  fix: ") != std::string::npos));
  }
}
