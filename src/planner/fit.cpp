#include "planner/fit.hpp"

#include <algorithm>
#include <cmath>

namespace mrb {

namespace {

constexpr int kDescentRounds = 2000;
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

// The coefficient of one term at a time, the others fixed.
void fit_coefficients(std::span<const FitSample> samples, Fit& fit) {
  std::vector<double> scale(samples.size());
  for (std::size_t n = 0; n < samples.size(); ++n) {
    scale[n] = factor_of(fit.log_factors, samples[n]) / samples[n].measured_s;
  }
  for (int round = 0; round < kDescentRounds; ++round) {
    for (std::size_t i = 0; i < fit.coefficients.size(); ++i) {
      double along = 0, square = 0;
      for (std::size_t n = 0; n < samples.size(); ++n) {
        const double x = samples[n].physical_s[i] * scale[n];
        const double rest = 1 - physics_s(fit.coefficients, samples[n]) * scale[n] + fit.coefficients[i] * x;
        along += x * rest;
        square += x * x;
      }
      fit.coefficients[i] = square > 0 ? std::max(0.0, along / square) : 0;
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

Fit fit_samples(std::span<const FitSample> samples) {
  Fit fit;
  fit.coefficients.assign(samples.front().physical_s.size(), 1);
  for (int round = 0; round < kAlternations; ++round) {
    fit_coefficients(samples, fit);
    fit_factors(samples, fit);
  }
  return fit;
}

}  // namespace mrb
