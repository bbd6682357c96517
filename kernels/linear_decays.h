// Decaying and polynomial parts of an encoding as the linear kind needs them:
// exponents to the last bit however long the lag, and the split of chains into
// those that may grow back over a chunk and those that may not.
//
// A factor e^(-rate lag) with rate and lag rounded to float would be off by
// 1e-7 * rate * lag, which is more than the contract near the end of the range.
// Rates and lags are pairs of floats (hi + lo) here.
#ifndef ATTND_KERNELS_LINEAR_DECAYS_H_
#define ATTND_KERNELS_LINEAR_DECAYS_H_

#include <cstdint>
#include <vector>

#include "kernels/encoder.h"
#include "kernels/tensor.h"

namespace attnd {

// Keys of a chunk.
inline constexpr int64_t kLinearChunk = 64;

// Chains that grow by less than e^40 over a chunk are taken from its first key,
// queries decaying from it and keys growing: both factors and their products
// stay far inside the range of floats.
inline constexpr double kMaxLinearGrowth = 40;
// Powers (coupling lag)^r of both signs meet there: their cancellation costs
// (1 + kMaxLinearPowers)^2 times the rounding of the terms.
inline constexpr double kMaxLinearPowers = 4;

// Lags along every source of an encoder, for `width` rows or columns:
// hi[source * width + j] + lo[...] is the lag to double precision.
struct SplitLags {
  std::vector<float> hi, lo;
  void Resize(size_t count) {
    hi.resize(count);
    lo.resize(count);
  }
  void Set(size_t i, double lag) {
    hi[i] = static_cast<float>(lag);
    lo[i] = static_cast<float>(lag - static_cast<double>(hi[i]));
  }
};

// The chains and small blocks of one head. Parts are numbered: chains in the
// head's order, then small blocks.
class LinearDecays {
 public:
  // `mirrored`: lags are sizes of negative ones (bidirectional, two-sided
  // rule). head null: no parts.
  void Select(const HeadEncoder* head, bool mirrored);

  const HeadEncoder* head() const { return head_; }
  int chains() const { return chains_; }
  int parts() const {
    return head_ == nullptr
               ? 0
               : chains_ + static_cast<int>(head_->smalls().size());
  }
  // Parts that do something, with the source each follows.
  const std::vector<int>& live() const { return live_; }
  int SourceOf(int part) const;
  // Whether a part may be referred to the first key of a block that spans
  // `span` units of its source.
  bool MayGrow(int part, double span) const;

  // row = A(lag)^T row; one lag per source, hi[source] + lo[source].
  void AdvanceQuery(const float* hi, const float* lo, float* row) const;

  // dst = A(lag_j) src for the 64 columns of a packed block [dim, 64]; parts
  // with late[part] take their lags from `late_lags`.
  void AdvanceKeys(const SplitLags& lags, const SplitLags& late_lags,
                   const std::vector<uint8_t>& late, int64_t dim,
                   const float* src, float* dst) const;

  // Zeros the parts' positions in `rows` rows of `stride` floats.
  void Clear(const std::vector<int>& parts, int64_t rows, int64_t stride,
             float* out) const;

  // logits[r, j] += share of `parts` of q_r^T A(row lag + key lag) k_j for
  // columns j in [first, last) of a block; row lags [rows, sources], key lags
  // [sources, 64]. Both lags belong to one reference. `sources` of the encoder.
  void AddShares(const std::vector<int>& parts, const SplitLags& row_lags,
                 const SplitLags& key_lags, const float* queries, int64_t rows,
                 int64_t stride, const float* keys, int64_t first, int64_t last,
                 int sources, float* logits);

  // Matrix of a small block in the direction of this pass.
  const std::vector<double>& SmallMatrix(int small) const;

  // Chains as the loops read them, jets of chain i at first[i] + r * step[i].
  struct Table {
    std::vector<float> rate_hi, rate_lo, coupling;
    std::vector<int> order, first, step, source;
    void Clear();
    int count() const { return static_cast<int>(order.size()); }
  };

 private:
  const HeadEncoder* head_ = nullptr;
  bool mirrored_ = false;
  int chains_ = 0;
  Table table_;
  std::vector<double> small_norm_;
  std::vector<int> live_;
  // Of AddShares.
  Table some_;
  AlignedBuffer moved_, advanced_;
};

}  // namespace attnd

#endif  // ATTND_KERNELS_LINEAR_DECAYS_H_
