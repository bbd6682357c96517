// A checked problem of the linear kind.
#ifndef ATTND_KERNELS_LINEAR_PLAN_H_
#define ATTND_KERNELS_LINEAR_PLAN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/linear_problem.h"
#include "kernels/plan.h"

namespace attnd {

// The shape of the problem's carried states.
LinearStateShape StateShapeOf(const LinearProblem& problem);

// Everything below it needs no check any more. Heads (kv heads of items)
// are independent; within a head, segments of keys follow each other.
class LinearPlan {
 public:
  // INVALID_ARGUMENT as Plan::Make, and for what the linear kind has no meaning
  // for: biases, windows, averaged or unbounded encodings, a state of another
  // shape or later than some row, a normaliser that the encoding does not
  // allow.
  static absl::StatusOr<LinearPlan> Make(const LinearProblem& problem);

  const LinearProblem& problem() const { return problem_; }
  // Orders of rows and encoders.
  const Plan& rows() const { return *rows_; }
  const LinearStateShape& state_shape() const { return state_shape_; }

  int64_t heads() const { return state_shape_.heads(); }
  // Pieces of about 2 ms in which one head is computed, one after the other;
  // the same for every head. At least 1.
  int64_t segments() const { return segments_; }
  int64_t chunks_per_segment() const { return chunks_per_segment_; }
  // Matrix-product operations of all heads.
  int64_t flops() const { return flops_; }
  int64_t output_elements() const { return rows_->output_elements(); }
  // A LinearProgress from a head's first segment to its last, bytes: running
  // sums, and what waits for the second pass of a bidirectional head.
  int64_t progress_bytes() const;
  // Scratch one worker needs, bytes.
  int64_t workspace_bytes() const;

  // Columns of a value row with a column of ones behind it where a normaliser
  // needs one, padded.
  int64_t width() const { return width_; }
  bool ones() const { return state_shape_.normaliser; }

 private:
  LinearPlan() = default;
  LinearProblem problem_;
  std::shared_ptr<const Plan> rows_;
  LinearStateShape state_shape_;
  int64_t segments_ = 1, chunks_per_segment_ = 1;
  int64_t flops_ = 0, width_ = 0;
};

}  // namespace attnd

#endif  // ATTND_KERNELS_LINEAR_PLAN_H_
