// Absolute parts of single rows, and the query temperature, as their formulas
// read.
#ifndef ATTND_CLIENT_RESOLVED_ABSOLUTE_H_
#define ATTND_CLIENT_RESOLVED_ABSOLUTE_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "attnd/v1/encoding.pb.h"
#include "client/resolved/double_double.h"

namespace attnd::client::resolved {

// Where a row stands.
struct Place {
  // Units since an origin given in ticks.
  absl::FunctionRef<DoubleDouble(int64_t origin_ticks)> units_since;
  // Of the event in time order, from 0.
  int64_t index = 0;
};

// Sum of the parts at a row of q (or k) of a kv head: head_dim numbers.
// OUT_OF_RANGE where a table is not defined.
absl::StatusOr<std::vector<double>> AbsoluteParts(
    const v1::Encoding& definition, bool query, int kv_head, int head_dim,
    const Place& place);

// The factor of a query that sees `visible` keys and stands `elapsed` units
// after the earliest valid key.
double TemperatureOf(const v1::QueryTemperature& temperature, int64_t visible,
                     double elapsed);

}  // namespace attnd::client::resolved

#endif  // ATTND_CLIENT_RESOLVED_ABSOLUTE_H_
