// Averages of a series around wanted times, computed by the service.
#ifndef ATTND_CLIENT_INTERPOLATE_ATTENTION_AVERAGE_H_
#define ATTND_CLIENT_INTERPOLATE_ATTENTION_AVERAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "attnd/v1/attention.pb.h"
#include "client/client.h"

namespace attnd::client {

// Which keys weigh how much.
struct AverageRule {
  // Name of a configured encoding.
  std::string encoding;
  // Every query and every key, see ConstantVector(); at least one entry.
  std::vector<float> vector;
  // Only values at or before the wanted time.
  bool causal = false;
};

// How much one request may hold.
struct PieceSize {
  int64_t query_rows = 1;
  int64_t key_rows = 1;
};

// The largest pieces, each side bounded by the server's row limit and by half
// of the smaller message limit, together by kMaxPiecePairs pairs.
//
//   message_bytes   the client's own limit
//   limits          as GetServerInfo returns them; 0 = not stated
inline constexpr int64_t kMaxPiecePairs = int64_t{1} << 28;
PieceSize LargestPieces(int64_t queries, int64_t keys, int64_t head_dim,
                        int64_t message_bytes, const v1::Limits& limits);

// For each wanted time the weighted mean of all values,
//
//   sum_j w_j values[j] / sum_j w_j,  w_j = exp(logit(wanted - times[j])).
//
// Requests are cut into pieces; means over pieces of the keys are merged by
// their log-sum-exp, which loses nothing. A piece that the server still refuses
// as too large (RESOURCE_EXHAUSTED without RetryInfo) is halved. NaN for times
// that see no value at all (causal, before the first).
//
//   times_ns, values   equal sizes; values are rounded to f32
//   piece              see LargestPieces()
absl::StatusOr<std::vector<double>> AttentionAverage(
    const Client& client, const AverageRule& rule, const PieceSize& piece,
    absl::Span<const int64_t> times_ns, absl::Span<const double> values,
    absl::Span<const int64_t> wanted_ns);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_INTERPOLATE_ATTENTION_AVERAGE_H_
