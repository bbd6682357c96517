#include "kernels/plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/bias.h"
#include "kernels/gemm.h"

namespace attnd {
namespace {

// A unit takes about 2 ms at 100 GFLOP/s, so that a worker is free again soon.
constexpr int64_t kUnitFlops = 200'000'000;

absl::Status Bad(absl::string_view field, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", why));
}

std::string Text(const Shape4& s) {
  return absl::StrCat("[", s.batch, ",", s.heads, ",", s.rows, ",", s.cols,
                      "]");
}

absl::Status CheckShapes(const AttentionProblem& p) {
  const Shape4 &q = p.query.shape(), &k = p.key.shape(), &v = p.value.shape();
  if (q.heads < 1) return Bad("query.shape", "heads: 0, expected >= 1");
  if (q.cols < 1) return Bad("query.shape", "head dimension: 0, expected >= 1");
  if (k.heads < 1) return Bad("key.shape", "heads: 0, expected >= 1");
  if (k.batch != q.batch || k.cols != q.cols) {
    return Bad("key.shape",
               absl::StrCat(Text(k), ", expected [", q.batch, ",Hkv,Lk,",
                            q.cols, "] beside query ", Text(q)));
  }
  if (q.heads % k.heads != 0) {
    return Bad("key.shape",
               absl::StrCat("heads: ", k.heads,
                            ", expected a divisor of the query's ", q.heads));
  }
  if (v.batch != k.batch || v.heads != k.heads || v.rows != k.rows) {
    return Bad("value.shape",
               absl::StrCat(Text(v), ", expected [", k.batch, ",", k.heads, ",",
                            k.rows, ",Dv] beside key ", Text(k)));
  }
  constexpr int64_t kMaxRows = std::numeric_limits<int32_t>::max() - 64;
  if (q.rows > kMaxRows) return Bad("query.shape", "more than 2^31 rows");
  if (k.rows > kMaxRows) return Bad("key.shape", "more than 2^31 rows");
  return absl::OkStatus();
}

absl::Status CheckTimes(const AttentionProblem& p) {
  if (p.query_time.kind() != p.key_time.kind()) {
    return Bad("query_time, key_time",
               "differ in kind; send both axes in one representation, or none");
  }
  if (p.query_time.kind() == TimeAxis::Kind::kPositions) {
    return absl::OkStatus();
  }
  const int64_t batch = p.query.shape().batch;
  const auto check = [batch](const TimeAxis& axis, int64_t rows,
                             absl::string_view field) {
    const bool fits =
        axis.rows() == rows && (!axis.per_item() || axis.batch() == batch);
    if (fits) return absl::OkStatus();
    return Bad(field, absl::StrCat("[", axis.batch(), ",", axis.rows(),
                                   "], expected [", rows, "] or [", batch, ",",
                                   rows, "]"));
  };
  absl::Status status = check(p.query_time, p.query.shape().rows, "query_time");
  if (!status.ok()) return status;
  return check(p.key_time, p.key.shape().rows, "key_time");
}

template <typename T>
absl::Status CheckWindow(const std::optional<T>& bound,
                         absl::string_view field) {
  if (!bound || *bound >= 0) return absl::OkStatus();
  return Bad(field, absl::StrCat(*bound, ", expected >= 0"));
}

absl::Status CheckMask(const AttentionProblem& p) {
  const MaskSpec& m = p.mask;
  for (const absl::Status& status :
       {CheckWindow(m.past_ticks, "mask.past_ticks"),
        CheckWindow(m.future_ticks, "mask.future_ticks"),
        CheckWindow(m.past_time, "mask.past_time"),
        CheckWindow(m.future_time, "mask.future_time")}) {
    if (!status.ok()) return status;
  }
  const auto batch = static_cast<size_t>(p.query.shape().batch);
  const auto check_size = [](size_t size, size_t expected,
                             absl::string_view field) {
    if (size == 0 || size == expected) return absl::OkStatus();
    return Bad(field, absl::StrCat(size, " entries, expected ", expected));
  };
  absl::Status status =
      check_size(m.query_lengths.size(), batch, "mask.query_lengths");
  if (!status.ok()) return status;
  status = check_size(m.key_lengths.size(), batch, "mask.key_lengths");
  if (!status.ok()) return status;
  return check_size(m.key_validity.size(),
                    batch * static_cast<size_t>(p.key.shape().rows),
                    "mask.key_validity");
}

absl::Status CheckEncoder(const AttentionProblem& p) {
  if (p.encoder == nullptr) return absl::OkStatus();
  const EncoderSizes& sizes = p.encoder->sizes();
  if (sizes.head_dim == p.query.shape().cols &&
      sizes.query_heads == p.query.shape().heads &&
      sizes.kv_heads == p.key.shape().heads) {
    return absl::OkStatus();
  }
  return Bad(
      "encoding",
      absl::StrCat("compiled for head dimension ", sizes.head_dim, ", ",
                   sizes.query_heads, " query heads and ", sizes.kv_heads,
                   " kv heads, not for query ", Text(p.query.shape())));
}

bool HasBias(const AttentionProblem& p) {
  return !(p.bias.shape() == Shape4{});
}

absl::Status CheckBiasShape(const AttentionProblem& p) {
  if (!HasBias(p)) return absl::OkStatus();
  const Shape4 &b = p.bias.shape(), &q = p.query.shape();
  const auto fits = [](int64_t extent, int64_t full) {
    return extent == 1 || extent == full;
  };
  if (p.bias.dtype() != DType::kF32 || p.bias.layout() != Layout::kBHLD) {
    return Bad("bias", "expected f32 in BHLD order");
  }
  if (fits(b.batch, q.batch) && fits(b.heads, q.heads) &&
      fits(b.rows, q.rows) && fits(b.cols, p.key.shape().rows)) {
    return absl::OkStatus();
  }
  return Bad(
      "bias.shape",
      absl::StrCat(Text(b), ", expected each extent 1 or that of [", q.batch,
                   ",", q.heads, ",", q.rows, ",", p.key.shape().rows, "]"));
}

std::string TimeText(const ItemGeometry& item, int64_t i, int64_t j) {
  return absl::StrCat("query row ", item.QueryRow(i), " and key row ",
                      item.KeyRow(j), " have lag ", item.Lag(i, j));
}

// Negative visible lags under an encoding that has none.
absl::Status CheckOneSided(const ItemGeometry& item, int64_t batch) {
  int64_t bad = 0;
  std::string first;
  for (int64_t i = 0; i < item.query_rows; ++i) {
    int64_t j = item.end[i] - 1;
    if (j < item.begin[i] || item.Lag(i, j) >= 0) continue;
    if (bad++ > 0) continue;
    while (j > item.begin[i] && item.Lag(i, j - 1) < 0) --j;
    first = TimeText(item, i, j);
  }
  if (bad == 0) return absl::OkStatus();
  return Bad("encoding",
             absl::StrCat("is defined for lag >= 0 only, but in item ", batch,
                          " ", first, " (", bad,
                          " such queries); set mask.causal to CAUSALITY_TIME "
                          "or two_sided to TWO_SIDED_RULE_ABSOLUTE_LAG"));
}

absl::Status CheckBiasValues(const AttentionProblem& p,
                             const ItemGeometry& item, int64_t batch) {
  for (int64_t h = 0; h < p.query.shape().heads; ++h) {
    for (int64_t i = 0; i < item.query_rows; ++i) {
      for (int64_t j = item.begin[i]; j < item.end[i]; ++j) {
        const float value =
            BiasElement(p.bias, batch, h, item.QueryRow(i), item.KeyRow(j));
        if (value < std::numeric_limits<float>::infinity()) continue;
        return Bad("bias", absl::StrCat("element [", batch, ",", h, ",",
                                        item.QueryRow(i), ",", item.KeyRow(j),
                                        "]: ", value,
                                        ", expected finite or -inf where the "
                                        "pair is visible"));
      }
    }
  }
  return absl::OkStatus();
}

bool ItemsDiffer(const AttentionProblem& p) {
  return p.query_time.per_item() || p.key_time.per_item() ||
         !p.mask.query_lengths.empty() || !p.mask.key_lengths.empty() ||
         !p.mask.key_validity.empty();
}

// Keys that the tile loop multiplies for rows [i, i + rows), padded to blocks.
int64_t PaddedKeys(const ItemGeometry& item, int64_t i, int64_t rows) {
  const int64_t begin = item.begin[i] / kKeyBlock * kKeyBlock;
  const int64_t end =
      (item.end[i + rows - 1] + kKeyBlock - 1) / kKeyBlock * kKeyBlock;
  return std::max<int64_t>(0, end - begin);
}

// Cuts one head of an item into units of whole tiles.
void AppendUnits(const ItemGeometry& item, int64_t batch, int64_t kv_head,
                 int64_t flops_per_pair, std::vector<Unit>& units) {
  constexpr int64_t kHalf = kMaxTileRows / 2;
  Unit unit{.batch = batch, .kv_head = kv_head};
  for (int64_t i = 0; i < item.query_rows; i += kMaxTileRows) {
    const int64_t rows = std::min<int64_t>(kMaxTileRows, item.query_rows - i);
    int64_t pairs = 0;
    for (int64_t r = 0; r < rows; r += kHalf) {
      const int64_t half = std::min(kHalf, rows - r);
      pairs += PaddedRows(half) * PaddedKeys(item, i + r, half);
    }
    const int64_t flops = pairs * flops_per_pair;
    if (unit.rows > 0 && unit.flops + flops > kUnitFlops) {
      units.push_back(unit);
      unit = {.batch = batch, .kv_head = kv_head, .first_row = i};
    }
    unit.rows += rows;
    unit.flops += flops;
  }
  if (unit.rows > 0) units.push_back(unit);
}

}  // namespace

absl::StatusOr<Plan> Plan::Make(const AttentionProblem& problem) {
  if (!std::isfinite(problem.scale)) {
    return Bad("scale", absl::StrCat(problem.scale, ", expected finite"));
  }
  for (auto check :
       {CheckShapes, CheckTimes, CheckMask, CheckEncoder, CheckBiasShape}) {
    absl::Status status = check(problem);
    if (!status.ok()) return status;
  }
  const Shape4 &q = problem.query.shape(), &k = problem.key.shape();
  Plan plan;
  plan.problem_ = problem;
  plan.identity_ = std::make_shared<char>();
  const int64_t items = q.batch == 0 ? 0 : ItemsDiffer(problem) ? q.batch : 1;
  for (int64_t b = 0; b < items; ++b) {
    absl::StatusOr<ItemGeometry> item = MakeGeometry(
        problem.query_time, problem.key_time, problem.mask, b, q.rows, k.rows);
    if (!item.ok()) return item.status();
    if (problem.encoder != nullptr && problem.encoder->one_sided()) {
      absl::Status status = CheckOneSided(*item, b);
      if (!status.ok()) return status;
    }
    plan.items_.push_back(*std::move(item));
  }
  const int64_t group = q.heads / k.heads;
  const int64_t flops_per_pair =
      2 * group * (PaddedDim(q.cols) + PaddedDim(problem.value.shape().cols));
  for (int64_t b = 0; b < q.batch; ++b) {
    if (HasBias(problem)) {
      absl::Status status = CheckBiasValues(problem, plan.item(b), b);
      if (!status.ok()) return status;
    }
    if (plan.item(b).key_rows == 0) continue;
    for (int64_t g = 0; g < k.heads; ++g) {
      AppendUnits(plan.item(b), b, g, flops_per_pair, plan.units_);
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

int64_t Plan::workspace_bytes() const {
  const int64_t dims = PaddedDim(problem_.query.shape().cols) +
                       PaddedDim(problem_.value.shape().cols);
  int64_t keys = 0;
  for (const ItemGeometry& item : items_) keys = std::max(keys, item.key_rows);
  const int64_t tile = kMaxTileRows * (kMaxTileKeys + 2 * dims + 64);
  return static_cast<int64_t>(sizeof(float)) *
         ((keys + kKeyBlock) * dims + tile);
}

int64_t Plan::plan_bytes() const {
  int64_t bytes = static_cast<int64_t>(units_.size() * sizeof(Unit));
  for (const ItemGeometry& item : items_) {
    bytes += item.query_rows * 20 + item.key_rows * 12;
  }
  return bytes;
}

}  // namespace attnd
