// Which build this is.
#pragma once

#include <string>

namespace mrb {

struct BuildInfo {
  std::string version;  // of the tool
  std::string commit;   // with "-dirty" when tracked files differed from it
  std::string compiler;
  std::string build_type;
  std::string processor;  // -march
};

BuildInfo build_info();

}  // namespace mrb
