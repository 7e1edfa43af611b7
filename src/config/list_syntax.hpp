// Lists as users write them on one line.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace mrb {

// "1,2,4" is 1 2 4, "1-8*2" is 1 2 4 8, "8-64+8" is 8 16 ... 64; the forms mix. Anything else is one value. Nothing is
// returned for a range that would never end or has more than `most` values.
std::optional<std::vector<std::string>> split_list(const std::string& text, std::size_t most);

}  // namespace mrb
