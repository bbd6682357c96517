// Encoded keys and values of one head, packed block by block as tiles need
// them.
#ifndef ATTND_KERNELS_KEY_PACK_H_
#define ATTND_KERNELS_KEY_PACK_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/block_pack.h"
#include "kernels/drive_axes.h"
#include "kernels/gemm.h"
#include "kernels/plan.h"
#include "kernels/source_lags.h"
#include "kernels/tensor.h"

namespace attnd {

// Keys that share a reference time under one-sided encodings: the last of them.
inline constexpr int64_t kReferenceKeys = 256;
// Keys that can be moved to their own last one instead.
inline constexpr int64_t kMovedKeys = 128;

// Lives in a workspace. Units of the same head that follow each other on a
// worker share what is packed; blocks that no tile reads are never packed.
class KeyPack {
 public:
  // Starts (or continues) the given head of an item of the plan.
  void Select(const Plan& plan, int64_t item, int64_t kv_head);

  // Values [last - first, PaddedDim(ValueColumns)] of keys [first, last),
  // `first` a multiple of 64: as they lie in the request where that is
  // possible, else packed, with zeros for what is not finite and beyond the
  // last key. Under a value mask 1 for each value that is observed stands
  // behind the values, 0 for the others (and as their value).
  const float* Values(int64_t first, int64_t last);
  // Packs blocks of 64 keys in [first, last) that are not packed yet. Under a
  // one-sided encoding they are K^ = A(E - s) k with E the time of
  // Reference(first).
  void EnsureKeys(int64_t first, int64_t last);

  // Packed block that starts at key `first`, a multiple of 64 (gemm.h).
  const float* Keys(int64_t first) const { return keys_.data() + first * dim_; }
  // Keys from `first` on as they lie in the request, row after row, if an
  // identity head reads them so; else null.
  const float* KeysInPlace(int64_t first) const {
    return head_ != nullptr || plain_keys_ == nullptr
               ? nullptr
               : plain_keys_ + first * dim_;
  }
  // The same rounded to bf16 (gemm.h), for blocks of 64 keys in [first, last).
  void EnsureHalfKeys(int64_t first, int64_t last);
  const uint16_t* HalfKeys(int64_t first) const {
    return half_keys_.data() + first * Bf16Depth(dim_);
  }
  // Values of keys [first, last), whole blocks, in bf16: columns [64 b, 64 b +
  // 64) of them stand from HalfValues(first, b) on.
  void EnsureHalfValues(int64_t first, int64_t last);
  const uint16_t* HalfValues(int64_t first, int64_t columns) const {
    return half_values_.data() +
           (columns * static_cast<int64_t>(half_state_.size()) * kKeyBlock +
            first) *
               kKeyBlock;
  }

  // Last key of the group that shares a reference with key `first`.
  int64_t Reference(int64_t first) const;

  // The last of `keys` keys from `first` on, or of all.
  int64_t LastKey(int64_t first, int64_t keys) const {
    return std::min(first + keys, item_->key_rows) - 1;
  }
  // Blocks [first, first + keys), at most kMovedKeys, with their own last key
  // as the reference. Valid until the next call.
  const float* KeysAtLast(int64_t first, int64_t keys);
  const uint16_t* HalfKeysAtLast(int64_t first, int64_t keys);

  // Block of 64 keys in packed order with rotations only (no decay): what pairs
  // are made from. Valid until EnsureKeys or two further blocks were
  // asked for.
  const float* RawBlock(int64_t first);

  // Largest Euclidean norm of the keys of a block, encoded but not decayed;
  // infinite when one is not finite. Encodes the block on its first call.
  double Norm(int64_t first);

  // The same with each group of 16 keys at its own last key as the reference:
  // what every other reference is made from. Sources that drive decays must
  // follow the item's order. Valid until another block was asked for.
  const float* GroupedBlock(int64_t first);

  // Per channel, the keys of the item's order (ascending, packed ones) whose
  // value there is not finite; empty when there are none at all. The packed
  // value is 0, so that it cannot spoil rows that do not see it.
  const std::vector<std::vector<int32_t>>& non_finite() const {
    return non_finite_;
  }

  // Whether a channel is observed at any key, where there is a value mask.
  bool Observed(int64_t channel) const { return observed_[channel]; }

  // Head of the encoder; null when it does nothing.
  const HeadEncoder* head() const { return head_; }
  DriveAxes& axes() { return axes_; }
  int64_t key_rows() const { return item_->key_rows; }
  int64_t dim() const { return dim_; }
  int64_t value_dim() const { return value_dim_; }
  int64_t scratch_bytes() const;

 private:
  // A block is raw (rotations only) until a product asks for it at its
  // reference.
  enum class State : uint8_t { kNone, kRaw, kPacked };

  float* Block(int64_t first);
  void PackKeys(int64_t first, float* block);
  void EncodeBlock(int64_t first, float* block);
  bool EncodeAtOnce(int64_t first, int64_t last);
  void MoveToReference(int64_t first, int64_t reference, float* block);
  bool FiniteInPlace(int64_t first);
  const char* ValueMask(int64_t key) const;
  void FindObserved();
  void PackValues(int64_t first, float* block);

  std::shared_ptr<const void> identity_;  // of the plan; keeps it from reuse
  const Plan* plan_ = nullptr;
  const ItemGeometry* item_ = nullptr;
  const HeadEncoder* head_ = nullptr;
  int64_t number_ = -1, kv_head_ = -1;  // of the item
  int64_t batch_ = 0;                   // of its tensors
  int64_t dim_ = 0, value_dim_ = 0;     // padded
  DriveAxes axes_;
  std::vector<State> keys_state_;
  std::vector<double> norms_;  // per block, -1 = not known yet
  enum class ValueState : uint8_t { kNone, kInPlace, kPacked };
  std::vector<ValueState> values_state_;
  // All values of the head where they lie row after row, as products need them;
  // else null.
  const float* values_in_place_ = nullptr;
  // The same of keys that are packed as they lie in the request.
  const float* plain_keys_ = nullptr;
  bool keys_in_order_ = false;  // row after row
  AlignedBuffer keys_, values_, rows_, at_last_, factors_;
  SourceLags lags_;
  struct HalfState {
    bool keys = false, values = false;
  };
  std::vector<HalfState> half_state_;  // per block
  HalfBuffer half_keys_, half_values_, half_at_last_;
  AlignedBuffer unrounded_;  // one block
  struct Raw {
    int64_t first = -1;
    AlignedBuffer block;
  };
  AbsoluteScratch absolute_scratch_;
  std::array<Raw, 3> raw_;
  int next_raw_ = 0;
  std::array<Raw, 2> grouped_;
  int next_grouped_ = 0;
  std::vector<std::vector<int32_t>> non_finite_;
  std::vector<bool> observed_;
};

}  // namespace attnd

#endif  // ATTND_KERNELS_KEY_PACK_H_
