// What is wrong with a configuration, gathered so that all of it is reported at once.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace mrb {

struct Fault {
  std::string where;  // "quickstart.yaml:3:7", "MRB_SEED", "--set grpo.prompts", "--ranks"
  std::string problem;
  std::string fix;
};

class Faults {
 public:
  // Past a thousand faults it reports at once: nobody reads more, and input without end has to end.
  void add(std::string where, std::string problem, std::string fix);
  bool empty() const { return faults_.empty(); }

  // Throws Error(config) with every fault; does nothing when there are none.
  void report() const;

 private:
  std::vector<Fault> faults_;  // none twice
};

// The text as it may be shown: without control characters, and cut when it is long.
std::string shown(const std::string& text, std::size_t bytes_max = 60);

// Whether the text is UTF-8 without control characters, so that terminals, YAML and JSON all carry it unchanged.
bool is_printable(std::string_view text);

}  // namespace mrb
