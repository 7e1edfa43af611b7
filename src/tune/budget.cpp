#include "tune/budget.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "config/faults.hpp"

namespace mrb {

namespace {

constexpr double kLaunchesMax = 1e6, kElapsedMax_s = 1e8;

// The number in front; what follows it, without spaces, is left in `unit`. Not above 0: there is none.
double number_in(const std::string& text, std::string& unit) {
  double number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  unit.assign(rest, text.data() + text.size());
  std::erase(unit, ' ');
  return error == std::errc() && std::isfinite(number) ? number : 0;
}

double seconds_in(double number, const std::string& unit, int ranks) {
  if (unit == "s") return number;
  if (unit == "m") return number * 60;
  if (unit == "h") return number * 3600;
  if (unit == "gpu-h") return number * 3600 / ranks;
  return 0;
}

// Of two limits, of which 0 is none.
template <typename Number>
Number tighter(Number a, Number b) {
  return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b);
}

}  // namespace

TuneBudget parse_budget(const std::vector<std::string>& texts, int ranks) {
  TuneBudget budget;
  Faults faults;
  for (const std::string& text : texts) {
    std::string unit;
    const double number = number_in(text, unit);
    const double elapsed_s = seconds_in(number, unit, ranks);
    const bool is_count = unit == "launches" && number >= 1 && number <= kLaunchesMax && number == std::floor(number);
    if (is_count) {
      budget.launches = tighter(budget.launches, static_cast<int>(number));
    } else if (elapsed_s > 0 && elapsed_s <= kElapsedMax_s) {
      budget.elapsed_s = tighter(budget.elapsed_s, elapsed_s);
    } else {
      faults.add("--budget", fmt::format("is '{}'", shown(text)),
                 "give a time (90s, 30m, 2h), '200 launches' or '50 gpu-h', above 0");
    }
  }
  faults.report();
  return budget;
}

}  // namespace mrb
