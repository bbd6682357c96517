// What a generator is made of: rotation planes, decaying and Jordan chains and
// small blocks over the channels of a head.
#ifndef ATTND_KERNELS_DIRECT_SUM_H_
#define ATTND_KERNELS_DIRECT_SUM_H_

#include <vector>

#include "kernels/encoding_spec.h"

namespace attnd {

// One rotation plane over two channels of a head: exp(-D omega J). Channels of
// planes are disjoint. Where a plane follows several drives (frequency
// vectors), its angle is omega * D plus the terms of `further`.
struct PlaneTerm {
  double omega = 0;  // rad per unit of `drive`
  Drive drive;
};
struct Plane {
  int first = 0, second = 0;  // channels
  double omega = 0;           // rad per unit
  Drive drive;
  std::vector<PlaneTerm> further = {};
};

// Jets of a chain, at most.
inline constexpr int kMaxJets = 4;

// exp(D(-rate I + coupling N)) on channels.size() channels (1 to 4), N the
// upper shift: (N x)_i = x_{i+1}. A chain of one is a decay. Chains are
// disjoint among themselves; where a chain shares channels with planes (damped
// rotation, complex Jordan) the two commute, because both channels of each
// plane have equal rate and coupling.
struct Chain {
  std::vector<int> channels = {};
  double rate = 0;      // >= 0 per unit
  double coupling = 0;  // per unit
  Drive drive;
};

// exp(D M) on its channels, for eigenvalue clusters that no closed form serves:
// M is upper quasi-triangular and near-defective. Disjoint from planes and
// chains. Under the two-sided rule a negative lag D gives exp(|D| (M - W) + D
// W).
struct SmallBlock {
  std::vector<int> channels = {};
  std::vector<double> matrix;    // M, row-major, per unit
  std::vector<double> rotation;  // W, commutes with M; empty = 0
  double rate = 0;  // -(largest real part of an eigenvalue), >= 0 per unit
  Drive drive;
};

// The map exp(sum_a p_a A_a) on q at position p and on k at its own: not a
// function of lags, because the A_a need not commute (LieRE). Disjoint from the
// rest.
struct FreeRotation {
  std::vector<int> channels = {};
  std::vector<Drive> drives = {};       // what p_a is measured along
  std::vector<double> generators = {};  // A_a, skew: [drives, n, n] row-major
};

// exp(DX), X the direct sum of the parts; channels of no part are identity.
struct DirectSum {
  int dim = 0;
  std::vector<Plane> planes;
  std::vector<Chain> chains;
  std::vector<SmallBlock> small_blocks;
  std::vector<FreeRotation> free_rotations;
  // Multiplies channel c of q and of k each; empty = all 1.
  std::vector<double> channel_scale;
  // phi1(DX) = (exp(DX) - 1)/(DX) instead of exp(DX).
  bool averaged = false;
  // Another length of the item may give other frequencies.
  bool length_dependent = false;
};

// Largest condition number of a basis or of the transformation that
// block-diagonalises a dense generator. Errors of the encoding grow with it.
inline constexpr double kMaxCondition = 1e6;

// Real part of an eigenvalue (dense: of the mean of a cluster) above this share
// of |X| counts as growth and is refused.
inline constexpr double kGrowthTolerance = 1e-8;

}  // namespace attnd

#endif  // ATTND_KERNELS_DIRECT_SUM_H_
