#include "server/cost_predictor.h"

#include <algorithm>
#include <cmath>

namespace attnd::server {
namespace {

// A large request tells more than a small one, whose overhead and luck weigh
// more; half a second of work is about the memory of a factor.
constexpr double kMemorySeconds = 0.5;
constexpr double kMostWeight = 0.2;
// Small ones alone must be able to correct it as well.
constexpr double kLeastWeight = 0.005;

// How long no request may end before a factor shrinks, how often it does then,
// and to which power.
constexpr std::chrono::seconds kSilence(1);
constexpr std::chrono::milliseconds kShrinkPeriod(100);
constexpr double kShrunk = 0.9;

}  // namespace

double CostPredictor::Predict(const Work& work, absl::string_view encoding,
                              Instant now) {
  const double modelled = model_.Predict(work);
  std::lock_guard lock(mutex_);
  const auto it = factors_.find(encoding);
  if (it == factors_.end()) return modelled;
  Factor& factor = it->second;
  if (factor.value > 1 && now - factor.changed > kSilence) {
    factor.value = std::pow(factor.value, kShrunk);
    factor.changed += kShrinkPeriod;
    // After a long time without requests it shrinks once, not often.
    factor.changed = std::max(factor.changed, now - kSilence);
  }
  return factor.value * modelled;
}

void CostPredictor::Observe(const Work& work, absl::string_view encoding,
                            double seconds, Instant now) {
  const double modelled = model_.Predict(work);
  const double ratio = seconds / modelled;
  if (!(modelled > 0) || !std::isfinite(ratio) || seconds <= 0) return;
  const double weight =
      std::clamp(seconds / kMemorySeconds, kLeastWeight, kMostWeight);
  std::lock_guard lock(mutex_);
  auto it = factors_.find(encoding);
  if (it == factors_.end()) {
    it = factors_.emplace(std::string(encoding), Factor{}).first;
  }
  Factor& factor = it->second;
  // In the logarithm: half and double are equally far.
  factor.value = std::clamp(std::exp((1 - weight) * std::log(factor.value) +
                                     weight * std::log(ratio)),
                            kLeastFactor, kMostFactor);
  factor.changed = now;
}

std::map<std::string, double> CostPredictor::factors() const {
  std::map<std::string, double> values;
  std::lock_guard lock(mutex_);
  for (const auto& [name, factor] : factors_) values[name] = factor.value;
  return values;
}

}  // namespace attnd::server
