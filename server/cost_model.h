// What a request will cost a worker: the one predictor that admission, Estimate
// and the scaling metric share.
#ifndef ATTND_SERVER_COST_MODEL_H_
#define ATTND_SERVER_COST_MODEL_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/attention.h"
#include "kernels/linear_plan.h"
#include "kernels/plan.h"

namespace attnd::server {

// Amounts of work that add up to a cost.
struct Work {
  double flops = 0;  // of the matrix products
  double pairs = 0;  // visible (query, key) pairs over all query heads
  double bytes = 0;  // read from the request and written to the reply
  double units = 0;
  // Of rows that the linear kind encodes, decays and sums up, besides their
  // products; those of held keys count more often.
  double elements = 0;
};

// Of a plan, whose request and reply hold `bytes`.
Work WorkOf(const Plan& plan, int64_t bytes);

// What a row of the linear kind costs whatever its channels, as elements.
inline constexpr int64_t kLinearRowElements = 32;

// Of a plan of the linear kind, and the elements to add for merging so many
// states before it.
Work WorkOf(const LinearPlan& plan, int64_t bytes);
double MergedElements(const LinearPlan& plan, size_t states);

// seconds = flops * a + pairs * b + bytes * c + units * d + elements * e:
// matrix products run at one rate, the softmax between them at another, so that
// short head dimensions cost more per flop. Immutable; thread-safe.
class CostModel {
 public:
  struct Rates {
    double seconds_per_flop = 0;
    double seconds_per_pair = 0;
    double seconds_per_byte = 0;
    double seconds_per_unit = 0;
    double seconds_per_element = 0;
  };
  explicit CostModel(const Rates& rates) : rates_(rates) {}

  // Measures the rates with problems of a few milliseconds each, about 60 ms
  // in all, on the calling thread's workspace. INTERNAL when a kernel fails.
  static absl::StatusOr<CostModel> Calibrate(Workspace& workspace);

  // Worker seconds.
  double Predict(const Work& work) const;
  const Rates& rates() const { return rates_; }
  // Of one worker on f32 attention with D = 64, FLOP/s.
  double flops_per_second() const;

 private:
  Rates rates_;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_COST_MODEL_H_
