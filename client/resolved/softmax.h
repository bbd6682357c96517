// Softmax of one row of scores and its averages of values.
#ifndef ATTND_CLIENT_RESOLVED_SOFTMAX_H_
#define ATTND_CLIENT_RESOLVED_SOFTMAX_H_

#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"

namespace attnd::client::resolved {

// exp(score - lse) and the lse; a `sink` is one more logit without a value.
// -inf hides a key; NaN anywhere makes the row NaN. A row that sees nothing has
// lse -inf and weights 0. Returns the lse.
double Softmax(absl::Span<const double> scores, std::optional<double> sink,
               absl::Span<double> weights);

// Values as a row sees them: [keys][channels].
struct ValueView {
  absl::FunctionRef<absl::Span<const double>(size_t key)> row;
  // Whether a channel of a key was observed; null = all.
  absl::FunctionRef<bool(size_t key, size_t channel)> observed;
};

// output[c] = sum of weights times values, per channel over its observed keys,
// whose weights are scaled to those of the row's softmax over them alone.
// Returns the largest |value| that the row sees.
double Average(absl::Span<const double> scores, std::optional<double> sink,
               const ValueView& values, absl::Span<double> output);

}  // namespace attnd::client::resolved

#endif  // ATTND_CLIENT_RESOLVED_SOFTMAX_H_
