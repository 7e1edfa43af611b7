// Settings out of a text, as if a user had put it into a file.
#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "config/settings.hpp"
#include "support/catch.hpp"
#include "support/temporary_file.hpp"

namespace mrb::test {

// As the command line does it, in a build without libfabric.
inline SettingsSources sources_of(const TemporaryFile& file) {
  SettingsSources sources{.file = file.path()};
  sources.choices = {{"dispatcher", {"reference", "alltoall", "rank_dedup"}},
                     {"transport", {"loopback", "mpi"}},
                     {"compute", {"cpu"}}};
  sources.left_out = {{"transport", {{"libfabric", "LIBFABRIC"}}}};
  return sources;
}

inline Settings load(const std::string& yaml) {
  const TemporaryFile file(yaml);
  return load_settings(sources_of(file));
}

// The same in a build that has every name.
inline Settings load_any(const std::string& yaml) {
  const TemporaryFile file(yaml);
  return load_settings({.file = file.path()});
}

// What loading throws, with the file's path as FILE; "no fault" when it does not.
inline std::string fault_of(const SettingsSources& sources) {
  try {
    load_settings(sources);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::config);
    std::string text = error.what();
    if (sources.file.empty()) return text;
    for (std::size_t at; (at = text.find(sources.file)) != std::string::npos;) {
      text.replace(at, sources.file.size(), "FILE");
    }
    return text;
  }
  return "no fault";
}

inline std::string fault(const std::string& yaml) {
  const TemporaryFile file(yaml);
  return fault_of(sources_of(file));
}

inline std::string fault_any(const std::string& yaml) {
  const TemporaryFile file(yaml);
  return fault_of({.file = file.path()});
}

inline std::string repeated(const std::string& piece, std::size_t times) {
  std::string text;
  for (std::size_t i = 0; i < times; ++i) text += piece;
  return text;
}

}  // namespace mrb::test
