// A problem of the linear kind: attention without softmax, whose cost grows
// linearly with the length.
//
//   o(t) = scale * sum_{s_j <= t} phi(q)^T A(t - s_j) phi(k_j) v_j^T
//
// for any multiplicative encoding A(D) = exp(DX) that is bounded for D >= 0,
// with queries at any times: before, between, at or after the keys.
#ifndef ATTND_KERNELS_LINEAR_PROBLEM_H_
#define ATTND_KERNELS_LINEAR_PROBLEM_H_

#include <cstdint>

#include "kernels/linear_state.h"
#include "kernels/plan.h"

namespace attnd {

struct LinearOptions {
  enum class Normaliser : uint8_t {
    kNone,
    // Divides by the same sum over a value of ones: a weighted average where
    // the weights are positive. Sums under 1e-30 answer 0.
    kSum,
    // RetNet (Sun et al. 2023): weights / sqrt(sum of decays), then divided by
    // their sum's size held between 1 and 5e4. One decay rate per head.
    kRetNet
  };
  // Of every element of q and k, before the encoding.
  enum class FeatureMap : uint8_t {
    kIdentity,
    kEluPlusOne,  // x + 1 for x > 0, else e^x
    kRelu,
    kSoftplus  // ln(1 + e^x)
  };
  // What a key is worth between the keys. Gaps d_j = s_j - s_{j-1} are in units
  // of the encoding along coordinate 0.
  enum class InputRule : uint8_t {
    kEvent,  // each key counts once
    // Each key is held until the next: k_j counts as the integral of A(t - u)
    // over u in [s_j, min(t, s_{j+1})]. Along learned clocks and further
    // coordinates the hold advances evenly. Of simultaneous keys the last
    // counts.
    kZeroOrderHold,
    // The trapezoid rule over the gaps between visible keys: k_j counts
    // d_j / 2, and d_{j+1} / 2 more once the next key is visible.
    kTrapezoid
  };
  Normaliser normaliser = Normaliser::kNone;
  FeatureMap feature_map = FeatureMap::kIdentity;
  InputRule input_rule = InputRule::kEvent;
  // Also sums over the keys after the query, with A of the two-sided rule
  // (decays of |D|, rotations of D); keys at the query's own time count once.
  bool bidirectional = false;
};

// Everything is borrowed and must outlive the plan.
struct LinearProblem {
  // mask.causal is implied and ignored; strict, lengths and key validity hold.
  // Windows, bias and outputs besides `output` are refused.
  AttentionProblem attention;
  LinearOptions options;
  // Carried from an earlier piece; null = nothing came before. Rows must not
  // lie before its reference (strict: queries lie after it). Without times the
  // rows of a piece follow it: it stands one position before key 0.
  const LinearState* initial_state = nullptr;
  bool return_state = false;
  // Units per tick for the gaps of input rules where there is no encoding.
  TickRatio gap_ratio;
};

}  // namespace attnd

#endif  // ATTND_KERNELS_LINEAR_PROBLEM_H_
