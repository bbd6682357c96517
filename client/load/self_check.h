// Whether a load test measured the server, or itself.
#ifndef ATTND_CLIENT_LOAD_SELF_CHECK_H_
#define ATTND_CLIENT_LOAD_SELF_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/load/load_result.h"

namespace attnd::client {

// Share of one processor above which a thread of this client counts as the
// bottleneck: what arrives then waits for this program.
inline constexpr double kBusyThread = 0.9;

// Runs shorter than this say nothing about load on the processor.
inline constexpr double kShortestCpuCheckSeconds = 0.2;

// Largest scheduling lag, p99, without an option: this share of the median
// latency, and at least kSmallestLagBoundNs. An error that it makes in a figure
// is as large at most.
inline constexpr double kLagShare = 0.1;
inline constexpr int64_t kSmallestLagBoundNs = 1'000'000;

// Why the figures must not be used, one text per reason; empty when they may.
//
//   lag_bound_ns   0 = as above
std::vector<std::string> Invalidities(const LoadResult& result,
                                      int64_t lag_bound_ns = 0);

// What a reader must know although the figures are right: arrivals dropped or
// kept waiting, a missed schedule, answers left unverified.
std::vector<std::string> Remarks(const LoadResult& result);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_SELF_CHECK_H_
