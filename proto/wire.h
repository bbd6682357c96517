// Sizes of what travels on the wire, computed without overflow.
//
// The one place where both sides agree how many bytes a shape means. All
// functions are pure and thread-safe.
#ifndef ATTND_PROTO_WIRE_H_
#define ATTND_PROTO_WIRE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/types/span.h"
#include "attnd/v1/tensor.pb.h"

namespace attnd::wire {

// Default bound on a message in either direction, bytes; server, clients and
// load tester all start from it.
inline constexpr int64_t kDefaultMessageBytes = int64_t{128} << 20;

// Bytes of one element: 4 or 2; 0 for UNSPECIFIED and unknown values.
int64_t ElementBytes(v1::DType dtype);

// a * b for a, b >= 0; nullopt if either is negative or the product exceeds
// int64.
std::optional<int64_t> CheckedMultiply(int64_t a, int64_t b);

// a + b for a, b >= 0; nullopt if either is negative or the sum exceeds int64.
std::optional<int64_t> CheckedAdd(int64_t a, int64_t b);

// Product of all extents (1 for an empty shape); nullopt if one is negative or
// the product of the non-zero extents exceeds int64, so that [2^40, 2^40, 0] is
// refused and not read as 0.
std::optional<int64_t> ElementCount(absl::Span<const int64_t> shape);

// ElementCount * ElementBytes; nullopt on a bad shape or dtype.
std::optional<int64_t> TensorBytes(v1::DType dtype,
                                   absl::Span<const int64_t> shape);

// "[1,2,16,64]".
std::string ShapeText(absl::Span<const int64_t> shape);

// "f32", "bf16", "f16", or "dtype 99".
std::string DTypeText(v1::DType dtype);

}  // namespace attnd::wire

#endif  // ATTND_PROTO_WIRE_H_
