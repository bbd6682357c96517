#include "server/cost_predictor.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace attnd::server {
namespace {

// Standard deviations, in the logarithm. How far predictions are off where
// nothing is wrong: caches, interrupts, clocks.
constexpr double kNoise = 0.17;
// Of the factor and of rates before the first request; encodings differ in
// everything.
constexpr double kUnknown = 0.7;
// What they become anew from request to request: some ten requests follow a
// machine that changes.
constexpr double kForgotten = 0.1;
// Further off, a measurement may be strange and counts as only so far off.
constexpr double kStrange = 0.09;
constexpr int kMostStrange = 10;
// A rate alone stays within this factor of the calibrated one.
constexpr double kMostRate = 8;

// How long no request may end before corrections shrink, how often they do
// then, and to which power.
constexpr std::chrono::seconds kSilence(1);
constexpr std::chrono::milliseconds kShrinkPeriod(100);
constexpr double kShrunk = 0.9;

double Sum(const CostModel::Parts& parts) {
  return std::accumulate(parts.begin(), parts.end(), 0.0);
}

double Bounded(double predicted, double modelled) {
  return std::clamp(predicted, CostPredictor::kLeastFactor * modelled,
                    CostPredictor::kMostFactor * modelled);
}

}  // namespace

CostPredictor::Correction::Correction() {
  factor.variance = kUnknown * kUnknown;
  for (Log& rate : rates) rate.variance = kUnknown * kUnknown;
}

CostModel::Parts CostPredictor::Corrected(const Correction& correction,
                                          CostModel::Parts parts) {
  for (size_t i = 0; i < parts.size(); ++i) {
    parts[i] *=
        std::exp(correction.rates[i].value +
                 (CostModel::kTerms[i].fixed ? 0 : correction.factor.value));
  }
  return parts;
}

double CostPredictor::Predict(const Work& work, absl::string_view encoding,
                              Instant now) {
  const CostModel::Parts parts = model_.PartsOf(work);
  const double modelled = Sum(parts);
  std::lock_guard lock(mutex_);
  const auto it = corrections_.find(encoding);
  if (it == corrections_.end()) return modelled;
  Correction& correction = it->second;
  if (now - correction.changed > kSilence) {
    const auto shrink = [](Log& log) {
      if (log.value > 0) log.value *= kShrunk;
    };
    shrink(correction.factor);
    std::for_each(correction.rates.begin(), correction.rates.end(), shrink);
    correction.changed += kShrinkPeriod;
    // After a long time without requests it shrinks once, not often.
    correction.changed = std::max(correction.changed, now - kSilence);
  }
  return Bounded(Sum(Corrected(correction, parts)), modelled);
}

void CostPredictor::Observe(const Work& work, absl::string_view encoding,
                            double seconds, Instant now) {
  const CostModel::Parts parts = model_.PartsOf(work);
  const double modelled = Sum(parts);
  if (!(modelled > 0) || !std::isfinite(seconds / modelled) || seconds <= 0) {
    return;
  }
  std::lock_guard lock(mutex_);
  auto it = corrections_.find(encoding);
  if (it == corrections_.end()) {
    it = corrections_.emplace(std::string(encoding), Correction{}).first;
  }
  Correction& correction = it->second;
  CostModel::Parts shares = Corrected(correction, parts);
  const double predicted = Sum(shares);
  correction.last = Bounded(predicted, modelled) / modelled;
  correction.changed = now;

  double off = std::log(seconds / predicted);
  const int sign = off > 0 ? 1 : -1;
  int& strange = correction.strange;
  if (std::abs(off) < kStrange) {
    strange = 0;
  } else {
    strange = strange * sign > 0 ? strange + sign : sign;
    strange = std::clamp(strange, -kMostStrange, kMostStrange);
    off = sign * std::min(std::abs(off), kStrange * std::abs(strange));
  }
  // Least squares (a Kalman filter that forgets how errors hang together): each
  // gives way by its share and by how little is known of it, as far as noise
  // does not explain the error.
  double of_encoding = 0, variance = kNoise * kNoise;
  for (size_t i = 0; i < shares.size(); ++i) {
    shares[i] /= predicted;
    variance += shares[i] * shares[i] * correction.rates[i].variance;
    if (!CostModel::kTerms[i].fixed) of_encoding += shares[i];
  }
  variance += of_encoding * of_encoding * correction.factor.variance;
  const auto move = [&](Log& log, double share, double least, double most) {
    const double gain = share * log.variance / variance;
    log.value =
        std::clamp(log.value + gain * off, std::log(least), std::log(most));
    log.variance =
        std::max((1 - gain * share) * log.variance, kForgotten * kForgotten);
  };
  move(correction.factor, of_encoding, kLeastFactor, kMostFactor);
  for (size_t i = 0; i < shares.size(); ++i) {
    move(correction.rates[i], shares[i], 1 / kMostRate, kMostRate);
  }
}

std::map<std::string, double> CostPredictor::factors() const {
  std::map<std::string, double> values;
  std::lock_guard lock(mutex_);
  for (const auto& [name, correction] : corrections_) {
    values[name] = correction.last;
  }
  return values;
}

}  // namespace attnd::server
