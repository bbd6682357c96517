// Carried states as sent: each number of a sum is a pair of floats.
#ifndef ATTND_SERVER_LINEAR_WIRE_H_
#define ATTND_SERVER_LINEAR_WIRE_H_

#include <cstdint>
#include <string>

#include "attnd/v1/attention.pb.h"
#include "kernels/linear_state.h"
#include "server/violations.h"

namespace attnd::server {

// Version of the format that is written and the only one that is read.
inline constexpr uint32_t kLinearStateVersion = 1;

// The state of the expected shape; every mismatch is a violation of `field`.
LinearState ReadLinearState(const v1::LinearState& wire,
                            const LinearStateShape& expected,
                            const std::string& hash, const std::string& field,
                            Violations& violations);

void WriteLinearState(const LinearState& state, const std::string& hash,
                      v1::LinearState& wire);

// Bytes of a serialized state, an upper bound.
int64_t LinearStateBytes(const LinearStateShape& shape);

}  // namespace attnd::server

#endif  // ATTND_SERVER_LINEAR_WIRE_H_
