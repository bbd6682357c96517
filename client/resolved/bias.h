// Additive biases of single pairs, as their formulas read.
#ifndef ATTND_CLIENT_RESOLVED_BIAS_H_
#define ATTND_CLIENT_RESOLVED_BIAS_H_

#include <vector>

#include "absl/types/span.h"
#include "attnd/v1/encoding.pb.h"
#include "client/resolved/double_double.h"

namespace attnd::client::resolved {

// A bias and the size of what was summed into it.
struct Bias {
  double value = 0;
  double size = 0;

  void Add(double term) { Add(term, term < 0 ? -term : term); }
  void Add(double term, double term_size) {
    value += term;
    size += term_size;
  }
};

// What lags alone determine: ALiBi, T5 and HSTU buckets, KERPLE, Sandwich, lag
// tables; FIRE from `elapsed`, the units between the earliest valid key and the
// query. `lag` in units; head of `encoding.alibi_slopes`.
Bias LagBias(const v1::ResolvedEncoding& encoding, int head, int heads,
             DoubleDouble lag, double elapsed);

// GRAPE additive, on q and k as sent; `distance` = |lag| in units.
Bias EndpointBias(const v1::Encoding& definition, int head, double distance,
                  absl::Span<const double> query, absl::Span<const double> key);

// Weight of a key's gate in cumulative biases: per_key + per_unit * (units
// since the key before).
struct GateWeight {
  double per_key = 0;
  double per_unit = 0;
};
GateWeight GateWeightOf(const v1::Encoding& definition);

}  // namespace attnd::client::resolved

#endif  // ATTND_CLIENT_RESOLVED_BIAS_H_
