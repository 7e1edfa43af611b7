// Tables of published figures.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace mrb {

using CsvRow = std::map<std::string, std::string>;  // by column

// A table whose first line names the columns; fields may be quoted. A file that cannot be read, is longer than 16 MiB, or
// has a line with another number of fields throws Error(config) that names the line.
std::vector<CsvRow> read_csv(const std::string& path);

}  // namespace mrb
