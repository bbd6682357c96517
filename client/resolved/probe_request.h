// A request of random arrays that an encoding accepts, for probing a server.
#ifndef ATTND_CLIENT_RESOLVED_PROBE_REQUEST_H_
#define ATTND_CLIENT_RESOLVED_PROBE_REQUEST_H_

#include <cstdint>

#include "attnd/v1/attention.pb.h"

namespace attnd::client::resolved {

struct Probe {
  int64_t batch = 1, heads = 1, kv_heads = 1;
  int64_t queries = 16, keys = 16, value_dim = 8;
  // Gaps between rows are log-uniform between the two, in units, at most 100
  // days of nanoseconds; some are 0.
  double shortest_gap = 0.5, longest_gap = 2;
  // Added to every time, in ticks.
  int64_t shift = 0;
  uint64_t seed = 1;
};

// Normal queries, keys and values; times in nanoseconds from 2023 on, or in
// positions from 0 where the encoding counts in those, near 0 where it turns by
// places (LieRE), at rows of its learned table where it has one, one row of
// each per coordinate; whole units apart where it turns so fast that doubles
// know no angle of fractions of units; learned clocks that never decrease, and
// gates, where it reads them. Masked causally in time where it needs that. Asks
// for output, lse, scores and weights.
v1::AttendRequest MakeProbe(const v1::ResolvedEncoding& encoding,
                            const Probe& probe);

}  // namespace attnd::client::resolved

#endif  // ATTND_CLIENT_RESOLVED_PROBE_REQUEST_H_
