#include "client/resolved/verdict.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "client/request.h"

namespace attnd::client::resolved {
namespace {

double Share(double got, double expected, double bound) {
  // What a reply's floats do not hold is infinite there.
  if (std::abs(expected) > std::numeric_limits<float>::max()) {
    expected = std::copysign(std::numeric_limits<double>::infinity(), expected);
  }
  if (got == expected) return 0;
  if (std::isnan(got) && std::isnan(expected)) return 0;
  const double share = std::abs(got - expected) / bound;
  return std::isnan(share) ? std::numeric_limits<double>::infinity() : share;
}

// The largest share in a tensor of `width` elements a row.
absl::Status Compare(
    const v1::Tensor& tensor, const char* field,
    const std::vector<double>& expected, int64_t width,
    absl::FunctionRef<double(int64_t row, int64_t column)> bound,
    double* worst) {
  if (tensor.shape().empty()) return absl::OkStatus();
  const auto got = ToFloats(tensor);
  if (!got.ok()) return got.status();
  if (got->size() != expected.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, ": ", got->size(), " elements, expected ", expected.size()));
  }
  for (size_t e = 0; e < expected.size(); ++e) {
    const auto at = static_cast<int64_t>(e);
    *worst = std::max(
        *worst, Share((*got)[e], expected[e], bound(at / width, at % width)));
  }
  return absl::OkStatus();
}

}  // namespace

double Verdict::worst() const {
  return std::max({output, lse, scores, weights});
}

absl::StatusOr<Verdict> Judge(const v1::AttendResponse& response,
                              const Answer& answer, double condition) {
  const auto output = [&](int64_t r, int64_t c) {
    return condition * OutputBound(answer, r, c);
  };
  const auto logit = [&](int64_t r, int64_t) {
    return condition * LogitBound(answer, r);
  };
  Verdict v;
  absl::Status status = Compare(response.output(), "output", answer.output,
                                answer.channels, output, &v.output);
  if (status.ok()) {
    status = Compare(response.lse(), "lse", answer.lse, 1, logit, &v.lse);
  }
  if (status.ok()) {
    status = Compare(response.scores(), "scores", answer.scores, answer.keys,
                     logit, &v.scores);
  }
  if (status.ok()) {
    status = Compare(response.weights(), "weights", answer.weights, answer.keys,
                     logit, &v.weights);
  }
  if (!status.ok()) return status;
  return v;
}

double ConditionOf(const v1::ResolvedEncoding& encoding) {
  double condition = 1;
  for (const v1::ResolvedGenerator& generator : encoding.generators()) {
    condition = std::max(condition, generator.condition());
  }
  return condition;
}

}  // namespace attnd::client::resolved
