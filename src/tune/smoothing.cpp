#include "tune/smoothing.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace mrb {

namespace {

constexpr int kSweeps = 12;

// The effects of one axis or one pair of axes: which cell each candidate is in, and what each cell adds.
struct Table {
  std::vector<int> cell;  // [candidate]
  std::vector<double> count;
  std::vector<double> effect;
};

Table make_table(const std::vector<TuneCandidate>& candidates, const std::vector<std::size_t>& predicted, std::size_t a,
                 std::size_t b) {
  Table table;
  table.cell.resize(candidates.size());
  std::map<std::pair<int, int>, int> cells;
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    const std::vector<int>& levels = candidates[c].levels;
    const auto level = [&](std::size_t axis) { return axis < levels.size() ? levels[axis] : -1; };
    table.cell[c] = cells.emplace(std::pair(level(a), level(b)), static_cast<int>(cells.size())).first->second;
  }
  table.count.resize(cells.size());
  table.effect.resize(cells.size());
  for (const std::size_t c : predicted) ++table.count[static_cast<std::size_t>(table.cell[c])];
  return table;
}

// Puts the cells' shrunken means of `residual`, with this table's own effects put back in, into the table, and takes
// them out of `residual`.
void refit(Table& table, const std::vector<std::size_t>& predicted, std::vector<double>& residual) {
  std::vector<double> mean(table.effect.size());
  for (const std::size_t c : predicted) {
    const auto cell = static_cast<std::size_t>(table.cell[c]);
    residual[c] += table.effect[cell];
    mean[cell] += residual[c] / table.count[cell];
  }
  double within = 0, between = 0, chance = 0, cells = 0;
  for (const std::size_t c : predicted) {
    const double off = residual[c] - mean[static_cast<std::size_t>(table.cell[c])];
    within += off * off;
  }
  for (std::size_t cell = 0; cell < mean.size(); ++cell) {
    if (table.count[cell] == 0) continue;
    between += mean[cell] * mean[cell];
    chance += 1 / table.count[cell];
    ++cells;
  }
  const double left = static_cast<double>(predicted.size()) - cells;
  const double noise = left > 0 ? within / left : 0;
  const double effects = left > 0 ? std::max(0.0, (between - noise * chance) / cells) : 0;
  for (std::size_t cell = 0; cell < mean.size(); ++cell) {
    const double spread = table.count[cell] > 0 ? effects + noise / table.count[cell] : 0;
    table.effect[cell] = spread > 0 ? mean[cell] * effects / spread : 0;
  }
  for (const std::size_t c : predicted) residual[c] -= table.effect[static_cast<std::size_t>(table.cell[c])];
}

}  // namespace

std::vector<double> smooth_log_predictions(const std::vector<TuneCandidate>& candidates) {
  std::vector<std::size_t> predicted;
  std::size_t axes = 0;
  double mean = 0;
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    axes = std::max(axes, candidates[c].levels.size());
    if (!candidates[c].predicted_s) continue;
    predicted.push_back(c);
    mean += std::log(*candidates[c].predicted_s);
  }
  std::vector<double> smooth(candidates.size(), 0), residual(candidates.size(), 0);
  if (predicted.empty()) return smooth;
  mean /= static_cast<double>(predicted.size());
  for (const std::size_t c : predicted) residual[c] = std::log(*candidates[c].predicted_s) - mean;

  std::vector<Table> tables;
  for (std::size_t axis = 0; axis < axes; ++axis) tables.push_back(make_table(candidates, predicted, axis, axis));
  for (std::size_t a = 0; a < axes; ++a) {
    for (std::size_t b = 0; b < a; ++b) tables.push_back(make_table(candidates, predicted, a, b));
  }
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (Table& table : tables) refit(table, predicted, residual);
  }
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    smooth[c] = mean;
    if (!candidates[c].predicted_s) continue;
    for (const Table& table : tables) smooth[c] += table.effect[static_cast<std::size_t>(table.cell[c])];
  }
  return smooth;
}

}  // namespace mrb
