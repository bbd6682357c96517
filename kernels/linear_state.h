// What the linear kind carries from one piece of a stream to the next.
//
// S(E) = sum_j A(E - s_j) phi(k_j) v_j^T at a reference time E, the time of the
// last key, in the channels of the request: a plain mathematical object that
// knows nothing of chunks. Double inside, so that a stream may be cut any
// number of times.
#ifndef ATTND_KERNELS_LINEAR_STATE_H_
#define ATTND_KERNELS_LINEAR_STATE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/encoder.h"

namespace attnd {

// Which parts a state has and how large they are.
struct LinearStateShape {
  int64_t items = 0, kv_heads = 0, dim = 0, value_dim = 0;
  int coordinates = 1;     // of the time axis
  int clock_channels = 0;  // of learned clocks; 0 = none
  bool exact = true;       // ticks (or positions), else real times
  bool normaliser = false;
  bool decay_sum = false;  // of RetNet's normaliser
  bool held = false;       // zero-order hold and trapezoid
  friend bool operator==(const LinearStateShape&,
                         const LinearStateShape&) = default;
  int64_t heads() const { return items * kv_heads; }
  // Bytes of the arrays below; saturates.
  int64_t bytes() const;
};

struct LinearState {
  LinearStateShape shape;
  // Keys that each item's state holds; 0: it is zero and has no reference.
  // [items], which is B but for packed problems.
  std::vector<int64_t> keys;
  // E: [items, coordinates], ticks as sent or real times.
  std::vector<int64_t> reference_ticks;
  std::vector<double> reference_real;
  std::vector<float> reference_clock;  // [items,Hkv,channels]
  std::vector<double> sums;            // S, [items,Hkv,D,Dv]
  std::vector<double> normaliser;      // over ones [items,Hkv,D]
  std::vector<double> decay_sum;       // sum of decays [items,Hkv]
  // The last key (after the feature map), its value and the gap before it, for
  // rules under which it still counts.
  std::vector<float> held_key;    // [items,Hkv,D]
  std::vector<float> held_value;  // [items,Hkv,Dv]
  std::vector<double> held_gap;   // [items], units

  // The zero state.
  static LinearState Zero(const LinearStateShape& shape);
};

// Copies where an item's state stands; the shapes are equal.
void CopyReference(const LinearState& from, int64_t item, LinearState& to);

// INVALID_ARGUMENT when an array does not have the size that the shape gives it
// or a key count is negative.
absl::Status CheckLinearState(const LinearState& state);

// Keys and references of the state that holds the keys of all `states`, at the
// latest reference of each item; its sums are zero. INVALID_ARGUMENT as
// MergeLinearStates. At least one state.
absl::StatusOr<LinearState> MergedReferences(
    absl::Span<const LinearState* const> states);

// Adds the sums of one head (item * Hkv + kv head) of all `states` to what
// MergedReferences made of them. Heads may be added on different threads.
void MergeLinearHead(const Encoder* encoder,
                     absl::Span<const LinearState* const> states, int64_t head,
                     LinearState& merged);

// The state of both sets of keys, at the later reference of each item:
// associative and commutative. The shapes must be equal and without held keys,
// whose worth depends on the neighbouring segment: INVALID_ARGUMENT. `encoder`
// null = NoPE.
absl::StatusOr<LinearState> MergeLinearStates(const Encoder* encoder,
                                              const LinearState& a,
                                              const LinearState& b);

}  // namespace attnd

#endif  // ATTND_KERNELS_LINEAR_STATE_H_
