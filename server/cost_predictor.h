// The cost model, kept true by what requests really cost.
#ifndef ATTND_SERVER_COST_PREDICTOR_H_
#define ATTND_SERVER_COST_PREDICTOR_H_

#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "absl/strings/string_view.h"
#include "server/cost_model.h"

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

  // Worker seconds.
  double Predict(const Work& work, absl::string_view encoding) const;
  // A request of that encoding took `seconds` of workers.
  void Observe(const Work& work, absl::string_view encoding, double seconds);

  const CostModel& model() const { return model_; }
  // Of all encodings that were observed.
  std::map<std::string, double> factors() const;

 private:
  const CostModel model_;
  mutable std::mutex mutex_;  // guards the next
  std::map<std::string, double, std::less<>> factors_;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_COST_PREDICTOR_H_
