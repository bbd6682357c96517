// Logits of one-sided encodings where the times of queries and keys interleave,
// and of averaged ones: in pieces of 16 queries by 16 keys.
#ifndef ATTND_KERNELS_PAIR_TILES_H_
#define ATTND_KERNELS_PAIR_TILES_H_

#include <cstdint>
#include <vector>

#include "kernels/decayed_queries.h"
#include "kernels/key_pack.h"
#include "kernels/pair_logits.h"
#include "kernels/plan.h"
#include "kernels/source_lags.h"
#include "kernels/tensor.h"

namespace attnd {

// A piece whose keys all lie before (under the two-sided rule: or after) all
// its queries is a product with references at its borders (rule N4); only the
// pieces on the diagonal are evaluated pair by pair.
class PairTiles {
 public:
  // Queries of one Fill: rows of `queries` in encoded order, rotated and
  // scaled.
  struct Rows {
    int64_t first = 0;   // in the item's order
    int64_t offset = 0;  // in the tile, a multiple of 16
    int64_t count = 0;
    const float* queries = nullptr;  // [count, stride]
    int64_t stride = 0;
    bool exact = false;  // sums as scores need them (small_product.h)
    DecayedQueries* decayed = nullptr;  // of these; null for pairwise heads
    // Visible columns of each row; pieces that no row sees are left alone.
    const int32_t* begin = nullptr;
    const int32_t* end = nullptr;
  };

  // logits[r, c] for keys [key, key + keys) of the pack's head; key and keys
  // are multiples of 64.
  void Fill(const Plan& plan, const Encoder& encoder, KeyPack& pack,
            const Rows& rows, int64_t key, int64_t keys, float* logits);

  int64_t scratch_bytes() const;

 private:
  enum Side { kPast, kFuture };
  struct Piece;

  void FillPiece(const Piece& piece, float* logits, int64_t stride);
  void MoveGroup(const float* group, int64_t width, Side side);
  void MultiplyPiece(const Piece& piece, const float* queries, float* logits,
                     int64_t stride);
  bool Separated(const Piece& piece, Side side) const;
  const float* AdvancedQueries(const Piece& piece, Side side);
  const float* AdvancedGroup(const Piece& piece, Side side, int64_t* width);
  bool Overlapping(const Piece& piece, float* logits, int64_t stride);
  void MoveToRow(const Piece& piece, int64_t row);
  void AddFast(const Piece& piece, float* logits, int64_t stride);
  void Interleave(const Piece& piece, int source, Interleaving* times) const;
  void PairLags(const Piece& piece, int64_t row);
  void PairByPair(const Piece& piece, float* logits, int64_t stride);
  void Averaged(const Piece& piece, float* logits, int64_t stride);

  const Plan* plan_ = nullptr;
  const Encoder* encoder_ = nullptr;
  const HeadEncoder* head_ = nullptr;
  KeyPack* pack_ = nullptr;
  Rows rows_;
  std::vector<int> fast_;         // chains of one Overlapping
  std::vector<int> fast_decays_;  // those of order 1 and one source
  std::vector<float> reach_;      // back to the first row, per source
  AlignedBuffer queries_, groups_, moved_, factors_;
  SourceLags lags_;
  std::vector<bool> future_group_done_;
  bool future_done_ = false;
};

}  // namespace attnd

#endif  // ATTND_KERNELS_PAIR_TILES_H_
