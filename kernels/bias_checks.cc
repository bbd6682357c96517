#include "kernels/bias_checks.h"

#include <cmath>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/field_checks.h"

namespace attnd {
namespace {

// More buckets than any published table, and borders that fit in memory.
constexpr int kMaxBuckets = 1 << 16;
constexpr int kMaxHidden = 4096;

// The first that is not ok.
template <typename... Statuses>
absl::Status First(absl::Status first, Statuses... rest) {
  if constexpr (sizeof...(rest) == 0) {
    return first;
  } else {
    return first.ok() ? First(std::move(rest)...) : first;
  }
}

template <typename Number>
absl::Status CheckAllPositive(const std::string& path,
                              const std::vector<Number>& values) {
  return First(CheckNotEmpty(path, values.size(), "one entry per head or one"),
               CheckEach(path, values, CheckPositive));
}

absl::Status CheckRange(const std::string& path, int value, int low, int high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return Refuse(path, value, absl::StrCat(low, " to ", high));
}

absl::Status CheckRows(const std::string& path, size_t count, int width,
                       const char* of_what) {
  if (count > 0 && count % width == 0) return absl::OkStatus();
  return Refuse(path, absl::StrCat(count, " entries"),
                absl::StrCat("a multiple of ", width, " (", of_what, ")"));
}

struct TermCheck {
  const std::string& path;

  absl::Status operator()(const AlibiTerm& term) const {
    const std::string at = path + ".alibi";
    return First(CheckNoneNegative(at + ".slopes", term.slopes),
                 CheckPositive(at + ".bias_max", term.bias_max));
  }
  absl::Status operator()(const CumulativeGateTerm&) const {
    return absl::OkStatus();
  }
  absl::Status operator()(const PathIntegralTerm&) const {
    return absl::OkStatus();
  }
  absl::Status operator()(const T5Term& term) const;
  absl::Status operator()(const HstuTerm& term) const;
  absl::Status operator()(const KerpleTerm& term) const;
  absl::Status operator()(const FireTerm& term) const;
  absl::Status operator()(const SandwichTerm& term) const;
  absl::Status operator()(const GrapeAdditiveTerm& term) const;
  absl::Status operator()(const LagTableTerm& term) const;
};

absl::Status TermCheck::operator()(const T5Term& term) const {
  const std::string at = path + ".t5_buckets";
  const int least = term.bidirectional ? 4 : 2;
  absl::Status status =
      CheckRange(at + ".buckets", term.buckets, least, kMaxBuckets);
  if (!status.ok()) return status;
  if (term.bidirectional && term.buckets % 2 != 0) {
    return Refuse(at + ".buckets", term.buckets, "even when bidirectional");
  }
  const int exact = term.buckets / least;
  if (!std::isfinite(term.max_distance) || term.max_distance <= exact) {
    return Refuse(at + ".max_distance", term.max_distance,
                  absl::StrCat("finite and > ", exact,
                               ", where logarithmic buckets start"));
  }
  return First(
      CheckRows(at + ".table", term.table.size(), term.buckets, "buckets"),
      CheckAllFinite(at + ".table", term.table));
}

absl::Status TermCheck::operator()(const HstuTerm& term) const {
  const std::string at = path + ".hstu_buckets";
  absl::Status status =
      CheckRange(at + ".max_bucket", term.max_bucket, 1, kMaxBuckets);
  if (!status.ok()) return status;
  return First(CheckPositive(at + ".log_step", term.log_step),
               CheckRows(at + ".table", term.table.size(), term.max_bucket + 1,
                         "max_bucket + 1"),
               CheckAllFinite(at + ".table", term.table));
}

absl::Status TermCheck::operator()(const KerpleTerm& term) const {
  const std::string at = path + ".kerple";
  absl::Status status = First(CheckAllPositive(at + ".r1", term.r1),
                              CheckAllPositive(at + ".r2", term.r2));
  if (!status.ok() || !term.power) return status;
  return CheckEach(at + ".r2", term.r2,
                   [](absl::string_view at_r2, double r2) -> absl::Status {
                     if (r2 <= 2) return absl::OkStatus();
                     return Refuse(at_r2, r2,
                                   "at most 2: larger powers are not "
                                   "conditionally positive definite");
                   });
}

absl::Status TermCheck::operator()(const FireTerm& term) const {
  const std::string at = path + ".fire";
  absl::Status status = CheckRange(at + ".hidden", term.hidden, 1, kMaxHidden);
  if (!status.ok()) return status;
  const auto hidden = static_cast<size_t>(term.hidden);
  return First(
      CheckPositive(at + ".c", term.c),
      CheckAtLeast(at + ".threshold", term.threshold, 0),
      CheckCount(at + ".w1", term.w1.size(), hidden, "hidden"),
      CheckCount(at + ".b1", term.b1.size(), hidden, "hidden"),
      CheckNotEmpty(at + ".b2", term.b2.size(), "one entry per head or one"),
      CheckCount(at + ".w2", term.w2.size(), term.b2.size() * hidden,
                 "entries of b2 times hidden"),
      CheckAllFinite(at + ".w1", term.w1), CheckAllFinite(at + ".b1", term.b1),
      CheckAllFinite(at + ".w2", term.w2), CheckAllFinite(at + ".b2", term.b2));
}

absl::Status TermCheck::operator()(const SandwichTerm& term) const {
  const std::string at = path + ".sandwich";
  absl::Status status = CheckRange(at + ".dim", term.dim, 2, 4096);
  if (status.ok() && term.dim % 2 != 0) {
    status = Refuse(at + ".dim", term.dim, "even");
  }
  return First(status, CheckPositive(at + ".base", term.base));
}

absl::Status TermCheck::operator()(const GrapeAdditiveTerm& term) const {
  const std::string at = path + ".grape_additive";
  return First(
      CheckNotEmpty(at + ".slopes", term.slopes.size(),
                    "one entry per head or one"),
      CheckNoneNegative(at + ".slopes", term.slopes),
      CheckNotEmpty(at + ".query_direction",
                    term.query_direction.size() + term.key_direction.size(),
                    "a direction for queries, for keys or for both"),
      CheckAllFinite(at + ".query_direction", term.query_direction),
      CheckAllFinite(at + ".key_direction", term.key_direction));
}

// Beyond any lag; in ticks and subtracted from another one it is still a
// double.
constexpr double kFarthestKnot = 1e280;

absl::Status CheckKnot(absl::string_view path, double lag) {
  if (std::fabs(lag) <= kFarthestKnot) return absl::OkStatus();
  return Refuse(path, lag, absl::StrCat("finite, within +-", kFarthestKnot));
}

absl::Status TermCheck::operator()(const LagTableTerm& term) const {
  const std::string at = path + ".lag_table";
  absl::Status status =
      First(CheckNotEmpty(at + ".lags", term.lags.size(), "at least one knot"),
            CheckEach(at + ".lags", term.lags, CheckKnot));
  if (!status.ok()) return status;
  for (size_t i = 1; i < term.lags.size(); ++i) {
    if (term.lags[i] > term.lags[i - 1]) continue;
    return Refuse(
        absl::StrCat(at, ".lags[", i, "]"), term.lags[i],
        absl::StrCat("more than the knot before, ", term.lags[i - 1]));
  }
  if (term.absolute_lag && term.lags[0] < 0) {
    return Refuse(at + ".lags[0]", term.lags[0],
                  ">= 0 where |lag| is looked up");
  }
  return First(CheckRows(at + ".values", term.values.size(),
                         static_cast<int>(term.lags.size()), "knots"),
               CheckAllFinite(at + ".values", term.values));
}

absl::Status CheckHeads(const std::string& path, size_t count, size_t width,
                        int heads) {
  if (count == width || count == width * heads) return absl::OkStatus();
  return Refuse(path, absl::StrCat(count, " entries"),
                absl::StrCat(width * heads, " (", heads, " query heads) or ",
                             width, " (one for all)"));
}

struct SizeCheck {
  const std::string& path;
  int heads, dim;

  absl::Status operator()(const AlibiTerm& term) const {
    if (term.slopes.empty()) return absl::OkStatus();
    return CheckHeads(path + ".alibi.slopes", term.slopes.size(), 1, heads);
  }
  absl::Status operator()(const CumulativeGateTerm&) const {
    return absl::OkStatus();
  }
  absl::Status operator()(const PathIntegralTerm&) const {
    return absl::OkStatus();
  }
  absl::Status operator()(const SandwichTerm&) const {
    return absl::OkStatus();
  }
  absl::Status operator()(const T5Term& term) const {
    return CheckHeads(path + ".t5_buckets.table", term.table.size(),
                      term.buckets, heads);
  }
  absl::Status operator()(const HstuTerm& term) const {
    return CheckHeads(path + ".hstu_buckets.table", term.table.size(),
                      term.max_bucket + 1, heads);
  }
  absl::Status operator()(const KerpleTerm& term) const {
    return First(CheckHeads(path + ".kerple.r1", term.r1.size(), 1, heads),
                 CheckHeads(path + ".kerple.r2", term.r2.size(), 1, heads));
  }
  absl::Status operator()(const FireTerm& term) const {
    return CheckHeads(path + ".fire.b2", term.b2.size(), 1, heads);
  }
  absl::Status operator()(const GrapeAdditiveTerm& term) const {
    const std::string at = path + ".grape_additive";
    absl::Status status =
        CheckHeads(at + ".slopes", term.slopes.size(), 1, heads);
    if (status.ok() && !term.query_direction.empty()) {
      status = CheckCount(at + ".query_direction", term.query_direction.size(),
                          dim, "head dimension");
    }
    if (status.ok() && !term.key_direction.empty()) {
      status = CheckCount(at + ".key_direction", term.key_direction.size(), dim,
                          "head dimension");
    }
    return status;
  }
  absl::Status operator()(const LagTableTerm& term) const {
    return CheckHeads(path + ".lag_table.values", term.values.size(),
                      term.lags.size(), heads);
  }
};

}  // namespace

absl::Status CheckBiasTerm(const BiasTerm& term, const std::string& path) {
  return std::visit(TermCheck{path}, term);
}

absl::Status CheckBiasSizes(const BiasTerm& term, int query_heads, int head_dim,
                            const std::string& path) {
  return std::visit(SizeCheck{path, query_heads, head_dim}, term);
}

}  // namespace attnd
