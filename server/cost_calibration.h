// Measures what work costs on this machine.
#ifndef ATTND_SERVER_COST_CALIBRATION_H_
#define ATTND_SERVER_COST_CALIBRATION_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/attention.h"
#include "server/cost_model.h"

namespace attnd::server {

// Some work and how long it took.
struct Measurement {
  Work work;
  double seconds = 0;
};

// Rates that explain the measurements: where the sum misses one of them, each
// of its terms gives way by its share in it. What no measurement tells stays as
// in `rates`; positive rates stay positive.
CostModel::Rates Explain(absl::Span<const Measurement> measured,
                         CostModel::Rates rates);

// Measures small problems for about 80 ms in all, on the calling thread's
// workspace, each as a request meets a worker: with caches that others used
// meanwhile. INTERNAL when a kernel fails.
absl::StatusOr<CostModel> Calibrate(Workspace& workspace);

}  // namespace attnd::server

#endif  // ATTND_SERVER_COST_CALIBRATION_H_
