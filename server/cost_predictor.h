// The cost model, kept true by what requests really cost.
#ifndef ATTND_SERVER_COST_PREDICTOR_H_
#define ATTND_SERVER_COST_PREDICTOR_H_

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "absl/strings/string_view.h"
#include "server/cost_model.h"
#include "server/time_source.h"

namespace attnd::server {

// What was calibrated at start is right for plain attention on a quiet machine.
// Encodings cost more, and neighbours and throttling slow a worker: per
// encoding, a factor follows measured over modelled cost. Thread-safe.
class CostPredictor {
 public:
  // Factors stay between these: one strange measurement, or a model that is
  // far off, must neither close nor open the door.
  static constexpr double kLeastFactor = 0.25;
  static constexpr double kMostFactor = 32;

  explicit CostPredictor(const CostModel& model) : model_(model) {}

  // Worker seconds. A factor above 1 that keeps all requests out would never be
  // corrected: while requests come and none ends for a second, it shrinks.
  double Predict(const Work& work, absl::string_view encoding,
                 Instant now = std::chrono::steady_clock::now());
  // A request of that encoding took `seconds` of workers.
  void Observe(const Work& work, absl::string_view encoding, double seconds,
               Instant now = std::chrono::steady_clock::now());

  const CostModel& model() const { return model_; }
  // Of all encodings that were observed.
  std::map<std::string, double> factors() const;

 private:
  const CostModel model_;
  mutable std::mutex mutex_;  // guards the next
  struct Factor {
    double value = 1;
    Instant changed = {};
  };
  std::map<std::string, Factor, std::less<>> factors_;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_COST_PREDICTOR_H_
