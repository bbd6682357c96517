// 64 keys of one head with their values, ready for the products.
#ifndef ATTND_KERNELS_LINEAR_CHUNK_H_
#define ATTND_KERNELS_LINEAR_CHUNK_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "kernels/gemm.h"
#include "kernels/linear_decays.h"
#include "kernels/linear_held.h"
#include "kernels/linear_plan.h"
#include "kernels/linear_walk.h"
#include "kernels/tensor.h"

namespace attnd {

class LinearChunk {
 public:
  // Keys [key, key + 64) of the walk, or as many as there are. `last_query` is
  // the last query that stands within the chunk, or -1. `held` null: plain
  // events.
  void Load(const LinearPlan& plan, int64_t batch, int64_t kv_head, int64_t key,
            int64_t last_query, LinearWalk& walk, LinearDecays& decays,
            HeldKeys* held);

  int64_t key() const { return key_; }
  int64_t count() const { return count_; }
  int64_t end() const { return key_ + count_; }
  LinearDecays& decays() const { return *decays_; }

  // Parts that may not grow over the chunk.
  const std::vector<int>& late_parts() const { return late_parts_; }
  // The same, one per part.
  const std::vector<uint8_t>& late() const { return late_; }
  // Rotated block [dim, 64]; and K^ = A(r - s) k, r the first key, 0 for late
  // parts.
  const float* still() const { return still_.data(); }
  const float* moved() const { return moved_.data(); }
  // [64, width]; non-finite values are 0 here. In the request where they lie so
  // there.
  const float* values() const { return value_; }
  // Non-finite values: channel and key of the chunk.
  const std::vector<std::pair<int32_t, int32_t>>& non_finite() const {
    return non_finite_;
  }

  // delta [dim, width] = K^ * values, late parts of K^ referred to the last
  // key; moved() holds them afterwards.
  absl::Status Sum(TileGemm& gemm);
  const float* delta() const { return delta_.data(); }

 private:
  void Prefetch(const TensorRef& rows, int64_t batch, int64_t kv_head,
                int64_t key) const;
  void LoadKeys(const LinearPlan& plan, int64_t batch, int64_t kv_head,
                HeldKeys* held);
  void LoadValues(const LinearPlan& plan, int64_t batch, int64_t kv_head,
                  HeldKeys* held);
  const float* ValuesInPlace(const LinearPlan& plan, int64_t batch,
                             int64_t kv_head) const;
  void SetLags(int64_t reference);
  void FindLateParts(int64_t last_query);

  int64_t key_ = 0, count_ = 0, dim_ = 0, width_ = 0;
  LinearWalk* walk_ = nullptr;
  LinearDecays* decays_ = nullptr;
  std::vector<int> late_parts_;
  std::vector<uint8_t> late_;
  const float* value_ = nullptr;
  std::vector<double> span_;
  SplitLags lags_;
  AlignedBuffer rows_, raw_, still_, moved_, values_, delta_;
  std::vector<std::pair<int32_t, int32_t>> non_finite_;
};

}  // namespace attnd

#endif  // ATTND_KERNELS_LINEAR_CHUNK_H_
