// The mathematics of the service for the stub: plain double-precision attention
// on int64 nanoseconds, pair by pair, sharing nothing with kernels/.
#ifndef ATTND_TESTS_CLIENT_STUB_ATTENTION_H_
#define ATTND_TESTS_CLIENT_STUB_ATTENTION_H_

#include <map>
#include <string>
#include <vector>

#include "tests/client/stub_service.h"

namespace attnd::client {

// Interleaved rotation planes and a two-sided linear penalty.
struct StubEncoding {
  double unit_ns = 1;
  std::vector<double> periods = {};  // units per turn
  double slope = 0;                  // per unit
};
using StubEncodings = std::map<std::string, StubEncoding>;

// The encodings that client/examples/attnd.yaml configures for the CO2 series.
StubEncodings Co2Encodings();

// Answers output and lse of one request: B = H = 1, f32 [1,1,L,D], both time
// axes [L], no mask but causality in time. NOT_FOUND for other encodings.
grpc::Status StubAttend(const StubEncodings& encodings,
                        const v1::AttendRequest& request,
                        v1::AttendResponse* response);

// Makes `stub` compute attention and list its encodings.
void ServeAttention(const StubEncodings& encodings, StubService* stub);

}  // namespace attnd::client

#endif  // ATTND_TESTS_CLIENT_STUB_ATTENTION_H_
