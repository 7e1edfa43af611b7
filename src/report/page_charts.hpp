// Charts as HTML and SVG without script. Their texts are HTML, so that they keep their size on any width.
#pragma once

#include <string>
#include <vector>

namespace mrb {

struct BarPart {
  std::string name;
  double value = 0;
  int colour = 0;  // of the palette in the style sheet
};

struct Bar {
  std::string label;
  std::string note;  // shown behind the label: "204.2 ms [198.1, 210.3]"
  std::vector<BarPart> parts;
};

// Horizontal stacked bars over one axis from 0, with a legend of all parts and the axis's title with its unit.
std::string stacked_bars(const std::vector<Bar>&, const std::string& axis_title, const std::string& unit);

struct PointSeries {
  std::string name;
  int colour = 0;
  std::vector<std::pair<double, double>> points;
};

struct AxisTitles {
  std::string x, y;  // with units
};

// Points over two axes from 0, with a legend.
std::string point_chart(const std::vector<PointSeries>&, const AxisTitles&);

// Colours in the palette; further series begin again.
constexpr int kPaletteSize = 8;

}  // namespace mrb
