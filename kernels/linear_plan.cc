#include "kernels/linear_plan.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/gemm.h"
#include "kernels/linear_checks.h"
#include "kernels/linear_decays.h"
#include "kernels/linear_late.h"

namespace attnd {
namespace {

// A segment takes about 2 ms at 100 GFLOP/s, as a unit of the softmax kind.
constexpr int64_t kSegmentFlops = 200'000'000;

absl::Status CheckStateShape(const LinearState& state,
                             const LinearStateShape& expected) {
  if (absl::Status s = CheckLinearState(state); !s.ok()) return s;
  if (state.shape == expected) return absl::OkStatus();
  const auto text = [](const LinearStateShape& s) {
    return absl::StrCat(
        "[", s.items, ",", s.kv_heads, ",", s.dim, ",", s.value_dim, "], ",
        s.exact ? "ticks" : "real times", " of ", s.coordinates,
        " coordinates, ", s.clock_channels, " clock channels",
        s.normaliser ? ", normaliser" : "", s.decay_sum ? ", decay sum" : "",
        s.held ? ", held key" : "");
  };
  return absl::InvalidArgumentError(
      absl::StrCat("linear.initial_state: ", text(state.shape), ", expected ",
                   text(expected)));
}

}  // namespace

LinearStateShape StateShapeOf(const LinearProblem& problem) {
  const AttentionProblem& p = problem.attention;
  const Shape4& k = p.key.shape();
  LinearStateShape shape{.items = ItemCount(p),
                         .kv_heads = k.heads,
                         .dim = k.cols,
                         .value_dim = p.value.shape().cols};
  shape.coordinates = p.key_time.coordinates();
  shape.exact = p.key_time.kind() != TimeAxis::Kind::kReal;
  if (p.encoder != nullptr && p.encoder->uses_clock()) {
    shape.clock_channels = p.encoder->clock_channels();
  }
  shape.normaliser =
      problem.options.normaliser != LinearOptions::Normaliser::kNone;
  shape.decay_sum =
      problem.options.normaliser == LinearOptions::Normaliser::kRetNet;
  shape.held = problem.options.input_rule != LinearOptions::InputRule::kEvent;
  return shape;
}

absl::StatusOr<LinearPlan> LinearPlan::Make(const LinearProblem& problem) {
  if (absl::Status s = CheckLinearProblem(problem); !s.ok()) return s;
  LinearPlan plan;
  plan.problem_ = problem;
  AttentionProblem rows = problem.attention;
  rows.mask.causal = true;
  rows.mask.causal_index = false;
  rows.outputs = {};
  absl::StatusOr<Plan> made = Plan::Make(rows);
  if (!made.ok()) return made.status();
  plan.rows_ = std::make_shared<const Plan>(*std::move(made));
  plan.state_shape_ = StateShapeOf(problem);
  for (int64_t item = 0; item < plan.state_shape_.items; ++item) {
    absl::Status s = CheckLinearClocks(problem, *plan.rows_, item);
    if (!s.ok()) return s;
  }
  if (problem.initial_state != nullptr) {
    absl::Status s = CheckStateShape(*problem.initial_state, plan.state_shape_);
    if (!s.ok()) return s;
    for (int64_t item = 0; item < plan.state_shape_.items; ++item) {
      s = CheckLinearStart(problem, plan.state_shape_, *plan.rows_, item);
      if (!s.ok()) return s;
    }
  }
  const Shape4& q = problem.attention.query.shape();
  const Shape4& k = problem.attention.key.shape();
  const int64_t dim = PaddedDim(k.cols);
  plan.width_ = PaddedDim(plan.state_shape_.value_dim + (plan.ones() ? 1 : 0));
  const int64_t group = q.heads / k.heads;
  // Per query row: QK^T, PV, QS; per key: K^T V.
  const double per_query =
      2.0 * static_cast<double>(group) *
      static_cast<double>(kLinearChunk * dim + kLinearChunk * plan.width_ +
                          dim * plan.width_);
  const double per_key = 2.0 * static_cast<double>(dim * plan.width_);
  const double passes = problem.options.bidirectional ? 2 : 1;
  // As if every chunk had as many queries as keys.
  const auto flops_of = [&](int64_t item) {
    const ItemGeometry& its = plan.rows_->item(item);
    return passes * (per_query * static_cast<double>(its.query_rows) +
                     per_key * static_cast<double>(its.key_rows));
  };
  double flops = 0;
  int64_t most_keys = 0;
  double most_flops = 0;
  for (int64_t item = 0; item < plan.state_shape_.items; ++item) {
    flops += flops_of(item) * static_cast<double>(k.heads);
    most_flops = std::max(most_flops, flops_of(item));
    most_keys = std::max(most_keys, plan.rows_->item(item).key_rows);
  }
  plan.flops_ = flops < 0x1p62 ? static_cast<int64_t>(flops)
                               : std::numeric_limits<int64_t>::max();
  const int64_t chunks =
      std::max<int64_t>(1, (most_keys + kLinearChunk - 1) / kLinearChunk);
  // Clocks are read whole when a head starts, so it is not interrupted.
  const bool whole =
      problem.options.bidirectional || plan.state_shape_.clock_channels > 0;
  plan.chunks_per_segment_ =
      whole
          ? chunks
          : std::clamp<int64_t>(
                static_cast<int64_t>(static_cast<double>(chunks) *
                                     kSegmentFlops / std::max(most_flops, 1.0)),
                1, chunks);
  plan.segments_ =
      (chunks + plan.chunks_per_segment_ - 1) / plan.chunks_per_segment_;
  return plan;
}

int64_t LinearPlan::progress_bytes() const {
  const Shape4& q = problem_.attention.query.shape();
  int64_t bytes = PaddedDim(state_shape_.dim) * width_ *
                  static_cast<int64_t>(sizeof(double) + sizeof(float));
  if (problem_.options.bidirectional) {
    const bool in_place = problem_.attention.output_dtype == DType::kF32;
    const int64_t rows = q.heads / state_shape_.kv_heads * q.rows;
    bytes += rows * (1 + (in_place ? 0 : state_shape_.value_dim)) *
             static_cast<int64_t>(sizeof(float));
  }
  return bytes;
}

int64_t LinearPlan::workspace_bytes() const {
  const int64_t dim = PaddedDim(state_shape_.dim);
  // Keys encoded, packed, moved and moved late; values; phases of keys and of
  // queries; the sum over the chunk. Queries by row and by column, logits and
  // answers. Two raw rows, and late queries and keys of a run.
  return static_cast<int64_t>(sizeof(float)) *
         (rows_->phase_table_floats(false) +
          kLinearChunk * (4 * dim + width_ + 2 * dim) + dim * width_ +
          kMaxTileRows * (2 * dim + kLinearChunk + width_) +
          (4 + 2 * kLateBlock) * dim);
}

}  // namespace attnd
