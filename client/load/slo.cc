#include "client/load/slo.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/duration_text.h"

namespace attnd::client {
namespace {

using Quantity = SloClause::Quantity;

absl::Status Wrong(absl::string_view clause, absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("--slo: '", clause, "', expected ", expected));
}

// "0.1%" or "0.001".
bool ParseShare(absl::string_view text, double* share) {
  const bool percent = absl::ConsumeSuffix(&text, "%");
  if (!absl::SimpleAtod(text, share)) return false;
  if (percent) *share /= 100;
  return *share >= 0 && *share <= 1;
}

absl::StatusOr<SloClause> ParseClause(absl::string_view text) {
  SloClause clause;
  clause.text = std::string(absl::StripAsciiWhitespace(text));
  const size_t at = clause.text.find_first_of("<>");
  if (at == std::string::npos) {
    return Wrong(text, "for example p99<20ms, errors<0.1% or rate>100");
  }
  const bool below = clause.text[at] == '<';
  absl::string_view name =
      absl::StripAsciiWhitespace(absl::string_view(clause.text).substr(0, at));
  absl::string_view bound = absl::string_view(clause.text).substr(at + 1);
  absl::ConsumePrefix(&bound, "=");
  bound = absl::StripAsciiWhitespace(bound);
  if (name == "rate") {
    clause.quantity = Quantity::kRate;
    if (below || !absl::SimpleAtod(bound, &clause.bound) ||
        !(clause.bound >= 0) || std::isinf(clause.bound)) {
      return Wrong(text, "rate>ANSWERS per second, at least 0");
    }
    return clause;
  }
  if (!below) return Wrong(text, "'<', as all but rate");
  if (name == "errors") {
    clause.quantity = Quantity::kErrors;
    if (!ParseShare(bound, &clause.bound)) {
      return Wrong(text, "errors<SHARE, for example 0.1%");
    }
    return clause;
  }
  if (name == "mean") {
    clause.quantity = Quantity::kMean;
  } else if (name == "max") {
    clause.quantity = Quantity::kMax;
  } else if (!absl::ConsumePrefix(&name, "p") ||
             !absl::SimpleAtod(name, &clause.percent) ||
             !(clause.percent > 0 && clause.percent <= 100)) {
    return Wrong(text, "p50, p99.9, mean, max, errors or rate");
  }
  const absl::StatusOr<int64_t> ns = ParseDuration(bound);
  if (!ns.ok() || *ns <= 0) return Wrong(text, "a time, for example 20ms");
  clause.bound = static_cast<double>(*ns);
  return clause;
}

double Found(const SloClause& clause, const LoadResult& result) {
  const Histogram& latency = result.all.latency_ns;
  switch (clause.quantity) {
    case Quantity::kLatency:
      return static_cast<double>(latency.ValueAtPercentile(clause.percent));
    case Quantity::kMean:
      return latency.Mean();
    case Quantity::kMax:
      return static_cast<double>(latency.Max());
    case Quantity::kErrors:
      return result.ErrorShare();
    case Quantity::kRate:
      return result.Throughput();
  }
  return 0;
}

std::string FoundText(const SloClause& clause, double found) {
  switch (clause.quantity) {
    case Quantity::kLatency:
      return absl::StrFormat("p%g = %s", clause.percent, DurationText(found));
    case Quantity::kMean:
      return absl::StrCat("mean = ", DurationText(found));
    case Quantity::kMax:
      return absl::StrCat("max = ", DurationText(found));
    case Quantity::kErrors:
      return absl::StrFormat("errors = %.3g%%", 100 * found);
    case Quantity::kRate:
      return absl::StrFormat("rate = %.4g/s", found);
  }
  return "";
}

}  // namespace

absl::StatusOr<std::vector<SloClause>> ParseSlo(absl::string_view text) {
  std::vector<SloClause> clauses;
  bool errors = false;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    absl::StatusOr<SloClause> clause = ParseClause(part);
    if (!clause.ok()) return clause.status();
    errors = errors || clause->quantity == Quantity::kErrors;
    clauses.push_back(*std::move(clause));
  }
  if (!errors) clauses.push_back(*ParseClause("errors<0.1%"));
  return clauses;
}

std::vector<SloCheck> CheckSlo(const std::vector<SloClause>& slo,
                               const LoadResult& result) {
  std::vector<SloCheck> checks;
  for (const SloClause& clause : slo) {
    const double found = Found(clause, result);
    // "errors<0%" means none: the bound itself is allowed for shares.
    const bool met = clause.quantity == Quantity::kRate ? found > clause.bound
                     : clause.quantity == Quantity::kErrors
                         ? found <= clause.bound
                         : found < clause.bound;
    checks.push_back(
        {clause.text, FoundText(clause, found), met && result.all.ok > 0});
  }
  return checks;
}

bool AllMet(const std::vector<SloCheck>& checks) {
  return std::all_of(checks.begin(), checks.end(),
                     [](const SloCheck& check) { return check.met; });
}

}  // namespace attnd::client
