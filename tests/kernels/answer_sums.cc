#include "tests/kernels/answer_sums.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/attention.h"

namespace attnd::testing {
namespace {

double Growth(const ReferenceAnswer& reference, int64_t row, double slack) {
  return slack * std::max(1.0, reference.logit_size[row] / 8);
}

std::string CompareEntropy(const Answer& answer,
                           const ReferenceAnswer& reference, int64_t keys,
                           double slack) {
  for (size_t r = 0; r < answer.entropy.size(); ++r) {
    double expected = 0;
    for (int64_t j = 0; j < keys; ++j) {
      const double w = reference.weights[r * keys + j];
      if (w != 0) expected -= w * std::log(w);
    }
    const double got = answer.entropy[r];
    if (std::isnan(expected)
            ? std::isnan(got)
            : std::abs(got - expected) <=
                  kEntropyError * Growth(reference, r, slack)) {
      continue;
    }
    return absl::StrCat("entropy of row ", r, ": ", got, ", expected ",
                        expected);
  }
  return "";
}

std::string CompareMass(const ProblemSpec& spec, const Answer& answer,
                        const ReferenceAnswer& reference, double slack) {
  for (int64_t bh = 0; bh < spec.batch * spec.query_heads; ++bh) {
    for (int64_t j = 0; j < spec.keys; ++j) {
      double expected = 0, bound = 1e-12;
      for (int64_t i = 0; i < spec.queries; ++i) {
        const int64_t row = bh * spec.queries + i;
        expected += reference.weights[row * spec.keys + j];
        if (reference.scores[row * spec.keys + j] == -INFINITY) continue;
        bound += kScoreError * Growth(reference, row, slack);
      }
      const double got = answer.key_mass[bh * spec.keys + j];
      if (std::isnan(expected) ? std::isnan(got)
                               : std::abs(got - expected) <= bound) {
        continue;
      }
      return absl::StrCat("mass of key ", j, ": ", got, ", expected ", expected,
                          " within ", bound);
    }
  }
  return "";
}

// Each listed key is the k-th largest, as far as the contract can tell.
std::string CompareTop(const ProblemSpec& spec, const Answer& answer,
                       const ReferenceAnswer& reference, int64_t top,
                       double slack) {
  for (size_t r = 0; r < reference.lse.size(); ++r) {
    const double* weights = &reference.weights[r * spec.keys];
    const double* scores = &reference.scores[r * spec.keys];
    std::vector<double> sorted;
    for (int64_t j = 0; j < spec.keys; ++j) {
      if (scores[j] != -INFINITY) sorted.push_back(weights[j]);
    }
    std::sort(sorted.rbegin(), sorted.rend());
    const double bound = kScoreError * Growth(reference, r, slack);
    std::vector<int64_t> listed;
    for (int64_t k = 0; k < top; ++k) {
      const int64_t row = answer.top_rows[r * top + k];
      const double got = answer.top_weights[r * top + k];
      const std::string where =
          absl::StrCat("row ", r, " place ", k, ": key ", row, " of ", got);
      if (k >= static_cast<int64_t>(sorted.size())) {
        if (row == -1 && got == 0) continue;
        return absl::StrCat(where, ", expected none");
      }
      if (row < 0 || row >= spec.keys || scores[row] == -INFINITY) {
        return absl::StrCat(where, ", which is not visible");
      }
      if (!(std::abs(got - sorted[k]) <= bound) ||
          !(std::abs(got - weights[row]) <= bound)) {
        return absl::StrCat(where, ", expected ", sorted[k], " of ",
                            weights[row]);
      }
      listed.push_back(row);
    }
    std::sort(listed.begin(), listed.end());
    if (std::adjacent_find(listed.begin(), listed.end()) != listed.end()) {
      return absl::StrCat("row ", r, " lists a key twice");
    }
  }
  return "";
}

}  // namespace

std::string CompareSums(const ProblemSpec& spec, const Answer& answer,
                        const ReferenceAnswer& reference, int64_t top,
                        double slack) {
  std::string why = CompareEntropy(answer, reference, spec.keys, slack);
  if (why.empty()) why = CompareMass(spec, answer, reference, slack);
  if (why.empty()) why = CompareTop(spec, answer, reference, top, slack);
  return why;
}

}  // namespace attnd::testing
