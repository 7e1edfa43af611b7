// Recorded lengths of answers, one per line, for grpo.length_file.
#pragma once

#include <string>
#include <vector>

namespace mrb {

// The lengths in tokens, in the file's order, or what is wrong with it and how to put it right.
struct LengthFile {
  std::vector<int> lengths;
  std::string problem;  // empty: nothing
  std::string fix;
};

// Takes a regular file of at most 16 MiB with at least one length, each of 1 to 1048576; empty lines are skipped.
LengthFile read_length_file(const std::string& path);

}  // namespace mrb
