#include "config/text_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include "base/error.hpp"
#include "support/catch.hpp"
#include "support/temporary_file.hpp"

using namespace mrb;
using mrb::test::contains;
using mrb::test::TemporaryFile;
using mrb::test::TemporaryFolder;

namespace {

std::string refusal(const std::string& path) {
  try {
    read_text_file(path);
  } catch (const Error& error) {
    CHECK(error.exit_code() == 2);
    return error.what();
  }
  return "read";
}

std::string refusal_of_text(const std::string& text) {
  const TemporaryFile file(text);
  return refusal(file.path());
}

}  // namespace

TEST_CASE("a text file is read as it is", "[config]") {
  const TemporaryFile file("a: 1\r\n\tgr\xc3\xbc\xc3\x9f\n");
  CHECK(read_text_file(file.path()) == "a: 1\r\n\tgr\xc3\xbc\xc3\x9f\n");
  CHECK(read_text_file(TemporaryFile(std::string(256 << 10, 'x')).path()).size() == 262144);
}

TEST_CASE("what is no file with text is refused with a way out", "[config]") {
  const TemporaryFolder folder;
  CHECK_THAT(refusal(folder.path() + "/none.yaml"),
             contains("/none.yaml: there is no such file\n  fix: give the path of a YAML file, or make one: "
                      "moe-rl-bench config init"));
  CHECK_THAT(refusal(folder.path()), contains("this is a directory\n  fix: give the path of a YAML file in it"));
  CHECK_THAT(refusal("/dev/zero"), contains("this is not a regular file\n  fix: give the path"));
  const std::string pipe = folder.path() + "/pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THAT(refusal(pipe), contains("this is not a regular file"));
  const TemporaryFile file("a: 1");
  CHECK_THAT(refusal(file.path() + "/beneath"), contains("file.yaml/beneath: ") && contains("fix: "));
  CHECK_THAT(refusal(std::string(5000, 'x')),
             contains("cannot be looked at: File name too long\n  fix: check the path"));
  CHECK_THAT(refusal("no\nsuch\x1b"), contains("no?such?: there is no such file"));
}

TEST_CASE("a file without permission is refused", "[config]") {
  if (::geteuid() == 0) return;  // root may read everything
  const TemporaryFile file("a: 1");
  ::chmod(file.path().c_str(), 0);
  CHECK_THAT(refusal(file.path()), contains("cannot be read: Permission denied\n  fix: check its permissions"));
}

TEST_CASE("a file that is too long is refused, whatever its stated length", "[config]") {
  CHECK_THAT(refusal_of_text(std::string((256 << 10) + 1, 'x')),
             contains("more than 256.0 KiB\n  fix: give the path of a configuration"));
  const TemporaryFile sparse("");
  REQUIRE(::truncate(sparse.path().c_str(), 1LL << 40) == 0);  // a terabyte of zeros
  CHECK_THAT(refusal(sparse.path()), contains("more than 256.0 KiB"));
}

TEST_CASE("control characters are refused where they stand", "[config]") {
  CHECK_THAT(refusal_of_text(std::string("ranks: 1\nseed: \0", 16)),
             contains("file.yaml:2:7: a control character (byte 0) stands here\n  fix: give a YAML file, "
                      "saved as UTF-8 text"));
  CHECK_THAT(refusal_of_text("\x1b[1m"), contains(":1:1: a control character (byte 27)"));
  CHECK_THAT(refusal_of_text("a\x7f"), contains(":1:2: a control character (byte 127)"));
}
