// The cost model, kept true by what requests really cost.
#ifndef ATTND_SERVER_COST_PREDICTOR_H_
#define ATTND_SERVER_COST_PREDICTOR_H_

#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "absl/strings/string_view.h"
#include "server/cost_model.h"
#include "server/time_source.h"

namespace attnd::server {

// What was calibrated at start is about right for the usual encodings on a
// quiet machine. Others cost more, and neighbours and throttling slow a worker:
// per encoding, a factor and a correction of each rate follow what requests
// took. Of an error each gives way by its share in the prediction, so that
// small requests teach what is fixed and large ones what they are full of.
// Thread-safe.
class CostPredictor {
 public:
  // A prediction over that of the model stays between these: one that is far
  // off must neither close nor open the door.
  static constexpr double kLeastFactor = 0.25;
  static constexpr double kMostFactor = 32;

  explicit CostPredictor(const CostModel& model) : model_(model) {}

  // Worker seconds. Corrections above 1 that keep all requests out would never
  // be corrected: while requests come and none ends for a second, they shrink.
  double Predict(const Work& work, absl::string_view encoding,
                 Instant now = std::chrono::steady_clock::now());
  // A request of that encoding took `seconds` of workers. One that is off by
  // more than a tenth counts as if it were off by that, two in the same
  // direction by twice that, and so on: one strange measurement moves
  // predictions by a tenth at most, ten of them all the way.
  void Observe(const Work& work, absl::string_view encoding, double seconds,
               Instant now = std::chrono::steady_clock::now());

  const CostModel& model() const { return model_; }
  // Of all encodings that were observed: predicted over modelled cost of the
  // last request.
  std::map<std::string, double> factors() const;

 private:
  // The logarithm of what something is multiplied by; 0 = as calibrated.
  struct Log {
    double value = 0;
    double variance;  // of what is not known of it
  };
  struct Correction {
    Correction();
    Log factor;
    std::array<Log, CostModel::kTerms.size()> rates;
    int strange = 0;  // far off one after the other, < 0: too cheap
    double last = 1;  // for factors()
    Instant changed = {};
  };
  static CostModel::Parts Corrected(const Correction& correction,
                                    CostModel::Parts parts);

  const CostModel model_;
  mutable std::mutex mutex_;  // guards the next
  std::map<std::string, Correction, std::less<>> corrections_;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_COST_PREDICTOR_H_
