// Computes a request of the linear kind on workers that know units only.
//
// Segments of one head follow each other, heads do not: whoever comes takes the
// next segment of a head that nobody works on. A caller that finds none returns
// at once and leaves its segment to one of those at work, so that no worker
// waits for another.
#ifndef ATTND_SERVER_LINEAR_RUN_H_
#define ATTND_SERVER_LINEAR_RUN_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attnd/v1/attention.pb.h"
#include "kernels/attention.h"
#include "kernels/linear.h"
#include "server/cost_model.h"
#include "server/decode.h"

namespace attnd::server {

// Thread-safe.
class SegmentQueue {
 public:
  SegmentQueue(int64_t heads, int64_t segments);
  // A head to advance by one segment, or -1: the caller's segment is owed.
  int64_t Take();
  // After a segment of a head: an owed segment to do now, or -1.
  int64_t Done(int64_t head);

 private:
  std::mutex mutex_;  // guards all below
  std::deque<int64_t> idle_;
  std::vector<int64_t> left_;  // segments per head
  int64_t owed_ = 0;
};

class LinearRun {
 public:
  // A refusal of the plan is worded by FromPlan. Borrows the request, whose
  // initial state gets its sums while heads run.
  static absl::StatusOr<std::unique_ptr<LinearRun>> Make(
      DecodedRequest& decoded);

  const LinearPlan& plan() const { return plan_; }
  // Of the plan and of merging states; request and reply hold `bytes`.
  Work PredictedWork(const MessageBytes& bytes) const;
  int64_t units() const { return plan_.heads() * plan_.segments(); }

  // Before any unit: memory of the sums, rows that belong to no unit.
  void Start(const OutputBuffers& buffers);
  // One of units() calls, on any threads.
  absl::Status Run(Workspace& workspace, const std::atomic<bool>& stop);
  // The final state, if the request wants it.
  void WriteState(v1::AttendResponse& reply) const;

 private:
  // From a head's first segment to its last.
  struct Head {
    std::unique_ptr<LinearProgress> progress;
    int64_t segments = 0;  // done
  };

  LinearRun(LinearPlan plan, DecodedLinear& linear);
  void Begin(int64_t head);

  LinearPlan plan_;
  DecodedLinear& linear_;
  SegmentQueue queue_;
  std::vector<Head> heads_;
  LinearState state_;
  LinearBuffers buffers_;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_LINEAR_RUN_H_
