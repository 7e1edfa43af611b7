// Reading a file that a user named, whatever it turns out to be.
#pragma once

#include <string>

namespace mrb {

// The text of a regular file of at most 256 KiB without control characters. Anything else throws
// Error(config), and nothing is read without end.
std::string read_text_file(const std::string& path);

}  // namespace mrb
