// Service levels: "p99<20ms,errors<0.1%".
#ifndef ATTND_CLIENT_LOAD_SLO_H_
#define ATTND_CLIENT_LOAD_SLO_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/load/load_result.h"

namespace attnd::client {

struct SloClause {
  enum class Quantity {
    // Nanoseconds from the planned moment; a percentile in `percent`.
    kLatency,
    kMean,
    kMax,
    // Share of failed and dropped calls.
    kErrors,
    // Answers per second; at least.
    kRate,
  };
  Quantity quantity = Quantity::kLatency;
  double percent = 0;
  double bound = 0;
  // As typed, or what stands for it.
  std::string text;
};

// Clauses separated by commas: pN, mean or max < TIME, errors < SHARE (0.1% or
// 0.001), rate > ANSWERS per second. Since percentiles are of answers alone, a
// level without a clause on errors gets "errors<0.1%". InvalidArgument names
// the clause.
absl::StatusOr<std::vector<SloClause>> ParseSlo(absl::string_view text);

struct SloCheck {
  std::string clause;
  // What it was, in the clause's form: "p99 = 23.1ms".
  std::string found;
  bool met = false;
};

std::vector<SloCheck> CheckSlo(const std::vector<SloClause>& slo,
                               const LoadResult& result);

bool AllMet(const std::vector<SloCheck>& checks);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_SLO_H_
