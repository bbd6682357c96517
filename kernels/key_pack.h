// Encoded keys and values of one head, packed block by block as tiles need
// them.
#ifndef ATTND_KERNELS_KEY_PACK_H_
#define ATTND_KERNELS_KEY_PACK_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/plan.h"
#include "kernels/tensor.h"

namespace attnd {

// Lives in a workspace. Units of the same head that follow each other on a
// worker share what is packed; blocks that no tile reads are never packed.
class KeyPack {
 public:
  // Starts (or continues) the given head of the plan.
  void Select(const Plan& plan, int64_t batch, int64_t kv_head);

  // Packs the blocks of 64 keys in [first, last) that are not packed yet; both
  // are multiples of 64.
  void Ensure(int64_t first, int64_t last);

  // Packed block that starts at key `first`, a multiple of 64 (gemm.h).
  const float* Keys(int64_t first) const { return keys_.data() + first * dim_; }
  // Row of values [PaddedDim(Dv)]; zeros beyond the last key.
  const float* Values(int64_t first) const {
    return values_.data() + first * value_dim_;
  }

  // Per channel, the keys of the item's order (ascending, packed ones) whose
  // value there is not finite; empty when there are none at all. The packed
  // value is 0, so that it cannot spoil rows that do not see it.
  const std::vector<std::vector<int32_t>>& non_finite() const {
    return non_finite_;
  }

  int64_t dim() const { return dim_; }
  int64_t value_dim() const { return value_dim_; }
  int64_t scratch_bytes() const;

 private:
  void PackKeys(int64_t first);
  void PackValues(int64_t first);

  std::shared_ptr<const void> identity_;  // of the plan; keeps it from reuse
  const Plan* plan_ = nullptr;
  int64_t batch_ = -1, kv_head_ = -1;
  int64_t dim_ = 0, value_dim_ = 0;  // padded
  std::vector<bool> packed_;
  AlignedBuffer keys_, values_, rows_, table_;
  std::vector<std::vector<int32_t>> non_finite_;
};

}  // namespace attnd

#endif  // ATTND_KERNELS_KEY_PACK_H_
