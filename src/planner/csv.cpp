#include "planner/csv.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "base/error.hpp"
#include "config/faults.hpp"

namespace mrb {

namespace {

constexpr std::size_t kFileBytesMax = 16 << 20;

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  bool is_quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') {
      if (is_quoted && i + 1 < line.size() && line[i + 1] == '"') {
        fields.back() += line[i++];  // a doubled quote is one
      } else {
        is_quoted = !is_quoted;
      }
    } else if (line[i] == ',' && !is_quoted) {
      fields.emplace_back();
    } else if (line[i] != '\r') {
      fields.back() += line[i];
    }
  }
  return fields;
}

}  // namespace

std::vector<CsvRow> read_csv(const std::string& path) {
  std::error_code error;
  std::ifstream file(path);
  if (!std::filesystem::is_regular_file(path, error) || !file ||
      std::filesystem::file_size(path, error) > kFileBytesMax) {
    throw Error(ErrorKind::config, fmt::format("'{}' is no readable file of at most 16 MiB", shown(path)),
                "name a table of published figures, as configs/calibration/published_comm.csv is one");
  }
  std::vector<std::string> columns;
  std::vector<CsvRow> rows;
  std::size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    const auto fields = fields_of(line);
    if (columns.empty()) {
      columns = fields;
      continue;
    }
    if (fields.size() != columns.size()) {
      throw Error(ErrorKind::config,
                  fmt::format("{}:{}: {} fields, where the first line names {}", shown(path), number, fields.size(),
                              columns.size()),
                  "quote fields that hold commas");
    }
    CsvRow row;
    for (std::size_t i = 0; i < fields.size(); ++i) row[columns[i]] = fields[i];
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace mrb
