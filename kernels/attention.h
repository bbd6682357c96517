// Runs units of a plan: exact softmax attention, tile by tile.
#ifndef ATTND_KERNELS_ATTENTION_H_
#define ATTND_KERNELS_ATTENTION_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/plan.h"

namespace attnd {

class LinearWorkspace;

// Accuracy contract against the double reference (reference.h), for a row whose
// summed logit terms are at most S and whose visible values are at most M:
// output <= kOutputError * max(1, S/8) * M; weights, scores and lse <=
// kScoreError * max(1, S/8); absolute, up to L = 8192. Jordan blocks may take
// kJordanSlack times as much: powers of a lag carry its rounding more than
// once. Where scores or lse are asked for, logits are summed more exactly, and
// the bits of output and weights differ from those without.
inline constexpr double kOutputError = 2e-6;
inline constexpr double kScoreError = 2e-6;
inline constexpr double kJordanSlack = 2;
// The same where products are of bf16 operands (Plan::bf16): weights and values
// are rounded, and queries and keys unless lse or scores are asked for. For
// terms of random signs; in the worst case, one term that is all of S, outputs
// are off by (e^(S / 64) - 1 + 1 / 128) M.
inline constexpr double kBf16OutputError = 5e-3;
inline constexpr double kBf16ScoreError = 1e-2;
// Entropy <= kEntropyError * max(1, S/8): an error of a logit counts with the
// deviation of its ln w from the mean. The weight a key received <= kScoreError
// * the sum of max(1, S/8) over the rows that see it. 16-bit outputs add half
// an ulp of their format.
inline constexpr double kEntropyError = 1e-5;

// Scratch and matrix-product primitives, for one thread at a time. Not
// thread-safe.
class Workspace {
 public:
  // Pins the thread. INTERNAL when oneDNN is unusable.
  static absl::StatusOr<std::unique_ptr<Workspace>> Create();
  // Pins the calling thread (gemm.h), before it uses one of another thread.
  static void PinThread();
  ~Workspace();

  // Builds what problems of these head dimensions need, which their first
  // request on this or another workspace would wait for (gemm.h).
  absl::Status Prepare(int64_t dim, int64_t value_dim);

  // Bytes of scratch held now.
  int64_t scratch_bytes() const;

  struct State;  // of attention.cc
  State& state() { return *state_; }

  // What the linear kind (linear.h) needs, made at first use; fails as Create.
  absl::StatusOr<LinearWorkspace*> Linear();

 private:
  Workspace();
  std::unique_ptr<State> state_;
  std::unique_ptr<LinearWorkspace> linear_;
};

// What running a unit did. Tiles are of 64 queries by 64 keys.
struct UnitStats {
  int64_t skipped_tiles = 0;  // seen by no row, or pruned
  // No row lost more than this share of its weight to pruning. Its output is
  // then off by at most twice this times the largest |V|, its lse by less than
  // -ln(1 - bound).
  double lost_mass_bound = 0;
};

// Computes one unit into its rows of `out`; units of a plan write disjoint rows
// and may run on any threads, each with its own workspace. Denormals are
// flushed while it runs. `cancelled` (may be null) is looked at between tiles:
// when set, returns CANCELLED with the unit's rows undefined. INTERNAL when
// oneDNN fails. `stats` (may be null) is overwritten. The same plan gives the
// same bytes in any order and on any number of threads.
absl::Status RunUnit(const Plan& plan, int64_t unit, Workspace& workspace,
                     const OutputBuffers& out,
                     const std::atomic<bool>* cancelled = nullptr,
                     UnitStats* stats = nullptr);

// Writes the rows that belong to no unit: queries beyond a length, and every
// row of items without keys: output 0, lse -inf (valid queries: the sink),
// scores -inf, weights 0, entropy 0, no top keys. Call it once per plan,
// before, beside or after the units.
void FillEmptyRows(const Plan& plan, const OutputBuffers& out);

// Once per plan, after all units: key_mass from key_sums, if it is wanted.
void FinishKeyMass(const Plan& plan, const OutputBuffers& out);

// All units in order on the calling thread, the empty rows and the key mass.
// `stats` (may be null) gets the sum of the skipped tiles and the largest
// bound.
absl::Status RunAll(const Plan& plan, Workspace& workspace,
                    const OutputBuffers& out, UnitStats* stats = nullptr);

// Instruction set that the vector loops run with, for example "AVX3_ZEN4".
const char* InstructionSet();

}  // namespace attnd

#endif  // ATTND_KERNELS_ATTENTION_H_
