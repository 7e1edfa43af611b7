// Files and folders that are gone when the test is over.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace mrb::test {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    char name[] = "/tmp/moe-rl-bench-test-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text) : path_(folder_.path() + "/file.yaml") {
    std::ofstream(path_, std::ios::binary) << text;
  }
  const std::string& path() const { return path_; }

 private:
  TemporaryFolder folder_;
  std::string path_;
};

}  // namespace mrb::test
