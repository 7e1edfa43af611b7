#include "config/fields.hpp"
#include "config/loading.hpp"

using namespace mrb;
using mrb::test::contains;
using mrb::test::load;
using mrb::test::load_any;

namespace {

void check_same(const Settings& a, const Settings& b) {
  for (std::size_t i = 0; i < a.fields.size(); ++i) {
    INFO(a.fields[i].key);
    CHECK(a.fields[i].values == b.fields[i].values);
  }
  CHECK(a.baseline == b.baseline);
}

std::string all_lines(const Settings& settings) {
  return canonical_lines(expand(settings).at(0).config, FieldSet::all);
}

}  // namespace

TEST_CASE("what config show prints is read back as the same settings", "[config]") {
  for (const char* yaml :
       {"{}", "ranks: 2\nmodel: {name: [tiny, small], layers: 2}\ngrpo: {clip_low: '0.1,0.2'}\n",
        "transport: {name: [mpi, libfabric], provider: [tcp, shm]}\nbaseline: {transport: {name: libfabric, "
        "provider: shm}}\n",
        "optimizer: {eps: 1e-12, learning_rate: [0, 1e-5]}\nmodel: {tied_head: true}\n",
        "dispatcher: [alltoall, rank_dedup]\nbaseline: {dispatcher: rank_dedup}\noutput: {dir: 'a, \"b\" \\ "
        "#c: [1-8*2]'}\n"}) {
    INFO(yaml);
    const Settings settings = load_any(yaml);
    check_same(load_any(settings_yaml(settings, Origins::hidden)), settings);
    check_same(load_any(settings_yaml(settings, Origins::shown)), settings);
  }
}

TEST_CASE("a value that YAML would take for something else is in quotes", "[config]") {
  for (const char* dir : {"null", "Null", "~",    "-",   "- a",   "a: b",     " a ",          "#a",          "'a'",
                          "a\\b", "*a",   "&a",   "!a",  "{a}",   "[a]",      "%a",           "|",           ">",
                          "@a",   "`a",   "true", "1,2", "1-8*2", "\xc3\xbc", "\xef\xbb\xbf", "\xe2\x80\xa8"}) {
    INFO(dir);
    const Settings settings = load_settings({.flags = {{"output.dir", dir}}});
    CHECK(settings.at("output.dir").values == std::vector<std::string>{dir});
    check_same(load(settings_yaml(settings, Origins::shown)), settings);
  }
}

TEST_CASE("config show says where each value comes from, the preset's too", "[config]") {
  const test::TemporaryFile file("ranks: 2\nmodel: {name: small, top_k: 2}\n");
  SettingsSources sources{.file = file.path(), .sets = {"baseline.dispatcher=alltoall"}};
  const std::string text = settings_yaml(load_settings(sources), Origins::shown);
  CHECK_THAT(text, contains("ranks: 2                             # " + file.path() + ":1:8\n"));
  CHECK_THAT(text, contains("\n  name: small                        # " + file.path() + ":2:15\n"));
  CHECK_THAT(text, contains("\n  # layers: 4                        # the model preset\n"));
  CHECK_THAT(text, contains("\n  top_k: 2                           # " + file.path() + ":2:29\n"));
  CHECK_THAT(text, contains("\nseed: 1                              # default\n"));
  CHECK_THAT(text, contains("\nbaseline:\n  dispatcher:\n    name: alltoall\n"));
}

TEST_CASE("one point's YAML is read back as that point", "[config]") {
  for (const Point& point : expand(load_any("model: {name: [tiny, small], top_k: [1, 3]}\ntransport: {name: "
                                            "[mpi, libfabric], provider: tcp}\n"))) {
    const std::string yaml = config_yaml(point.config, {"why: because", "it won"});
    CHECK(yaml.starts_with("# why: because\n# it won\nranks: 1\n"));
    CHECK(all_lines(load_any(yaml)) == canonical_lines(point.config, FieldSet::all));
  }
}

TEST_CASE("config init is a valid configuration with every key and every default", "[config]") {
  const std::string text = starter_yaml();
  CHECK(all_lines(load(text)) == all_lines(load_settings({})));
  for (const Field& field : fields()) {
    INFO(field.key);
    CHECK_THAT(text, contains(field.sentence + " (" + field.accepted));
  }
}
