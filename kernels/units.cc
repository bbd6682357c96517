#include "kernels/units.h"

#include <algorithm>

#include "kernels/gemm.h"
#include "kernels/small_product.h"

namespace attnd {
namespace {

// A unit takes about 2 ms at 100 GFLOP/s, so that a worker is free again soon;
// one tile of one head against so many keys that it takes longer is not cut.
constexpr int64_t kUnitFlops = 200'000'000;

// Keys that some of the rows [i, i + rows) see, padded to multiples of `grain`:
// blocks of the tile loop, or columns of small products.
int64_t PaddedKeys(const ItemGeometry& item, int64_t i, int64_t rows,
                   int64_t grain = kKeyBlock) {
  const auto padded = [grain](int64_t begin, int64_t end) {
    return std::max<int64_t>(
        0, (end + grain - 1) / grain * grain - begin / grain * grain);
  };
  const int64_t end = item.end[i + rows - 1];
  if (item.gap_end.empty()) return padded(item.begin[i], end);
  return padded(0, item.prefix) + padded(item.gap_end[i], end);
}

// Those of whole blocks that all of the rows see.
int64_t WholeKeys(const ItemGeometry& item, int64_t i, int64_t rows) {
  const auto whole = [](int64_t begin, int64_t end) {
    return std::max<int64_t>(
        0, end / kKeyBlock * kKeyBlock -
               (begin + kKeyBlock - 1) / kKeyBlock * kKeyBlock);
  };
  const int64_t last = i + rows - 1, end = item.end[i];
  if (item.gap_end.empty()) return whole(item.begin[last], end);
  return whole(0, item.prefix) + whole(item.gap_end[last], end);
}

// Of one query head in the tile of `rows` rows from `first` on.
struct Tile {
  int64_t padded_pairs = 0;  // whole blocks
  int64_t pairs = 0, blocks = 0;
};

Tile CountTile(const ItemGeometry& item, int64_t first, int64_t rows) {
  constexpr int64_t kHalf = kMaxTileRows / 2;
  const int64_t whole = WholeKeys(item, first, rows);
  Tile tile;
  for (int64_t r = 0; r < rows; r += kHalf) {
    const int64_t half = std::min(kHalf, rows - r);
    const int64_t keys = PaddedKeys(item, first + r, half);
    tile.padded_pairs += PaddedRows(half) * keys;
    tile.blocks += keys / kKeyBlock;
  }
  // Both halves meet the others at once.
  if (rows > kHalf) tile.blocks -= whole / kKeyBlock;
  // Where padding would be much, small products go on without it, in groups of
  // rows that see about the same.
  for (int64_t r = 0; r < rows; r += kProductRows) {
    const int64_t some = std::min(kProductRows, rows - r);
    tile.pairs += some * PaddedKeys(item, first + r, some, kProductColumns);
  }
  return tile;
}

}  // namespace

void AppendUnits(const ItemGeometry& item, const HeadGroup& group,
                 std::vector<Unit>& units, TileCounts& all) {
  bool open = false;  // the last unit may take more tiles
  for (int64_t i = 0; i < item.query_rows; i += kMaxTileRows) {
    const int64_t rows = std::min<int64_t>(kMaxTileRows, item.query_rows - i);
    const Tile tile = CountTile(item, i, rows);
    const int64_t flops = tile.padded_pairs * group.flops_per_pair;
    all.pairs += tile.pairs * group.heads;
    all.blocks += tile.blocks * group.heads;
    all.flops += tile.pairs * group.heads * group.flops_per_pair;
    if (open && units.back().flops + flops * group.heads <= kUnitFlops) {
      units.back().rows += rows;
      units.back().flops += flops * group.heads;
      continue;
    }
    const int64_t most = std::clamp<int64_t>(
        kUnitFlops / std::max<int64_t>(1, flops), 1, group.heads);
    const int64_t pieces = (group.heads + most - 1) / most;
    for (int64_t p = 0; p < pieces; ++p) {
      const int64_t h = p * group.heads / pieces;
      const int64_t heads = (p + 1) * group.heads / pieces - h;
      units.push_back({.item = group.item,
                       .kv_head = group.kv_head,
                       .first_head = group.kv_head * group.heads + h,
                       .heads = heads,
                       .first_row = i,
                       .rows = rows,
                       .flops = flops * heads});
    }
    open = pieces == 1;
  }
}

void HeadsTogether(absl::Span<Unit> units, int64_t flops_per_pair) {
  // Heads are all cut at the same rows.
  std::vector<int64_t> starts;
  int64_t bytes = 0;
  for (const Unit& unit : units) {
    if (unit.first_head != units[0].first_head) continue;
    const int64_t pairs = unit.flops / (unit.heads * flops_per_pair);
    bytes += pairs * static_cast<int64_t>(sizeof(float));
    if (!starts.empty() && bytes <= kRowsTogetherBytes) continue;
    starts.push_back(unit.first_row);
    bytes = pairs * static_cast<int64_t>(sizeof(float));
  }
  const auto together = [&](const Unit& unit) {
    return std::upper_bound(starts.begin(), starts.end(), unit.first_row) -
           starts.begin();
  };
  std::stable_sort(
      units.begin(), units.end(),
      [&](const Unit& a, const Unit& b) { return together(a) < together(b); });
}

}  // namespace attnd
