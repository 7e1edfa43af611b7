#include "report/page_charts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "report/markup.hpp"

namespace mrb {

namespace {

// 1, 2 or 5 times a power of ten, so that about `steps` of them reach `end`.
double tick_step(double end, int steps) {
  const double rough = end / steps;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (rough <= factor * power) return factor * power;
  }
  return 10 * power;
}

struct Axis {
  double end = 1;
  std::vector<double> ticks;
};

// From 0 to the first tick that holds all.
Axis axis_to(double value) {
  constexpr int kSteps = 4;
  if (!(value > 0) || !std::isfinite(value)) value = 1;
  const double step = tick_step(value, kSteps);
  Axis axis{.end = std::ceil(value / step) * step};
  for (int i = 0; i * step <= axis.end * (1 + 1e-9); ++i) axis.ticks.push_back(i * step);
  return axis;
}

std::string legend(const std::vector<std::pair<std::string, int>>& entries) {
  std::string text = "<ul class=\"legend\">";
  for (const auto& [name, colour] : entries)
    text += fmt::format("<li><span class=\"key c{}\"></span>{}</li>", colour % kPaletteSize, xml_text(name));
  return text + "</ul>\n";
}

// Ticks along an x axis; those at the ends stay within the width.
std::string x_ticks(const Axis& axis) {
  std::string text = "<div class=\"xticks\">";
  for (const double tick : axis.ticks) text += fmt::format("<span>{:g}</span>", tick);
  return text + "</div>";
}

}  // namespace

std::string stacked_bars(const std::vector<Bar>& bars, const std::string& axis_title, const std::string& unit) {
  double longest = 0;
  std::vector<std::pair<std::string, int>> names;
  std::map<std::string, bool> seen;
  for (const Bar& bar : bars) {
    double sum = 0;
    for (const BarPart& part : bar.parts) {
      sum += part.value;
      if (!std::exchange(seen[part.name], true)) names.emplace_back(part.name, part.colour);
    }
    longest = std::max(longest, sum);
  }
  const Axis axis = axis_to(longest);
  std::string text = "<figure class=\"bars\">\n";
  for (const Bar& bar : bars) {
    text += fmt::format("<p class=\"barlabel\"><b>{}</b> {}</p>\n<div class=\"bar\">", xml_text(bar.label),
                        xml_text(bar.note));
    for (const BarPart& part : bar.parts) {
      text += fmt::format("<span class=\"c{}\" style=\"width:{:.4f}%\" title=\"{}: {:.3f} {}\"></span>",
                          part.colour % kPaletteSize, part.value / axis.end * 100, xml_text(part.name), part.value,
                          xml_text(unit));
    }
    text += "</div>\n";
  }
  return text + x_ticks(axis) +
         fmt::format("<p class=\"axis\">{}</p>\n{}</figure>\n", xml_text(axis_title), legend(names));
}

std::string point_chart(const std::vector<PointSeries>& series, const AxisTitles& titles) {
  double x_max = 0, y_max = 0;
  std::vector<std::pair<std::string, int>> names;
  for (const PointSeries& one : series) {
    names.emplace_back(one.name, one.colour);
    for (const auto& [x, y] : one.points) {
      x_max = std::max(x_max, x);
      y_max = std::max(y_max, y);
    }
  }
  const Axis x_axis = axis_to(x_max), y_axis = axis_to(y_max);
  constexpr double kSide = 1000;  // the SVG is stretched to its place; strokes are not
  std::string lines, dots;
  for (const double tick : y_axis.ticks)
    lines += fmt::format("M0 {:.1f}H{:.0f}", kSide * (1 - tick / y_axis.end), kSide);
  for (const PointSeries& one : series) {
    std::string path;
    for (const auto& [x, y] : one.points)
      path += fmt::format("M{:.1f} {:.1f}h0", kSide * x / x_axis.end, kSide * (1 - y / y_axis.end));
    dots += fmt::format("<path class=\"dots s{}\" d=\"{}\"/>\n", one.colour % kPaletteSize, path);
  }
  std::string y_labels;
  for (auto tick = y_axis.ticks.rbegin(); tick != y_axis.ticks.rend(); ++tick)
    y_labels += fmt::format("<span>{:g}</span>", *tick);
  return fmt::format(
      "<figure class=\"points\">\n<p class=\"axis ytitle\">{}</p>\n<div class=\"plot\"><div class=\"yticks\">{}</div>"
      "<svg viewBox=\"0 0 {:.0f} {:.0f}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">"
      "<path class=\"grid\" d=\"{}\"/>\n{}</svg>{}</div>\n<p class=\"axis\">{}</p>\n{}</figure>\n",
      xml_text(titles.y), y_labels, kSide, kSide, xml_text(titles.y + " over " + titles.x), lines, dots,
      x_ticks(x_axis), xml_text(titles.x), legend(names));
}

}  // namespace mrb
