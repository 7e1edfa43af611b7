#include "planner/fit.hpp"

#include <algorithm>
#include <cmath>

namespace mrb {

namespace {

constexpr int kDescentRounds = 20000;
constexpr int kFactorRounds = 30;
constexpr int kAlternations = 4;

double physics_s(const std::vector<double>& coefficients, const FitSample& sample) {
  double seconds = 0;
  for (std::size_t i = 0; i < coefficients.size(); ++i) seconds += coefficients[i] * sample.physical_s[i];
  return seconds;
}

double factor_of(const std::map<std::string, double>& log_factors, const FitSample& sample) {
  double log_factor = 0;
  for (const std::string& name : sample.effects) {
    if (const auto found = log_factors.find(name); found != log_factors.end()) log_factor += found->second;
  }
  return std::exp(log_factor);
}

// The coefficient of one term at a time, the others fixed: on the products of terms, which are summed over the samples
// once.
void fit_coefficients(std::span<const FitSample> samples, std::span<const double> least, Fit& fit) {
  const std::size_t terms = fit.coefficients.size();
  std::vector<double> products(terms * terms), targets(terms);
  for (const FitSample& sample : samples) {
    const double scale = factor_of(fit.log_factors, sample) / sample.measured_s;
    for (std::size_t i = 0; i < terms; ++i) {
      targets[i] += sample.physical_s[i] * scale;
      for (std::size_t j = 0; j < terms; ++j) {
        products[i * terms + j] += sample.physical_s[i] * sample.physical_s[j] * scale * scale;
      }
    }
  }
  for (int round = 0; round < kDescentRounds; ++round) {
    for (std::size_t i = 0; i < terms; ++i) {
      const double square = products[i * terms + i];
      double rest = targets[i];
      for (std::size_t j = 0; j < terms; ++j) {
        if (j != i) rest -= products[i * terms + j] * fit.coefficients[j];
      }
      const double bound = least.empty() ? 0 : least[i];
      fit.coefficients[i] = square > 0 ? std::max(bound, rest / square) : bound;
    }
  }
}

void fit_factors(std::span<const FitSample> samples, Fit& fit) {
  fit.log_factors.clear();
  for (int round = 0; round < kFactorRounds; ++round) {
    std::map<std::string, std::pair<double, int>> left;  // sum and count
    for (const FitSample& sample : samples) {
      const double residual = std::log(sample.measured_s / fit.predict_s(sample));
      for (const std::string& name : sample.effects) {
        left[name].first += residual + fit.log_factors[name];
        ++left[name].second;
      }
    }
    for (const auto& [name, sum] : left) {
      // Half a step at a time: the factors of one sample would all take the same residual.
      const double target = sum.first / (sum.second + 1);
      fit.log_factors[name] += (target - fit.log_factors[name]) / 2;
    }
  }
}

}  // namespace

double Fit::predict_s(const FitSample& sample) const {
  return std::max(1e-12, physics_s(coefficients, sample)) * factor_of(log_factors, sample);
}

Fit fit_samples(std::span<const FitSample> samples, std::span<const double> least) {
  Fit fit;
  fit.coefficients.assign(samples.front().physical_s.size(), 1);
  for (int round = 0; round < kAlternations; ++round) {
    fit_coefficients(samples, least, fit);
    fit_factors(samples, fit);
  }
  return fit;
}

}  // namespace mrb
