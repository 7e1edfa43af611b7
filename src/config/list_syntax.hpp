// Lists as users write them on one line.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace mrb {

constexpr std::size_t kListValuesMax = 1000;  // of one field

struct SplitList {
  std::vector<std::string> values;
  std::string problem, fix;  // empty when there is none
};

// "1,2,4" is 1 2 4, "1-8*2" is 1 2 4 8, "8-64+8" is 8 16 ... 64; the forms mix. Anything else is one value, to be
// judged by its field. A range that goes nowhere and a list of more than kListValuesMax values are problems.
SplitList split_list(const std::string& text);

}  // namespace mrb
