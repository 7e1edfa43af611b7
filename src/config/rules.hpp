// What must fit together: rules about several fields of one point.
#pragma once

#include <string>
#include <vector>

#include "config/config.hpp"

namespace mrb {

// Fields that do not fit each other.
struct Misfit {
  std::vector<std::string> keys;  // of the fields involved, the likeliest to be meant first
  std::string problem;
  std::string fix;
};

// What a configuration is read for.
enum class Purpose {
  examine,  // ranks and a transport, no model: no rule about what is computed
  show,     // to be looked at or predicted
  run,      // what executing needs, too: attention we have, a provider for libfabric
  tune      // the same; but combinations that do not fit are no fault, as long as some fit
};

std::vector<Misfit> misfits(const Config&, Purpose);

}  // namespace mrb
