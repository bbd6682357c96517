#include "kernels/plan.h"

#include <algorithm>
#include <utility>

#include "kernels/chains.h"
#include "kernels/decayed_queries.h"
#include "kernels/gemm.h"
#include "kernels/item_checks.h"
#include "kernels/key_pack.h"
#include "kernels/problem_checks.h"
#include "kernels/small_product.h"
#include "kernels/softmax.h"
#include "kernels/units.h"

namespace attnd {
namespace {

// Up to here a row of phases is read faster than it is made. Longer items
// compute their phases for every head anew, which is little beside their
// products.
constexpr int64_t kMaxSharedPhaseFloats = 256 * 1024;
// A free turn costs far more than to read it from memory.
constexpr int64_t kMaxSharedTurnFloats = 16 * 1024 * 1024;

bool ItemsDiffer(const AttentionProblem& p) {
  return p.query_time.per_item() || p.key_time.per_item() ||
         !p.mask.query_lengths.empty() || !p.mask.key_lengths.empty() ||
         !p.mask.key_validity.empty() || p.mask.ragged();
}

// Of keys, values and a tile in bf16.
int64_t HalfElements(const AttentionProblem& problem, int64_t keys) {
  const int64_t depth = Bf16Depth(PaddedDim(problem.query.shape().cols));
  const int64_t columns =
      (ValueColumns(problem) + kKeyBlock - 1) / kKeyBlock * kKeyBlock;
  return (keys + kKeyBlock + kMovedKeys) * (depth + columns) +
         kMaxTileRows * (kMaxTileKeys + depth + 2 * columns);
}

// What a worker keeps of a head that decays, beside its keys and queries.
int64_t DecayFloats(const Encoder& encoder, int64_t kv_head, int64_t dim) {
  const HeadEncoder& head = encoder.head(kv_head);
  if (!head.one_sided() && !head.pairwise()) return 0;
  const auto sources =
      std::max<int64_t>(1, static_cast<int64_t>(encoder.sources().size()));
  // Of keys (key_pack.h): three blocks before they decay, two in groups, those
  // that were moved. Of queries (decayed_queries.h): in groups, and moved. Of
  // pieces (pair_tiles.h): queries, later keys, moved keys.
  const int64_t rows = 5 * kKeyBlock + kMovedKeys + 2 * kMaxTileRows +
                       kRowGroup + kMaxTileKeys + kKeyGroup;
  // Each of the three has lags and the factors of one.
  return rows * dim + 3 * (FactorCount(head) + kKeyGroup) +
         sources * (kKeyBlock + 3 * kKeyGroup);
}

}  // namespace

int64_t ValueColumns(const AttentionProblem& problem) {
  if (!problem.outputs.output) return 0;
  const int64_t columns = problem.value.shape().cols;
  return problem.value_mask.empty() ? columns : 2 * columns;
}

int64_t ItemCount(const AttentionProblem& problem) {
  return problem.mask.ragged()
             ? static_cast<int64_t>(problem.mask.query_offsets.size()) - 1
             : problem.query.shape().batch;
}

absl::StatusOr<Plan> Plan::Make(const AttentionProblem& problem) {
  if (absl::Status status = CheckProblem(problem); !status.ok()) return status;
  const Shape4 &q = problem.query.shape(), &k = problem.key.shape();
  Plan plan;
  plan.problem_ = problem;
  plan.identity_ = std::make_shared<char>();
  plan.bf16_ = problem.bf16_compute && TileGemm::NativeBf16();
  const int64_t items = plan.items();
  const int64_t geometries =
      ItemsDiffer(problem) ? items : std::min<int64_t>(items, 1);
  for (int64_t n = 0; n < geometries; ++n) {
    absl::StatusOr<ItemGeometry> item = MakeGeometry(
        problem.query_time, problem.key_time, problem.mask, n, q.rows, k.rows);
    if (!item.ok()) return item.status();
    plan.items_.push_back(*std::move(item));
  }
  const int64_t group = q.heads / k.heads;
  // Sums over queries need the weights, and these the logits once more.
  const int64_t passes = problem.outputs.key_mass ? 2 : 1;
  const int64_t flops_per_pair =
      2 * (passes * PaddedDim(q.cols) + PaddedDim(ValueColumns(problem)));
  for (int64_t n = 0; n < items; ++n) {
    absl::Status status = CheckItem(plan, n);
    if (!status.ok()) return status;
    if (plan.item(n).key_rows == 0) continue;
    const size_t first = plan.units_.size();
    for (int64_t g = 0; g < k.heads; ++g) {
      AppendUnits(plan.item(n),
                  {.item = n,
                   .kv_head = g,
                   .heads = group,
                   .flops_per_pair = flops_per_pair},
                  plan.units_, plan.counts_);
    }
    if (plan.encoder(n) != nullptr && !plan.encoder(n)->lag_bias().empty()) {
      HeadsTogether(absl::MakeSpan(plan.units_).subspan(first), flops_per_pair);
    }
  }
  for (const Unit& unit : plan.units_) plan.flops_ += unit.flops;
  return plan;
}

int64_t Plan::output_elements() const {
  return lse_elements() * problem_.value.shape().cols;
}

int64_t Plan::lse_elements() const {
  const Shape4& q = problem_.query.shape();
  return q.batch * q.heads * q.rows;
}

int64_t Plan::score_elements() const {
  return lse_elements() * problem_.key.shape().rows;
}

int64_t Plan::top_elements() const {
  return lse_elements() * problem_.outputs.top_k;
}

int64_t Plan::key_mass_elements() const {
  const Shape4& q = problem_.query.shape();
  return q.batch * q.heads * problem_.key.shape().rows;
}

bool Plan::shares_phases(int64_t item) const {
  const Encoder* encoder = this->encoder(item);
  if (encoder == nullptr || !encoder->one_generator() ||
      encoder->uses_clock()) {
    return false;
  }
  const ItemGeometry& geometry = this->item(item);
  const HeadEncoder& head = encoder->head(0);
  return head.phase_floats() * (geometry.query_rows + geometry.key_rows) <=
         (head.free_turns().empty() ? kMaxSharedPhaseFloats
                                    : kMaxSharedTurnFloats);
}

bool Plan::keeps_phases(int64_t item, int64_t kv_head) const {
  const ItemGeometry& geometry = this->item(item);
  const HeadEncoder& head = encoder(item)->head(kv_head);
  return head.turns() && geometry.query_rows == geometry.key_rows &&
         head.phase_floats() * geometry.query_rows <= kMaxSharedPhaseFloats;
}

double Plan::turn_flops() const {
  double flops = 0;
  for (int64_t n = 0; n < items(); ++n) {
    const Encoder* encoder = this->encoder(n);
    if (encoder == nullptr) continue;
    const double rows =
        static_cast<double>(item(n).query_rows + item(n).key_rows);
    const int64_t heads = shares_phases(n) ? 1 : problem_.key.shape().heads;
    for (int64_t h = 0; h < heads; ++h) {
      flops += rows * FreeTurnFlops(encoder->head(h).free_turns());
    }
  }
  return flops;
}

int64_t Plan::phase_table_floats(bool of_heads) const {
  // One item may have most queries, another most keys.
  int64_t query = 0, key = 0;
  for (int64_t b = 0; b < static_cast<int64_t>(items_.size()); ++b) {
    if (encoder(b) == nullptr) continue;
    if (shares_phases(b)) {
      const int64_t row = encoder(b)->head(0).phase_floats();
      query = std::max(query, row * items_[b].query_rows);
      key = std::max(key, row * items_[b].key_rows);
      continue;
    }
    const int64_t heads =
        encoder(b)->one_generator() ? 1 : problem_.key.shape().heads;
    for (int64_t h = 0; of_heads && h < heads; ++h) {
      if (!keeps_phases(b, h)) continue;
      query = std::max(
          query, encoder(b)->head(h).phase_floats() * items_[b].query_rows);
    }
  }
  return query + key;
}

int64_t Plan::workspace_bytes() const {
  const int64_t dim = PaddedDim(problem_.query.shape().cols);
  const int64_t dims = dim + PaddedDim(ValueColumns(problem_));
  int64_t keys = 0, decays = 0;
  for (int64_t b = 0; b < static_cast<int64_t>(items_.size()); ++b) {
    keys = std::max(keys, items_[b].key_rows);
    if (encoder(b) == nullptr) continue;
    const int64_t heads =
        encoder(b)->one_generator() ? 1 : problem_.key.shape().heads;
    for (int64_t h = 0; h < heads; ++h) {
      decays = std::max(decays, DecayFloats(*encoder(b), h, dim));
    }
  }
  // A candidate of top_k is a logit and a row.
  const int64_t candidates = 2 * std::min(problem_.outputs.top_k, keys);
  // Two rows of sums, for the entropy, and what is small beside them.
  const int64_t tile = kMaxTileRows * (kMaxTileKeys + 2 * dims + 2 * kSumLanes +
                                       32 + candidates);
  const int64_t halves = bf16_ ? HalfElements(problem_, keys) : 0;
  return static_cast<int64_t>(sizeof(uint16_t)) * halves +
         static_cast<int64_t>(sizeof(float)) *
             ((keys + kKeyBlock) * dims + phase_table_floats(true) + decays +
              tile);
}

int64_t Plan::plan_bytes() const {
  int64_t bytes = static_cast<int64_t>(units_.size() * sizeof(Unit));
  for (const ItemGeometry& item : items_) {
    bytes += item.query_rows * 28 + item.key_rows * 12;
  }
  return bytes;
}

}  // namespace attnd
