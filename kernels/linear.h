// Runs problems of the linear kind, segment by segment.
//
// Keys are taken in chunks of 64. What lies before a chunk is a sum S [D, Dv]
// per kv head; a query reads it by one product, and the keys of its own chunk
// by two more. Memory: O(64 D + D Dv) per head beside inputs, outputs and the
// plan.
#ifndef ATTND_KERNELS_LINEAR_H_
#define ATTND_KERNELS_LINEAR_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/linear_plan.h"
#include "kernels/linear_state.h"

namespace attnd {

// Accuracy contract against the double reference (linear_reference.h): each
// element of the output is off by at most this share of
// |scale| sum |q_i| |A_ij(D)| |k_j| |v| over what the row sees. Powers of a
// Jordan part count with max(D, span of the chunk) for D; dense generators
// times their condition number. A below 2^-126 may count as 0.
inline constexpr double kLinearError = 1e-5;
// A stream in pieces with carried states against one pass.
inline constexpr double kLinearCarryError = 1e-6;

// Where the answer goes.
struct LinearBuffers {
  // [B,Hq,Lq,Dv] in the query's layout; `halves` instead where output_dtype has
  // 16 bits.
  absl::Span<float> output;
  absl::Span<uint16_t> halves;
  // StartState's, or null where the problem does not return it.
  LinearState* state = nullptr;
};

// How far one head has come. Owned by whoever runs the plan; one head's
// segments follow each other, on any threads.
class LinearProgress {
 public:
  LinearProgress();
  ~LinearProgress();
  LinearProgress(LinearProgress&&) noexcept;

  struct State;  // of linear.cc
  State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

// Scratch and products, for one pinned thread at a time (gemm.h). Not
// thread-safe.
class LinearWorkspace {
 public:
  // INTERNAL when oneDNN is unusable.
  static absl::StatusOr<std::unique_ptr<LinearWorkspace>> Create();
  ~LinearWorkspace();

  struct State;  // of linear.cc
  State& state() { return *state_; }

 private:
  LinearWorkspace();
  std::unique_ptr<State> state_;
};

// Computes the next segment of a head (item * Hkv + kv head): plan.segments()
// calls finish it. `cancelled` (may be null) is looked at between chunks: when
// set, returns CANCELLED. The same plan gives the same bytes on any threads.
absl::Status RunLinearSegment(const LinearPlan& plan, int64_t head,
                              LinearProgress& progress,
                              LinearWorkspace& workspace,
                              const LinearBuffers& out,
                              const std::atomic<bool>* cancelled = nullptr);

// Rows beyond the lengths of their items: 0.
void FillEmptyLinearRows(const LinearPlan& plan, const LinearBuffers& out);

// Everything, on the calling thread.
absl::Status RunLinear(const LinearPlan& plan, LinearWorkspace& workspace,
                       const LinearBuffers& out);

}  // namespace attnd

#endif  // ATTND_KERNELS_LINEAR_H_
