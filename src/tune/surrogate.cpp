#include "tune/surrogate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "tune/smoothing.hpp"

namespace mrb {

namespace {

constexpr double kRoughSlope = 0.5;     // how much of what no axis explains is expected to be real
constexpr double kLevelVariance = 1;    // of the unknown mean: as good as flat
constexpr double kSlopeVariance = 0.5;  // around 1: a model that is right, one that says nothing, one upside down

// Where the search for the sizes begins, and how far from it the observations must pull: typical numbers of whole
// steps, each known within a factor of about three.
constexpr double kStructure = 0.2, kOwn = 0.1, kNoise = 0.012, kBlock = 0.03, kPriorSd = 1.0;
constexpr double kAxis = -0.8, kAxisPriorSd = 1.5;  // log-odds

// Launches that something else on the machine made slow: how many, and by how much at most (in log time).
constexpr double kStragglerShare = 0.03, kStragglerMost = 0.4;

double square(double x) {
  return x * x;
}

// U of U'U, in place, of the upper triangle of a symmetric matrix; false when it is not positive definite.
bool cholesky(std::vector<double>& matrix, std::size_t n) {
  for (std::size_t k = 0; k < n; ++k) {
    double* row = &matrix[k * n];
    if (!(row[k] > 0)) return false;
    const double scale = 1 / std::sqrt(row[k]);
    for (std::size_t j = k; j < n; ++j) row[j] *= scale;
    for (std::size_t i = k + 1; i < n; ++i) {
      double* below = &matrix[i * n];
      const double factor = row[i];
      for (std::size_t j = i; j < n; ++j) below[j] -= factor * row[j];
    }
  }
  return true;
}

// Solves U' x = b for `columns` right-hand sides at once; b is [n][columns].
void solve_lower(const std::vector<double>& upper, std::size_t n, std::vector<double>& b, std::size_t columns) {
  for (std::size_t k = 0; k < n; ++k) {
    double* row = b.data() + k * columns;
    for (std::size_t c = 0; c < columns; ++c) row[c] /= upper[k * n + k];
    for (std::size_t j = k + 1; j < n; ++j) {
      double* below = b.data() + j * columns;
      const double factor = upper[k * n + j];
      for (std::size_t c = 0; c < columns; ++c) below[c] -= factor * row[c];
    }
  }
}

void solve_upper(const std::vector<double>& upper, std::size_t n, std::vector<double>& b) {
  for (std::size_t k = n; k-- > 0;) {
    for (std::size_t j = k + 1; j < n; ++j) b[k] -= upper[k * n + j] * b[j];
    b[k] /= upper[k * n + k];
  }
}

}  // namespace

Surrogate::Surrogate(const std::vector<TuneCandidate>& candidates) {
  for (const TuneCandidate& candidate : candidates) {
    axis_count_ = std::max(axis_count_, static_cast<int>(candidate.levels.size()));
  }
  const auto axes = static_cast<std::size_t>(axis_count_);
  const auto level = [&](const TuneCandidate& candidate, std::size_t axis) {
    return axis < candidate.levels.size() ? candidate.levels[axis] : -1;
  };
  place_.resize(candidates.size() * axes);
  for (std::size_t axis = 0; axis < axes; ++axis) {
    int low = level(candidates[0], axis), high = low;
    for (const TuneCandidate& candidate : candidates) {
      low = std::min(low, level(candidate, axis));
      high = std::max(high, level(candidate, axis));
    }
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      place_[c * axes + axis] =
          high == low ? 0 : static_cast<float>(level(candidates[c], axis) - low) / static_cast<float>(high - low);
    }
  }
  smooth_ = smooth_log_predictions(candidates);
  const double mean = std::accumulate(smooth_.begin(), smooth_.end(), 0.0) / static_cast<double>(smooth_.size());
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    rough_.push_back(candidates[c].predicted_s ? std::log(*candidates[c].predicted_s) - smooth_[c] : 0);
    smooth_[c] -= mean;
  }
  sizes_ = {std::log(kStructure), std::log(kOwn), std::log(kNoise), std::log(kBlock), std::vector<double>(axes, kAxis)};
  take(sizes_);
}

void Surrogate::take(const Sizes& sizes) {
  structure_variance_ = std::exp(2 * sizes.structure);
  own_variance_ = std::exp(2 * sizes.own);
  noise_variance_ = std::exp(2 * sizes.noise);
  block_variance_ = std::exp(2 * sizes.block);
  axis_weight_.clear();
  for (const double odds : sizes.axis) axis_weight_.push_back(static_cast<float>(1 / (1 + std::exp(-odds))));
}

// The levels of an axis may be names or numbers. Half of the distance is that they differ at all, half how far apart
// they stand.
double Surrogate::level_distance(std::size_t axis, int a, int b) const {
  const auto axes = static_cast<std::size_t>(axis_count_);
  const float apart =
      std::abs(place_[static_cast<std::size_t>(a) * axes + axis] - place_[static_cast<std::size_t>(b) * axes + axis]);
  return apart == 0 ? 0 : 0.5 + 0.5 * apart;
}

double Surrogate::likeness(int a, int b) const {
  double product = 1;
  for (std::size_t axis = 0; axis < axis_weight_.size(); ++axis) {
    product *= 1 - axis_weight_[axis] * level_distance(axis, a, b);
  }
  return product;
}

double Surrogate::prior_mean(int c) const {
  return smooth_[static_cast<std::size_t>(c)] + rough_[static_cast<std::size_t>(c)] * kRoughSlope;
}

double Surrogate::prior_covariance(int a, int b) const {
  const auto i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
  return kLevelVariance + kSlopeVariance * (smooth_[i] * smooth_[j] + rough_[i] * rough_[j]) +
         structure_variance_ * likeness(a, b) + (a == b ? own_variance_ : 0);
}

bool Surrogate::factorize() {
  const std::size_t n = observations_.size();
  const std::size_t axes = axis_weight_.size();
  upper_.assign(n * n, 0);
  const float* distance = distance_.data();
  for (std::size_t i = 0; i < n; ++i) {
    const auto a = static_cast<std::size_t>(observations_[i].candidate);
    for (std::size_t j = 0; j <= i; ++j) {
      float product = 1;
      for (std::size_t axis = 0; axis < axes; ++axis) product *= 1 - axis_weight_[axis] * distance[axis];
      distance += axes;
      const auto b = static_cast<std::size_t>(observations_[j].candidate);
      upper_[j * n + i] = kLevelVariance + kSlopeVariance * (smooth_[a] * smooth_[b] + rough_[a] * rough_[b]) +
                          structure_variance_ * static_cast<double>(product) + (a == b ? own_variance_ : 0) +
                          (observations_[i].block == observations_[j].block ? block_variance_ : 0) +
                          (i == j ? noise_variance_ : 0);
    }
  }
  return cholesky(upper_, n);
}

// Of the observations given the sizes, times the sizes' own prior; without constants.
double Surrogate::log_likelihood(const Sizes& sizes) {
  take(sizes);
  if (!factorize()) return -INFINITY;
  const std::size_t n = observations_.size();
  std::vector<double> whitened = residual_;
  solve_lower(upper_, n, whitened, 1);
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum -= std::log(upper_[i * n + i]) + square(whitened[i]) / 2;
  const auto prior = [&](double size, double center) { sum -= square((size - std::log(center)) / kPriorSd) / 2; };
  prior(sizes.structure, kStructure);
  prior(sizes.own, kOwn);
  prior(sizes.noise, kNoise);
  prior(sizes.block, kBlock);
  for (const double odds : sizes.axis) sum -= square((odds - kAxis) / kAxisPriorSd) / 2;
  return sum;
}

void Surrogate::fit(std::span<const Observation> observations) {
  observations_.assign(observations.begin(), observations.end());
  const std::size_t n = observations_.size();
  residual_.clear();
  double sum = 0;
  for (const Observation& observation : observations_) {
    residual_.push_back(observation.log_s - prior_mean(observation.candidate));
    sum += residual_.back();
  }
  level_ = sum / static_cast<double>(n);
  for (double& residual : residual_) residual -= level_;
  distance_.clear();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      for (std::size_t axis = 0; axis < axis_weight_.size(); ++axis) {
        distance_.push_back(
            static_cast<float>(level_distance(axis, observations_[i].candidate, observations_[j].candidate)));
      }
    }
  }

  // Pattern search, one size at a time: a likelihood of so few observations is smooth and not worth more.
  std::vector<double*> knobs = {&sizes_.structure, &sizes_.own, &sizes_.noise, &sizes_.block};
  for (double& odds : sizes_.axis) knobs.push_back(&odds);
  double best = log_likelihood(sizes_);
  for (const double step : {0.8, 0.4}) {
    for (int sweep = 0, moved = 1; sweep < 3 && moved > 0; ++sweep) {
      moved = 0;
      for (double* knob : knobs) {
        for (const double direction : {step, -step}) {
          const double before = *knob;
          *knob = before + direction;
          const double found = log_likelihood(sizes_);
          if (found > best + 1e-6) {
            best = found;
            ++moved;
            break;
          }
          *knob = before;
        }
      }
    }
  }
  take(sizes_);
  factorize();
  weight_ = residual_;
  solve_lower(upper_, n, weight_, 1);
  solve_upper(upper_, n, weight_);
}

std::vector<double> Surrogate::means() const {
  std::vector<double> means(smooth_.size());
  for (std::size_t c = 0; c < means.size(); ++c) {
    double sum = level_ + prior_mean(static_cast<int>(c));
    for (std::size_t i = 0; i < weight_.size(); ++i) {
      sum += weight_[i] * prior_covariance(static_cast<int>(c), observations_[i].candidate);
    }
    means[c] = sum;
  }
  return means;
}

Beliefs Surrogate::beliefs(std::vector<int> candidates) const {
  const std::size_t n = observations_.size(), count = candidates.size();
  Beliefs beliefs;
  beliefs.surrogate_ = this;
  beliefs.noise_variance = noise_variance_;
  beliefs.explained_.resize(n * count);
  for (std::size_t c = 0; c < count; ++c) {
    double mean = level_ + prior_mean(candidates[c]);
    for (std::size_t i = 0; i < n; ++i) {
      const double covariance = prior_covariance(candidates[c], observations_[i].candidate);
      beliefs.explained_[i * count + c] = covariance;
      mean += weight_[i] * covariance;
    }
    beliefs.mean.push_back(mean);
    beliefs.variance.push_back(prior_covariance(candidates[c], candidates[c]));
  }
  solve_lower(upper_, n, beliefs.explained_, count);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t c = 0; c < count; ++c) beliefs.variance[c] -= square(beliefs.explained_[i * count + c]);
  }
  for (double& variance : beliefs.variance) variance = std::max(variance, 1e-12);
  beliefs.candidates = std::move(candidates);
  return beliefs;
}

// What is left of an observation when the others are known (Rasmussen and Williams, 5.12): its mean is y - w / k and its
// variance 1 / k, for k on the diagonal of the inverse covariance and w = inverse x residual.
std::vector<std::optional<Surrogate::SecondLook>> Surrogate::second_looks() const {
  const std::size_t n = observations_.size();
  std::vector<int> launches(smooth_.size());
  for (const Observation& observation : observations_) ++launches[static_cast<std::size_t>(observation.candidate)];
  std::vector<std::optional<SecondLook>> looks(smooth_.size());
  for (std::size_t i = 0; i < n; ++i) {
    const int c = observations_[i].candidate;
    if (launches[static_cast<std::size_t>(c)] != 1) continue;
    std::vector<double> column(n, 0);
    column[i] = 1;
    solve_lower(upper_, n, column, 1);
    const double inverse = std::inner_product(column.begin(), column.end(), column.begin(), 0.0);
    const double late = weight_[i] / inverse, variance = 1 / inverse;  // by how much it was slower than expected
    if (late <= 0 || late >= kStragglerMost) continue;
    const double usual =
        (1 - kStragglerShare) * std::exp(-late * late / variance / 2) / std::sqrt(2 * std::numbers::pi * variance);
    const double straggler = kStragglerShare / kStragglerMost;
    const double own = std::max(variance - noise_variance_, 1e-12);
    const Beliefs with = beliefs({c});
    looks[static_cast<std::size_t>(c)] = {with.mean[0] - late * own / variance, own, straggler / (straggler + usual)};
  }
  return looks;
}

double Surrogate::noise_sd() const {
  return std::sqrt(noise_variance_);
}

double Beliefs::covariance(int i, int j) const {
  const auto a = static_cast<std::size_t>(i), b = static_cast<std::size_t>(j);
  const std::size_t count = candidates.size();
  double sum = surrogate_->prior_covariance(candidates[a], candidates[b]);
  for (std::size_t row = 0; row < explained_.size(); row += count) sum -= explained_[row + a] * explained_[row + b];
  return sum;
}

void Beliefs::condition_on(int i) {
  const double scale = 1 / std::sqrt(variance[static_cast<std::size_t>(i)] + noise_variance);
  std::vector<double> row(candidates.size());
  for (std::size_t j = 0; j < row.size(); ++j) row[j] = covariance(i, static_cast<int>(j)) * scale;
  for (std::size_t j = 0; j < row.size(); ++j) variance[j] = std::max(variance[j] - square(row[j]), 1e-12);
  explained_.insert(explained_.end(), row.begin(), row.end());
}

}  // namespace mrb
