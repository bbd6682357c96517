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
#include <utility>
#include <vector>

#include "kernels/encoder.h"

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
  double At(size_t i) const {
    return static_cast<double>(hi[i]) + static_cast<double>(lo[i]);
  }
};

// The chains and small blocks of one head. Parts are numbered: chains in the
// head's order, then small blocks.
class LinearDecays {
 public:
  // `mirrored`: lags are sizes of negative ones (bidirectional, two-sided
  // rule). head null: no parts.
  // `padded` rows (gemm.h).
  void Select(const HeadEncoder* head, bool mirrored, int64_t padded);

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

  // Rows of the encoded order up to the padded dimension that no part holds, as
  // ranges.
  const std::vector<std::pair<int64_t, int64_t>>& plain() const {
    return plain_;
  }

  // rows[r] = A(lag_r)^T rows[r] for `rows` rows of `stride` floats; lags
  // [rows, sources].
  void AdvanceQueries(const SplitLags& lags, int sources, int64_t rows,
                      int64_t stride, float* out) const;

  // dst = A(lag_j) src for the 64 columns of a packed block [dim, 64], lags
  // [sources, 64]; 0 for parts with late[part].
  void AdvanceKeys(const SplitLags& lags, const std::vector<uint8_t>& late,
                   const float* src, float* dst) const;
  // The same for some parts alone; others are left as they are.
  void AdvanceParts(const SplitLags& lags, const std::vector<int>& parts,
                    const float* src, float* dst) const;

  // Matrix of a small block in the direction of this pass.
  const std::vector<double>& SmallMatrix(int small) const;
  // exp(lag M) of that matrix.
  std::vector<double> SmallExp(int small, double lag) const;

  // Chains as the loops read them, jets of chain i at first[i] + r * step[i].
  struct Table {
    std::vector<float> rate_hi, rate_lo, coupling;
    std::vector<int> order, first, step, source;
    void Clear();
    // Adds chain `i` of another.
    void Take(const Table& other, int i);
    int count() const { return static_cast<int>(order.size()); }
  };
  const Table& table() const { return table_; }

 private:
  void FindPlain(int64_t padded);

  const HeadEncoder* head_ = nullptr;
  bool mirrored_ = false;
  int chains_ = 0;
  Table table_;
  std::vector<double> small_norm_;
  std::vector<int> live_;
  std::vector<std::pair<int64_t, int64_t>> plain_;
};

// y = M x or M^T x of a small block, strides in floats; may be in place.
void MultiplySmall(const std::vector<double>& matrix, bool transposed,
                   const float* x, int64_t x_step, float* y, int64_t y_step);

}  // namespace attnd

#endif  // ATTND_KERNELS_LINEAR_DECAYS_H_
