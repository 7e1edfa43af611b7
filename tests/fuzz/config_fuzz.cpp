// Any bytes as a configuration file: a list of points, or an Error. Nothing else.
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>

#include "base/error.hpp"
#include "config/settings.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string path = "/dev/shm/moe-rl-bench-fuzz-" + std::to_string(::getpid()) + ".yaml";
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  try {
    mrb::SettingsSources sources{.file = path};
    const mrb::Settings settings = mrb::load_settings(sources);
    mrb::settings_yaml(settings, mrb::Origins::shown);
  } catch (const mrb::Error&) {
  }
  return 0;
}
