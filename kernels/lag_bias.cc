#include "kernels/lag_bias.h"

#include <cassert>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "kernels/bias_checks.h"
#include "kernels/fire.h"
#include "kernels/kerple.h"
#include "kernels/lag_runs.h"
#include "kernels/lag_steps.h"
#include "kernels/sandwich.h"

namespace attnd {
namespace {

struct MakeTerm {
  int heads;
  const TickRatio& ratio;
  using Made = std::unique_ptr<LagTerm>;

  Made operator()(const T5Term& term) const {
    return MakeT5(term, heads, ratio);
  }
  Made operator()(const HstuTerm& term) const {
    return MakeHstu(term, heads, ratio);
  }
  Made operator()(const KerpleTerm& term) const {
    return MakeKerple(term, heads, ratio);
  }
  Made operator()(const SandwichTerm& term) const {
    return MakeSandwich(term, heads, ratio);
  }
  Made operator()(const LagTableTerm& term) const {
    return MakeLagTable(term, heads, ratio);
  }
  Made operator()(const FireTerm& term) const {
    return MakeFire(term, heads, ratio);
  }
  // Linear in the lag, or driven by more than times: bias.h,
  // cumulative_bias.h, endpoint_bias.h.
  Made operator()(const AlibiTerm&) const { return nullptr; }
  Made operator()(const CumulativeGateTerm&) const { return nullptr; }
  Made operator()(const PathIntegralTerm&) const { return nullptr; }
  Made operator()(const GrapeAdditiveTerm&) const { return nullptr; }
};

}  // namespace

absl::StatusOr<std::shared_ptr<const LagBias>> LagBias::Compile(
    const std::vector<BiasTerm>& terms, int query_heads,
    const TickRatio& ratio) {
  std::shared_ptr<LagBias> bias(new LagBias);
  for (size_t i = 0; i < terms.size(); ++i) {
    const std::string path = absl::StrCat("biases[", i, "]");
    // Directions are not for us: no term made here reads the head dimension.
    if (std::holds_alternative<GrapeAdditiveTerm>(terms[i])) continue;
    absl::Status status = CheckBiasTerm(terms[i], path);
    if (status.ok()) status = CheckBiasSizes(terms[i], query_heads, 0, path);
    if (!status.ok()) return status;
    std::unique_ptr<LagTerm> made =
        std::visit(MakeTerm{query_heads, ratio}, terms[i]);
    if (made == nullptr) continue;
    if (std::holds_alternative<FireTerm>(terms[i])) bias->of_lag_alone_ = false;
    bias->terms_.push_back(std::move(made));
  }
  return bias;
}

double LagBias::Exact(int head, const LagPoint& point) const {
  double sum = 0;
  for (const auto& term : terms_) sum += term->Exact(head, point);
  return sum;
}

double LagBias::Exact(int head, const ItemGeometry& item, int64_t i,
                      int64_t j) const {
  return Exact(head, PointOf(item, i, j));
}

double LagBias::Size(int head, const LagPoint& point) const {
  double sum = 0;
  for (const auto& term : terms_) sum += term->Size(head, point);
  return sum;
}

double LagBias::Size(int head, const ItemGeometry& item, int64_t i,
                     int64_t j) const {
  return Size(head, PointOf(item, i, j));
}

double LagBias::Supremum(int head, double low, double high) const {
  double sum = 0;
  for (const auto& term : terms_) sum += term->Supremum(head, low, high);
  return sum;
}

void LagBias::StartRows(const ItemGeometry& item, int64_t first, int64_t rows,
                        LagTile* tile) const {
  tile->item = &item;
  tile->start = first;
  tile->rows = rows;
}

void LagBias::Prepare(int64_t first, int64_t rows, int64_t key, int64_t keys,
                      LagTile* tile) const {
  assert(first + rows <= tile->rows && keys <= kMaxRowKeys);
  tile->rectangle = {.item = tile->item,
                     .first = tile->start + first,
                     .rows = rows,
                     .key = key,
                     .keys = keys};
  tile->parts = &tile->cache.Find(owner_, terms_, tile->rectangle);
}

void LagBias::Add(int head, const LagTile& tile, int64_t stride,
                  float* logits) const {
  for (size_t t = 0; t < terms_.size(); ++t) {
    terms_[t]->Add(head, tile.rectangle, (*tile.parts)[t], stride, logits);
  }
}

int64_t ScratchBytes(const LagTile& tile) { return tile.cache.bytes(); }

}  // namespace attnd
