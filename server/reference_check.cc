#include "server/reference_check.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/attention.h"
#include "kernels/reference.h"

namespace attnd::server {
namespace {

// Errors grow with the condition number of a basis, and powers of a lag carry
// its rounding more than once.
double SlackOf(const Encoder* encoder) {
  double slack = 1;
  for (int64_t h = 0; encoder != nullptr && h < encoder->sizes().kv_heads;
       ++h) {
    const HeadEncoder& head = encoder->head(h);
    slack = std::max(slack, head.generator().condition() *
                                (head.coupled() ? kJordanSlack : 1));
  }
  return slack;
}

double SlackOf(const AttentionProblem& problem) {
  double slack = SlackOf(problem.encoder.get());
  for (const auto& encoder : problem.item_encoders) {
    slack = std::max(slack, SlackOf(encoder.get()));
  }
  return slack;
}

}  // namespace

absl::Status CheckAgainstReference(const AttentionProblem& problem,
                                   absl::Span<const float> output,
                                   double error) {
  const auto expected = ReferenceAttention(problem);
  if (!expected.ok()) return expected.status();
  const Shape4& query = problem.query.shape();
  const int64_t columns = problem.value.shape().cols;
  const bool rows_first = problem.query.layout() == Layout::kBLHD;
  const double slack = SlackOf(problem);
  // In the reference's order: items, heads, rows, columns.
  for (size_t i = 0; i < expected->output.size(); ++i) {
    const auto row = static_cast<int64_t>(i) / columns;
    const int64_t r = row % query.rows, head = row / query.rows % query.heads,
                  item = row / query.rows / query.heads;
    const int64_t place =
        rows_first ? (item * query.rows + r) * query.heads + head : row;
    const float got = output[place * columns + i % columns];
    const double bound = error * slack *
                         std::max(1.0, expected->logit_size[row] / 8) *
                         expected->value_size[row];
    const double off = std::abs(got - expected->output[i]);
    const bool both_nan = std::isnan(got) && std::isnan(expected->output[i]);
    if (off <= bound || both_nan) continue;
    return absl::InternalError(absl::StrCat(
        "item ", item, ", head ", head, ", row ", r, ", column ", i % columns,
        " is ", got, ", the reference says ", expected->output[i], "; error ",
        off, ", allowed ", bound));
  }
  return absl::OkStatus();
}

}  // namespace attnd::server
