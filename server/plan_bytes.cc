#include "server/plan_bytes.h"

#include <algorithm>

namespace attnd::server {
namespace {

// All in floating point because an estimate's sizes are bounded by nothing but
// the limits.

// ItemGeometry holds, per row, order, time and (queries) an interval; besides,
// sums of the weight that keys receive.
double GeometryBytes(const v1::AttendRequest& request,
                     const RequestSizes& sizes, double items, bool key_mass) {
  const v1::Mask& mask = request.mask();
  const bool per_item =
      request.query_time().shape_size() == 2 ||
      request.key_time().shape_size() == 2 || !mask.query_lengths().empty() ||
      !mask.key_lengths().empty() || !mask.key_validity().empty();
  const auto copies =
      static_cast<double>(per_item ? std::max<int64_t>(1, sizes.batch) : 1);
  const auto keys = static_cast<double>(sizes.keys);
  // Sorting holds a second copy for a while.
  double bytes =
      4096 + 512 * std::max(copies, mask.query_offsets().empty() ? 1 : items) +
      copies * (48 * static_cast<double>(sizes.queries) + 24 * keys);
  if (key_mass) {
    bytes += 8 * static_cast<double>(sizes.batch) *
             static_cast<double>(sizes.query_heads) * keys;
  }
  return bytes;
}

// A unit is at least a tile of 128 rows, or what is left, of a head; the list
// of them is copied as it grows.
double UnitBytes(const RequestSizes& sizes, double items) {
  constexpr double kBytesPerUnit = 128, kTileRows = 128;
  return kBytesPerUnit * static_cast<double>(sizes.query_heads) *
         (items + static_cast<double>(sizes.batch) *
                      static_cast<double>(sizes.queries) / kTileRows);
}

// States of the linear kind that come and go, and what its heads hold while
// they are computed.
double LinearBytes(const RequestSizes& sizes, const DecodedLinear& linear,
                   double items, DType output_dtype) {
  // More workers than a machine has, each with a head of its own.
  constexpr double kHeadsAtOnce = 256;
  const double heads = items * static_cast<double>(sizes.kv_heads);
  // Padded, with a column for the normaliser.
  const double sums = static_cast<double>(sizes.dim + 16) *
                      static_cast<double>(sizes.value_dim + 16);
  const auto states =
      static_cast<double>(linear.parts.size() + (linear.initial ? 1 : 0) +
                          (linear.return_state ? 1 : 0));
  double bytes = 8 * heads * sums * states + 64 * heads +
                 12 * std::min(heads, kHeadsAtOnce) * sums;
  if (linear.options.bidirectional) {
    const auto rows = static_cast<double>(sizes.batch * sizes.query_heads) *
                      static_cast<double>(sizes.queries);
    bytes += 4 * rows *
             (output_dtype == DType::kF32
                  ? 1
                  : 1 + static_cast<double>(sizes.value_dim));
  }
  return bytes;
}

}  // namespace

int64_t Items(const v1::AttendRequest& request, const RequestSizes& sizes) {
  const auto& offsets = request.mask().query_offsets();
  return offsets.empty() ? sizes.batch : offsets.size() - 1;
}

int64_t PlanBytes(const v1::AttendRequest& request,
                  const DecodedRequest& decoded) {
  const auto items = static_cast<double>(Items(request, decoded.sizes));
  double bytes = GeometryBytes(request, decoded.sizes, items,
                               decoded.problem.outputs.key_mass) +
                 UnitBytes(decoded.sizes, items);
  if (decoded.linear) {
    bytes += LinearBytes(decoded.sizes, *decoded.linear, items,
                         decoded.problem.output_dtype);
  }
  return bytes < 0x1p60 ? static_cast<int64_t>(bytes) : int64_t{1} << 60;
}

double PlanSeconds(const v1::AttendRequest& request,
                   const RequestSizes& sizes) {
  // Between rows in order, 0.15e-9, and out of order, 4e-9, which sorting finds
  // out; 0.4e-9 for units. 2^20 rows, one core of an AMD EPYC
  // (plan_bytes_test.cc).
  constexpr double kSecondsPerByte = 1e-9;
  const auto items = static_cast<double>(Items(request, sizes));
  return kSecondsPerByte *
         (GeometryBytes(request, sizes, items, /*key_mass=*/false) +
          UnitBytes(sizes, items));
}

}  // namespace attnd::server
