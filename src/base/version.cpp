#include "base/version.hpp"

namespace mrb {

BuildInfo build_info() {
  return {MRB_VERSION,
#include "git_commit.inc"
          , MRB_COMPILER, MRB_BUILD_TYPE, MRB_PROCESSOR};
}

}  // namespace mrb
