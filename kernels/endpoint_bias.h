// GRAPE additive: -lag * slope * (softplus(v.q / sqrt D) + softplus(u.k / sqrt
// D)) on the vectors as sent.
#ifndef ATTND_KERNELS_ENDPOINT_BIAS_H_
#define ATTND_KERNELS_ENDPOINT_BIAS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/clock.h"
#include "kernels/encoding_spec.h"
#include "kernels/visibility.h"

namespace attnd {

// bias = -|lag| (QueryFactor + KeyFactor), summed over the GRAPE terms of an
// encoding. Immutable; thread-safe.
class EndpointBias {
 public:
  // Ignores other terms. INVALID_ARGUMENT with the path below "biases[i]" when
  // a term is invalid or does not fit heads and dimension.
  static absl::StatusOr<EndpointBias> Compile(
      const std::vector<BiasTerm>& terms, int query_heads, int head_dim,
      const TickRatio& ratio);

  EndpointBias() = default;
  bool empty() const { return terms_.empty(); }

  // Per tick of lag, >= 0, of a row of q or k [D] for a query head.
  double QueryFactor(int head, const float* query) const;
  double KeyFactor(int head, const float* key) const;

 private:
  struct Term {
    std::vector<double> slopes;  // per head, per tick
    std::vector<float> query_direction, key_direction;
  };
  std::vector<Term> terms_;
};

// row[c] -= |lag of (i, first + c)| * (query_factor + key_factors[c]) for c in
// [begin, end): lags exact, in double, rounded to f32 once, cut at 1e38.
void AddEndpointBias(const ItemGeometry& item, double query_factor,
                     const double* key_factors, int64_t i, int64_t first,
                     int64_t begin, int64_t end, float* row);

}  // namespace attnd

#endif  // ATTND_KERNELS_ENDPOINT_BIAS_H_
