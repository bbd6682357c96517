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

}  // namespace

double CostPredictor::Predict(const Work& work,
                              absl::string_view encoding) const {
  const double modelled = model_.Predict(work);
  std::lock_guard lock(mutex_);
  const auto it = factors_.find(encoding);
  return it == factors_.end() ? modelled : it->second * modelled;
}

void CostPredictor::Observe(const Work& work, absl::string_view encoding,
                            double seconds) {
  const double modelled = model_.Predict(work);
  const double ratio = seconds / modelled;
  if (!(modelled > 0) || !std::isfinite(ratio) || seconds <= 0) return;
  const double weight =
      std::clamp(seconds / kMemorySeconds, kLeastWeight, kMostWeight);
  std::lock_guard lock(mutex_);
  const auto it = factors_.find(encoding);
  double& factor =
      it != factors_.end()
          ? it->second
          : factors_.emplace(std::string(encoding), 1).first->second;
  // In the logarithm: half and double are equally far.
  factor = std::clamp(
      std::exp((1 - weight) * std::log(factor) + weight * std::log(ratio)),
      kLeastFactor, kMostFactor);
}

std::map<std::string, double> CostPredictor::factors() const {
  std::lock_guard lock(mutex_);
  return {factors_.begin(), factors_.end()};
}

}  // namespace attnd::server
