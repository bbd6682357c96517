#include "kernels/attention.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "kernels/float_mode.h"
#include "kernels/gemm.h"
#include "kernels/key_pack.h"
#include "kernels/query_tile.h"
#include "kernels/softmax.h"

namespace attnd {
namespace {

constexpr int64_t kHalf = kMaxTileRows / 2;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

int64_t BlockDown(int64_t key) { return key / kKeyBlock * kKeyBlock; }
int64_t BlockUp(int64_t key) { return BlockDown(key + kKeyBlock - 1); }

struct Interval {
  int64_t begin = 0, end = 0;
  bool empty() const { return begin >= end; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

// Rows of a tile on their way through one interval of keys.
struct Walk {
  const Plan& plan;
  const std::atomic<bool>* cancelled;
  const OutputBuffers& out;
  TileGemm& gemm;
  KeyPack& pack;
  QueryTile& tile;

  absl::Status Run(int64_t first, int64_t rows, Interval keys, bool ragged,
                   bool prefix) {
    for (int64_t key = keys.begin; key < keys.end;) {
      if (cancelled != nullptr && cancelled->load(std::memory_order_relaxed)) {
        return absl::CancelledError("cancelled between tiles");
      }
      const int64_t width = tile.Width(pack, first, key, keys.end - key);
      pack.EnsureValues(key, key + width);
      absl::Status status = tile.Advance(gemm, pack,
                                         {.first = first,
                                          .rows = rows,
                                          .key = key,
                                          .keys = width,
                                          .ragged = ragged,
                                          .prefix = prefix},
                                         out);
      if (!status.ok()) return status;
      key += width;
    }
    return absl::OkStatus();
  }
};

// What one tile has to visit: keys that all rows see in full blocks, and for
// each half the blocks left and right of them that only some rows see.
struct TilePath {
  Interval full;
  Interval left[2], right[2];
};

// Of the keys before the gap (`prefix`), or of all others.
TilePath FindPath(const ItemGeometry& item, int64_t first, int64_t rows,
                  bool prefix) {
  const std::vector<int32_t>& begins =
      item.gap_end.empty() ? item.begin : item.gap_end;
  const auto begin = [&](int64_t r) { return prefix ? 0 : begins[first + r]; };
  const auto end = [&](int64_t r) {
    return prefix ? item.prefix : item.end[first + r];
  };
  TilePath path;
  path.full = {BlockUp(begin(rows - 1)), BlockDown(end(0))};
  const bool none = path.full.empty();
  for (int h = 0; h < 2; ++h) {
    const int64_t r0 = h * kHalf, r1 = std::min(rows, r0 + kHalf);
    if (r0 >= r1) break;
    const Interval half{BlockDown(begin(r0)), BlockUp(end(r1 - 1))};
    if (none) {
      path.left[h] = half;
    } else {
      path.left[h] = {half.begin, path.full.begin};
      path.right[h] = {path.full.end, half.end};
    }
  }
  return path;
}

absl::Status RunPath(Walk& walk, const TilePath& path, int64_t all_rows,
                     bool prefix) {
  absl::Status status = walk.Run(0, all_rows, path.full, false, prefix);
  if (!status.ok()) return status;
  const bool two = all_rows > kHalf;
  const bool together =
      two && path.left[0] == path.left[1] && path.right[0] == path.right[1];
  for (int h = 0; h < (two && !together ? 2 : 1); ++h) {
    const int64_t first = h * kHalf;
    const int64_t rows =
        together ? all_rows : std::min(all_rows - first, kHalf);
    for (const Interval& keys : {path.left[h], path.right[h]}) {
      status = walk.Run(first, rows, keys, true, prefix);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

absl::Status RunTile(Walk& walk, const QueryTile::Place& place) {
  walk.tile.Start(walk.plan, place, walk.pack);
  const ItemGeometry& item = walk.plan.item(place.item);
  for (bool prefix : {true, false}) {
    if (prefix && item.gap_end.empty()) continue;
    absl::Status status =
        RunPath(walk, FindPath(item, place.first, place.rows, prefix),
                place.rows, prefix);
    if (!status.ok()) return status;
  }
  walk.tile.Finish(walk.pack, walk.out);
  return absl::OkStatus();
}

// Scores and weights start hidden; tiles write what is visible.
void HideRow(const Plan& plan, int64_t index, const OutputBuffers& out) {
  const int64_t width = plan.problem().key.shape().rows;
  for (absl::Span<float> scores : {out.scores, out.weights}) {
    if (scores.empty()) continue;
    float* row = scores.data() + index * width;
    std::fill(row, row + width, kMinusInfinity);
  }
}

void EmptyRow(const Plan& plan, int64_t batch, int64_t head, int64_t row,
              const OutputBuffers& out) {
  const Shape4& q = plan.problem().query.shape();
  const int64_t dim = plan.problem().value.shape().cols;
  const int64_t width = plan.problem().key.shape().rows;
  const int64_t index = (batch * q.heads + head) * q.rows + row;
  const int64_t output_row = plan.problem().query.layout() == Layout::kBHLD
                                 ? index
                                 : (batch * q.rows + row) * q.heads + head;
  if (!out.output.empty()) {
    std::fill_n(out.output.data() + output_row * dim, dim, 0.0f);
  }
  if (!out.lse.empty()) out.lse[index] = kMinusInfinity;
  if (!out.scores.empty()) {
    std::fill_n(out.scores.data() + index * width, width, kMinusInfinity);
  }
  if (!out.weights.empty()) {
    std::fill_n(out.weights.data() + index * width, width, 0.0f);
  }
}

}  // namespace

struct Workspace::State {
  std::unique_ptr<TileGemm> gemm;
  KeyPack pack;
  QueryTile tile;
};

Workspace::Workspace() : state_(std::make_unique<State>()) {}
Workspace::~Workspace() = default;

absl::StatusOr<std::unique_ptr<Workspace>> Workspace::Create() {
  absl::StatusOr<std::unique_ptr<TileGemm>> gemm = TileGemm::Create();
  if (!gemm.ok()) return gemm.status();
  std::unique_ptr<Workspace> workspace(new Workspace);
  workspace->state_->gemm = *std::move(gemm);
  return workspace;
}

int64_t Workspace::scratch_bytes() const {
  return state_->gemm->scratch_bytes() + state_->pack.scratch_bytes() +
         state_->tile.scratch_bytes();
}

absl::Status RunUnit(const Plan& plan, int64_t unit_index, Workspace& workspace,
                     const OutputBuffers& out,
                     const std::atomic<bool>* cancelled) {
  const FlushDenormals flush;
  const Unit& unit = plan.units()[unit_index];
  const Shape4& q = plan.problem().query.shape();
  const ItemGeometry& item = plan.item(unit.item);
  const int64_t group = q.heads / plan.problem().key.shape().heads;
  Workspace::State& state = workspace.state();
  state.pack.Select(plan, unit.item, unit.kv_head);
  Walk walk{plan, cancelled, out, *state.gemm, state.pack, state.tile};
  for (int64_t r = 0; r < unit.rows; r += kMaxTileRows) {
    const int64_t first = unit.first_row + r;
    const int64_t rows = std::min<int64_t>(kMaxTileRows, unit.rows - r);
    for (int64_t g = 0; g < group; ++g) {
      const int64_t head = unit.kv_head * group + g;
      for (int64_t i = 0; i < rows; ++i) {
        HideRow(plan,
                (plan.batch(unit.item) * q.heads + head) * q.rows +
                    item.QueryRow(first + i),
                out);
      }
      absl::Status status = RunTile(
          walk,
          {.item = unit.item, .head = head, .first = first, .rows = rows});
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

void FillEmptyRows(const Plan& plan, const OutputBuffers& out) {
  const int64_t heads = plan.problem().query.shape().heads;
  for (int64_t n = 0; n < plan.items(); ++n) {
    const ItemGeometry& item = plan.item(n);
    const ItemRows rows = plan.rows(n);
    // Valid queries are the first of an item's rows.
    const int64_t valid = item.key_rows == 0 ? 0 : item.query_rows;
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = valid; i < rows.queries; ++i) {
        EmptyRow(plan, plan.batch(n), h, rows.first_query + i, out);
      }
    }
  }
}

absl::Status RunAll(const Plan& plan, Workspace& workspace,
                    const OutputBuffers& out) {
  FillEmptyRows(plan, out);
  const auto units = static_cast<int64_t>(plan.units().size());
  for (int64_t unit = 0; unit < units; ++unit) {
    absl::Status status = RunUnit(plan, unit, workspace, out);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

const char* InstructionSet() { return VectorTarget(); }

}  // namespace attnd
