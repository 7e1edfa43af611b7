#include "config/fields.hpp"

#include <set>

#include "config/settings.hpp"
#include "support/catch.hpp"

using namespace mrb;
using mrb::test::contains;

TEST_CASE("every field has its own key, flag and variable, and a sentence", "[config]") {
  std::set<std::string> keys, flags, variables;
  for (const Field& field : fields()) {
    INFO(field.key);
    CHECK(keys.insert(field.key).second);
    CHECK(flags.insert(field.flag()).second);
    CHECK(variables.insert(field.variable()).second);
    CHECK_FALSE(field.sentence.empty());
    CHECK_FALSE(field.accepted.empty());
    CHECK(find_field(field.key) == &field);
  }
  CHECK(find_field("grpo.prompts")->flag() == "--grpo-prompts");
  CHECK(find_field("transport.timeout_s")->variable() == "MRB_TRANSPORT_TIMEOUT_S");
  CHECK(find_field("transport.name") == find_field("transport"));
  CHECK(find_field("transport")->variable() == "MRB_TRANSPORT");
  CHECK(find_field("grpo.name") == nullptr);
  CHECK(find_field("") == nullptr);
}

TEST_CASE("every default is accepted by its own field, in its one spelling", "[config]") {
  const Config defaults;
  for (const Field& field : fields()) {
    if (field.applies && !field.applies(defaults)) continue;
    INFO(field.key);
    CHECK(field.canonical(field.get(defaults)) == field.get(defaults));
  }
}

TEST_CASE("setting a field changes it and nothing else", "[config]") {
  const Config defaults;
  for (const Field& field : fields()) {
    if (field.key == "model" || field.key == "grpo.preset") continue;  // they change others
    INFO(field.key);
    std::string other;
    std::vector<std::string> texts = field.choices;
    texts.insert(texts.end(), {"3", "9", "0.5", "0.25", "3:1", "8192"});
    for (const std::string& text : texts) {
      const auto value = field.canonical(text);
      if (value && *value != field.get(defaults)) other = *value;
    }
    REQUIRE_FALSE(other.empty());
    Config changed;
    field.set(changed, other);
    for (const Field& each : fields()) {
      INFO(each.key);
      CHECK(each.get(changed) == (each.key == field.key ? other : each.get(defaults)));
    }
  }
}

TEST_CASE("numbers have one spelling", "[config]") {
  const auto spelt = [](const char* key, const char* text) {
    return find_field(key)->canonical(text).value_or("refused");
  };
  CHECK(spelt("grpo.prompts", "007") == "7");
  CHECK(spelt("grpo.clip_low", "1e-1") == "0.1");
  CHECK(spelt("grpo.clip_low", "0.50") == "0.5");
  CHECK(spelt("grpo.clip_low", "-0.0") == "0");
  CHECK(spelt("optimizer.eps", "0.00000001") == "1.0e-08");  // a number to YAML 1.1 too
  for (const char* text : {"", "1.5", "0", "-1", "1048577", "99999999999999999999", "1e3", "0x10", "1 ", "+1", "one"}) {
    CHECK(spelt("grpo.prompts", text) == "refused");
  }
  for (const char* text : {"nan", "inf", "1e999", "-0.1", "1.1", ".", "0,5"})
    CHECK(spelt("grpo.clip_low", text) == "refused");
  CHECK(spelt("seed", "9007199254740991") == "9007199254740991");
  CHECK(spelt("seed", "9007199254740992") == "refused");  // JSON would round it
  CHECK(spelt("measure.time_limit_s", "1e300") == "1.0e+300");
  CHECK(spelt("model.tied_head", "True") == "refused");
}

TEST_CASE("texts are what a terminal, YAML and JSON can carry", "[config]") {
  const Field& dir = *find_field("output.dir");
  CHECK(dir.canonical("my results, gr\xc3\xbc\xc3\x9f") == "my results, gr\xc3\xbc\xc3\x9f");
  CHECK(dir.canonical(std::string(4096, 'x')));
  for (const std::string& text : {std::string(), std::string(4097, 'x'), std::string("a\nb"), std::string("\xff")}) {
    CHECK_FALSE(dir.canonical(text));
  }
  const Field& dispatcher = *find_field("dispatcher");
  CHECK(dispatcher.canonical("rank_dedup"));
  for (const char* text : {"", "a b", "a,b", "a\nseed=2"}) CHECK_FALSE(dispatcher.canonical(text));
}

TEST_CASE("the nearest word is the one with the fewest changes", "[config]") {
  CHECK(nearest("tinny", {"small", "tiny", "mixtral-8x7b"}) == "tiny");
  CHECK(nearest_key("rnaks") == "ranks");
  CHECK(nearest_key("grpo.promts") == "grpo.prompts");
  CHECK(nearest_key("base_line") == "baseline");
  CHECK_FALSE(nearest_key(std::string(1 << 20, 'x')).empty());
}

TEST_CASE("the documentation of fields says what holds without them", "[config]") {
  for (const FieldDoc& doc : field_docs()) {
    INFO(doc.key);
    CHECK_FALSE(doc.default_text.empty());
    if (doc.key == "grpo.prompts") CHECK(doc.default_text == "16");
    if (doc.key == "grpo.clip_high") CHECK(doc.default_text == "0.28, or the preset's");
    if (doc.key == "model.layers") CHECK(doc.default_text == "the preset's");
    if (doc.key == "transport.provider") CHECK(doc.default_text == "none");
    if (doc.key == "transport") CHECK(doc.default_text == "mpi; loopback for one rank");
  }
}
