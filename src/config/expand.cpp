#include "config/expand.hpp"

#include <algorithm>
#include <set>

#include "config/fields.hpp"

namespace mrb {

namespace {

// One choice of a value for every field, by its place in the list.
using Choice = std::vector<std::size_t>;

// The next choice, the last field fastest; false after the last one.
bool advance(Choice& choice, const Settings& settings) {
  for (std::size_t i = choice.size(); i-- > 0;) {
    if (++choice[i] < settings.fields[i].values.size()) return true;
    choice[i] = 0;
  }
  return false;
}

// Fields without meaning get their default, so that points which differ in them alone are equal.
void settle(Config& config) {
  static const Config defaults;
  for (const Field& field : fields()) {
    if (field.applies && !field.applies(config)) field.set(config, field.get(defaults));
  }
}

Point make_point(const Settings& settings, const Choice& choice) {
  Point point;
  for (std::size_t i = 0; i < choice.size(); ++i) {
    const auto& values = settings.fields[i].values;
    if (!values.empty()) fields()[i].set(point.config, values[choice[i]]);
  }
  settle(point.config);
  for (std::size_t i = 0; i < choice.size(); ++i) {
    const Field& field = fields()[i];
    if (settings.fields[i].values.size() < 2 || (field.applies && !field.applies(point.config))) continue;
    (field.kind == FieldKind::workload ? point.workload : point.method)[field.key] = field.get(point.config);
  }
  return point;
}

// The method of the baseline: what the user named, and the first value of what was not named.
bool is_baseline(const Settings& settings, const Config& config) {
  Config wanted = config;
  for (std::size_t i = 0; i < fields().size(); ++i) {
    const Field& field = fields()[i];
    if (field.kind != FieldKind::method) continue;
    const auto named = settings.baseline.find(field.key);
    field.set(wanted, named != settings.baseline.end() ? named->second : settings.fields[i].values.front());
  }
  settle(wanted);
  return canonical_lines(wanted, FieldSet::all) == canonical_lines(config, FieldSet::all);
}

}  // namespace

std::vector<Point> expand(const Settings& settings) {
  std::vector<Point> points;
  std::set<std::string> seen;
  Choice choice(settings.fields.size());
  do {
    Point point = make_point(settings, choice);
    if (!seen.insert(canonical_lines(point.config, FieldSet::all)).second) continue;
    point.is_baseline = is_baseline(settings, point.config);
    points.push_back(std::move(point));
  } while (advance(choice, settings));
  return points;
}

std::string canonical_lines(const Config& config, FieldSet set) {
  std::string lines;
  for (const Field& field : fields()) {
    if (field.applies && !field.applies(config)) continue;
    const bool is_work = field.kind == FieldKind::workload || field.key == "seed";
    if (set == FieldSet::workload && !is_work) continue;
    if (set == FieldSet::method && field.kind != FieldKind::method) continue;
    lines += field.key + "=" + field.get(config) + "\n";
  }
  return lines;
}

}  // namespace mrb
