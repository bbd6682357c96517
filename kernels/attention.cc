#include "kernels/attention.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/float_mode.h"
#include "kernels/gemm.h"
#include "kernels/key_mass.h"
#include "kernels/key_pack.h"
#include "kernels/linear.h"
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

// What takes a tile through the keys.
struct Walk {
  const Plan& plan;
  const std::atomic<bool>* cancelled;
  const OutputBuffers& out;
  TileGemm& gemm;
  KeyPack& pack;
  QueryTile& tile;
  std::vector<QueryTile::Step>& steps;

  bool Cancelled() const {
    return cancelled != nullptr && cancelled->load(std::memory_order_relaxed);
  }
  void AddSteps(const QueryTile::Step& rows, Interval keys);
  void AddPath(const TilePath& path, int64_t rows, bool prefix);
  void NearestFirst(const QueryTile::Place& place);
  absl::Status Run(const QueryTile::Place& place, UnitStats* stats);
};

void Walk::AddSteps(const QueryTile::Step& rows, Interval keys) {
  for (int64_t key = keys.begin; key < keys.end;) {
    QueryTile::Step& step = steps.emplace_back(rows);
    step.key = key;
    // Whether keys may be left out is told block by block.
    step.keys = tile.prunes()
                    ? kKeyBlock
                    : tile.Width(pack, rows.first, key, keys.end - key);
    key += step.keys;
  }
}

void Walk::AddPath(const TilePath& path, int64_t rows, bool prefix) {
  QueryTile::Step step{.rows = rows, .prefix = prefix};
  AddSteps(step, path.full);
  const bool two = rows > kHalf;
  const bool together =
      two && path.left[0] == path.left[1] && path.right[0] == path.right[1];
  step.ragged = true;
  for (int h = 0; h < (two && !together ? 2 : 1); ++h) {
    step.first = h * kHalf;
    step.rows = together ? rows : std::min(rows - step.first, kHalf);
    AddSteps(step, path.left[h]);
    AddSteps(step, path.right[h]);
  }
}

// What weighs most comes first, so that the rest can be told to weigh little.
void Walk::NearestFirst(const QueryTile::Place& place) {
  const ItemGeometry& item = plan.item(place.item);
  const int64_t middle = place.first + place.rows / 2;
  const auto count = [](const auto& times, auto time) {
    return std::lower_bound(times.begin(), times.end(), time) - times.begin();
  };
  const int64_t now = item.exact
                          ? count(item.key_ticks, item.query_ticks[middle])
                          : count(item.key_real, item.query_real[middle]);
  const auto distance = [now](const QueryTile::Step& step) {
    return std::abs(2 * (step.key - now) + step.keys);
  };
  std::stable_sort(steps.begin(), steps.end(),
                   [&](const QueryTile::Step& a, const QueryTile::Step& b) {
                     return distance(a) < distance(b);
                   });
}

absl::Status Walk::Run(const QueryTile::Place& place, UnitStats* stats) {
  const ItemGeometry& item = plan.item(place.item);
  tile.Start(plan, place, pack);
  steps.clear();
  for (bool prefix : {true, false}) {
    if (prefix && item.gap_end.empty()) continue;
    AddPath(FindPath(item, place.first, place.rows, prefix), place.rows,
            prefix);
  }
  if (tile.prunes()) NearestFirst(place);
  int64_t done = 0;  // tiles of 64 by 64
  for (const QueryTile::Step& step : steps) {
    if (Cancelled()) return absl::CancelledError("cancelled between tiles");
    if (tile.Prune(step)) continue;
    absl::Status status = tile.Advance(gemm, pack, step, out);
    if (!status.ok()) return status;
    done += BlockUp(step.rows) / kHalf * (step.keys / kKeyBlock);
  }
  tile.Finish(pack, out);
  if (tile.NeedsSecondPass(out)) {
    for (const QueryTile::Step& step : steps) {
      if (Cancelled()) return absl::CancelledError("cancelled between tiles");
      absl::Status status = tile.Revisit(gemm, pack, step, out);
      if (!status.ok()) return status;
    }
    tile.FinishAgain(pack, out);
  }
  if (stats != nullptr) {
    stats->skipped_tiles +=
        BlockUp(place.rows) / kHalf * (BlockUp(pack.key_rows()) / kKeyBlock) -
        done;
    stats->lost_mass_bound =
        std::max(stats->lost_mass_bound, tile.lost_mass_bound());
  }
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

// Of a row that sees no key; `lse` is its sink's.
void EmptyRow(const Plan& plan, int64_t batch, int64_t head, int64_t row,
              float lse, const OutputBuffers& out) {
  const Shape4& q = plan.problem().query.shape();
  const int64_t dim = plan.problem().value.shape().cols;
  const int64_t width = plan.problem().key.shape().rows;
  const int64_t top = plan.problem().outputs.top_k;
  const int64_t index = (batch * q.heads + head) * q.rows + row;
  const int64_t output_row = plan.problem().query.RowNumber(batch, head, row);
  const auto fill = [](auto span, int64_t first, int64_t count, auto value) {
    if (!span.empty()) std::fill_n(span.data() + first, count, value);
  };
  fill(out.output, output_row * dim, dim, 0.0f);
  fill(out.halves, output_row * dim, dim, uint16_t{0});
  fill(out.lse, index, 1, lse);
  fill(out.scores, index * width, width, kMinusInfinity);
  fill(out.weights, index * width, width, 0.0f);
  fill(out.entropy, index, 1, 0.0f);
  fill(out.top_rows, index * top, top, int64_t{-1});
  fill(out.top_weights, index * top, top, 0.0f);
  fill(out.top_times, index * top, top, int64_t{0});
}

}  // namespace

struct Workspace::State {
  std::unique_ptr<TileGemm> gemm;
  KeyPack pack;
  QueryTile tile;
  std::vector<QueryTile::Step> steps;
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

void Workspace::PinThread() { TileGemm::PinThread(); }

absl::StatusOr<LinearWorkspace*> Workspace::Linear() {
  if (linear_ == nullptr) {
    absl::StatusOr<std::unique_ptr<LinearWorkspace>> made =
        LinearWorkspace::Create();
    if (!made.ok()) return made.status();
    linear_ = *std::move(made);
  }
  return linear_.get();
}

absl::Status Workspace::Prepare(int64_t dim, int64_t value_dim) {
  return state_->gemm->Prepare(PaddedDim(dim), PaddedDim(value_dim));
}

int64_t Workspace::scratch_bytes() const {
  return state_->gemm->scratch_bytes() + state_->pack.scratch_bytes() +
         state_->tile.scratch_bytes();
}

absl::Status RunUnit(const Plan& plan, int64_t unit_index, Workspace& workspace,
                     const OutputBuffers& out,
                     const std::atomic<bool>* cancelled, UnitStats* stats) {
  const FlushDenormals flush;
  if (stats != nullptr) *stats = {};
  const Unit& unit = plan.units()[unit_index];
  const Shape4& q = plan.problem().query.shape();
  const ItemGeometry& item = plan.item(unit.item);
  Workspace::State& state = workspace.state();
  state.pack.Select(plan, unit.item, unit.kv_head);
  Walk walk{plan,       cancelled,  out,        *state.gemm,
            state.pack, state.tile, state.steps};
  const bool hides = !out.scores.empty() || !out.weights.empty();
  for (int64_t r = 0; r < unit.rows; r += kMaxTileRows) {
    const int64_t first = unit.first_row + r;
    const int64_t rows = std::min<int64_t>(kMaxTileRows, unit.rows - r);
    for (int64_t h = 0; h < unit.heads; ++h) {
      const int64_t head = unit.first_head + h;
      for (int64_t i = 0; hides && i < rows; ++i) {
        HideRow(plan,
                (plan.batch(unit.item) * q.heads + head) * q.rows +
                    item.QueryRow(first + i),
                out);
      }
      absl::Status status = walk.Run(
          {.item = unit.item, .head = head, .first = first, .rows = rows},
          stats);
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
    const int64_t done = item.key_rows == 0 ? 0 : item.query_rows;
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = done; i < rows.queries; ++i) {
        const bool sink = i < item.query_rows && !plan.problem().sinks.empty();
        EmptyRow(plan, plan.batch(n), h, rows.first_query + i,
                 sink ? plan.problem().sinks[h] : kMinusInfinity, out);
      }
    }
  }
}

void FinishKeyMass(const Plan& plan, const OutputBuffers& out) {
  ReadKeyMass(out.key_sums, plan.problem().query.shape().rows, out.key_mass);
}

absl::Status RunAll(const Plan& plan, Workspace& workspace,
                    const OutputBuffers& out, UnitStats* stats) {
  FillEmptyRows(plan, out);
  UnitStats all;
  const auto units = static_cast<int64_t>(plan.units().size());
  for (int64_t unit = 0; unit < units; ++unit) {
    UnitStats one;
    absl::Status status = RunUnit(plan, unit, workspace, out, nullptr, &one);
    if (!status.ok()) return status;
    all.skipped_tiles += one.skipped_tiles;
    all.lost_mass_bound = std::max(all.lost_mass_bound, one.lost_mass_bound);
  }
  FinishKeyMass(plan, out);
  if (stats != nullptr) *stats = all;
  return absl::OkStatus();
}

const char* InstructionSet() { return VectorTarget(); }

}  // namespace attnd
