// A factor on each query that depends on its own place: log n scaling and the
// Llama 4 form.
#ifndef ATTND_KERNELS_QUERY_TEMPERATURE_H_
#define ATTND_KERNELS_QUERY_TEMPERATURE_H_

#include <cstdint>

#include "kernels/clock.h"
#include "kernels/encoding_spec.h"
#include "kernels/visibility.h"

namespace attnd {

// Factor of the i-th query of the item's order, >= 1 for scale >= 0:
//   max(1, ln n / ln length), n = keys visible to it, or
//   1 + scale * ln(1 + floor((p + offset) / length)), p in units since the
//   item's first valid key; 1 where the floor is negative.
// Expects what CheckTemperature (absolute_checks.h) accepts.
double TemperatureFactor(const QueryTemperature& temperature,
                         const TickRatio& ratio, const ItemGeometry& item,
                         int64_t i);

}  // namespace attnd

#endif  // ATTND_KERNELS_QUERY_TEMPERATURE_H_
