#include "report/config_json.hpp"

#include <string>

#include "config/settings.hpp"

namespace mrb {

nlohmann::ordered_json config_json(const Config& config) {
  auto json = nlohmann::ordered_json::object();
  const std::string lines = canonical_lines(config, FieldSet::all);
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = lines.find('\n', begin), equals = lines.find('=', begin);
    json[lines.substr(begin, equals - begin)] = lines.substr(equals + 1, end - equals - 1);
    begin = end + 1;
  }
  return json;
}

}  // namespace mrb
