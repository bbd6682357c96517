// Generators and biases of single pairs in double: for the oracle alone.
#ifndef ATTND_KERNELS_REFERENCE_ENCODING_H_
#define ATTND_KERNELS_REFERENCE_ENCODING_H_

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "kernels/clock.h"
#include "kernels/plan.h"
#include "kernels/reference_pairs.h"

namespace attnd::reference {

// exp(sum p_a A_a) of rows: of query or key, of row, of free rotation.
using TurnCache =
    std::map<std::tuple<bool, int64_t, size_t>, std::vector<double>>;

// A(D) of one pair and kv head, with phases reduced exactly.
class PairGenerator {
 public:
  // `turns`: of the same item and generator.
  PairGenerator(const AttentionProblem& problem, const Encoder* encoder,
                int64_t batch, int64_t kv_head, TurnCache* turns = nullptr);

  void Turn(const PairRules& rules, int64_t i, int64_t j);
  // moved = A k and size = |A| s, s being what the parts of k sum to in size.
  void Apply(const std::vector<double>& key,
             const std::vector<double>& key_size, std::vector<double>& moved,
             std::vector<double>& size) const;

 private:
  double LagOf(const Drive& drive) const;
  // `turns` is of the plane's rate along the drive.
  double Angle(const Drive& drive, const TurnFrequency& turns) const;
  // Where the pair's query or key stands, in units from 0.
  double PlaceOf(const Drive& drive, bool query) const;
  std::vector<double> TurnOf(const FreeRotation& free, bool query) const;
  const std::vector<double>& CachedTurn(size_t number, bool query);
  void PutFreeRotation(size_t number);

  const AttentionProblem& problem_;
  const Encoder* encoder_;
  const Generator* generator_ = nullptr;
  int64_t batch_, kv_head_, i_ = 0, j_ = 0;
  const PairRules* rules_ = nullptr;
  bool planes_only_ = true;
  std::vector<double> angles_;
  // Of every plane and its further terms, in their order; of whole ticks.
  std::vector<TurnFrequency> turn_frequencies_;
  std::vector<double> matrix_;
  TurnCache* turns_;
};

// Sum of an encoding's bias terms at one pair; `size` is what it counts in S.
class PairBias {
 public:
  PairBias(const AttentionProblem& problem, const Encoder* encoder,
           const PairRules& rules);
  double At(int64_t head, int64_t i, int64_t j, double* size) const;

 private:
  double Gates(int64_t head, int64_t i, int64_t j) const;

  const AttentionProblem& problem_;
  const Encoder* encoder_;
  int64_t batch_;
  const PairRules& rules_;
};

}  // namespace attnd::reference

#endif  // ATTND_KERNELS_REFERENCE_ENCODING_H_
