// The sum of all bias terms that times alone determine: T5 and HSTU buckets,
// KERPLE, Sandwich, tables over lag, FIRE. Compiled for all query heads.
//
// What depends on the times alone is prepared once per tile for all heads, and
// kept from head to head: runs of keys in equal buckets or on equal lines, and
// planes of which a head adds a multiple.
#ifndef ATTND_KERNELS_LAG_BIAS_H_
#define ATTND_KERNELS_LAG_BIAS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/clock.h"
#include "kernels/encoding_spec.h"
#include "kernels/lag_tile.h"

namespace attnd {

// |bias - exact| <= kLagBiasError * max(1, size): size is |bias|, summed over
// terms, for FIRE and tables the sum of their inner terms (LagBias::Size).
inline constexpr double kLagBiasError = 2e-7;

// Immutable; thread-safe. Tiles belong to one thread.
class LagBias {
 public:
  // Takes the terms above and ignores the others. INVALID_ARGUMENT with the
  // path below "biases[i]" when a term is invalid or does not fit the heads.
  static absl::StatusOr<std::shared_ptr<const LagBias>> Compile(
      const std::vector<BiasTerm>& terms, int query_heads,
      const TickRatio& ratio);

  bool empty() const { return terms_.empty(); }
  // No term looks at anything but the lag (no FIRE).
  bool of_lag_alone() const { return of_lag_alone_; }

  // Bias in double for a lag in ticks (kReal: the axis' own unit) and for a
  // pair of an item.
  double Exact(int head, const LagPoint& point) const;
  double Exact(int head, const ItemGeometry& item, int64_t i, int64_t j) const;
  // What the pair counts in S of the accuracy contract.
  double Size(int head, const LagPoint& point) const;
  double Size(int head, const ItemGeometry& item, int64_t i, int64_t j) const;
  // A bound from above of the bias over all lags in [low, high] ticks.
  double Supremum(int head, double low, double high) const;

  // Binds `tile` to queries [first, first + rows) of the item's order. The item
  // must live and stay until the last Add.
  void StartRows(const ItemGeometry& item, int64_t first, int64_t rows,
                 LagTile* tile) const;
  // Prepares the rectangle of rows [first, first + rows), counted from
  // StartRows' first, and keys [key, key + keys) of the item's order, at most
  // kMaxRowKeys; keys past the last are never visible. Serves at once what the
  // tile's cache holds, for example from another head.
  void Prepare(int64_t first, int64_t rows, int64_t key, int64_t keys,
               LagTile* tile) const;
  // logits[r * stride + c] += bias(head, row r, column c) of the rectangle at
  // visible columns; the others are not touched.
  void Add(int head, const LagTile& tile, int64_t stride, float* logits) const;

 private:
  LagBias() = default;
  std::vector<std::unique_ptr<LagTerm>> terms_;
  // Identifies terms_ in caches: no other object has it while they hold it.
  std::shared_ptr<const void> owner_ = std::make_shared<char>();
  bool of_lag_alone_ = true;
};

// Bytes that a tile holds, at most about kLagCacheBytes.
int64_t ScratchBytes(const LagTile& tile);

}  // namespace attnd

#endif  // ATTND_KERNELS_LAG_BIAS_H_
