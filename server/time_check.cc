#include "server/time_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "proto/wire.h"
#include "server/mask_check.h"

namespace attnd::server {
namespace {

// Its name; the number of one that there is not.
std::string UnitText(v1::TickUnit unit) {
  return v1::TickUnit_IsValid(unit) ? v1::TickUnit_Name(unit)
                                    : absl::StrCat(static_cast<int>(unit));
}

class TimeChecker {
 public:
  TimeChecker(const v1::AttendRequest& request, const RequestSizes& sizes,
              Payload payload, Violations& violations)
      : request_(request),
        sizes_(sizes),
        payload_(payload),
        violations_(violations) {}

  void CheckAxes();
  void CheckFiniteTimes();

 private:
  void CheckTimeAxis(const v1::TimeAxis& axis, const std::string& field,
                     int64_t rows);
  void CheckUnits(const v1::TimeAxis& axis, const std::string& field);
  void CheckFinite(const v1::TimeAxis& axis, const std::string& field,
                   int64_t rows, const int64_t* lengths,
                   absl::string_view validity);
  void Expect(bool ok, const std::string& field,
              absl::string_view description) {
    if (!ok) violations_.Add(field, description);
  }

  const v1::AttendRequest& request_;
  const RequestSizes& sizes_;
  const Payload payload_;
  Violations& violations_;
};

void TimeChecker::CheckUnits(const v1::TimeAxis& axis,
                             const std::string& field) {
  const int coordinates = std::max(1, axis.coordinates());
  Expect(
      axis.units_size() <= 1 || axis.units_size() == coordinates,
      field + ".units",
      absl::StrCat(axis.units_size(), " units, expected one per coordinate (",
                   coordinates, ")"));
  const bool real = axis.type() == v1::TIME_TYPE_F64;
  if (axis.units().empty() && !real) {
    violations_.Add(field + ".units",
                    "required for integer ticks: what one tick lasts");
  }
  for (int i = 0; i < axis.units_size(); ++i) {
    const v1::TickUnit unit = axis.units(i);
    const bool unspecified = unit == v1::TICK_UNIT_UNSPECIFIED;
    const bool valid = real ? unspecified || unit == v1::TICK_UNIT_SECONDS ||
                                  unit == v1::TICK_UNIT_POSITIONS
                            : !unspecified && v1::TickUnit_IsValid(unit);
    Expect(valid, field + ".units",
           absl::StrCat("entry ", i, " is ", UnitText(unit),
                        real ? ", expected TICK_UNIT_SECONDS or "
                               "TICK_UNIT_POSITIONS for F64"
                             : ", expected a TickUnit other than UNSPECIFIED"));
  }
}

void TimeChecker::CheckTimeAxis(const v1::TimeAxis& axis,
                                const std::string& field, int64_t rows) {
  Expect(v1::TimeType_IsValid(axis.type()), field + ".type",
         absl::StrCat("unknown value ", static_cast<int>(axis.type())));
  Expect(axis.coordinates() >= 0, field + ".coordinates", "expected >= 0");
  CheckUnits(axis, field);
  // [L] or [B,L], and with several coordinates a last axis of them.
  absl::Span<const int64_t> shape(axis.shape());
  const int64_t coordinates = std::max(1, axis.coordinates());
  const bool fits =
      coordinates == 1 || (!shape.empty() && shape.back() == coordinates);
  absl::Span<const int64_t> row_shape = shape;
  if (coordinates > 1 && fits) row_shape.remove_suffix(1);
  const bool shared = row_shape.size() == 1 && row_shape[0] == rows;
  const bool per_item = row_shape.size() == 2 && row_shape[0] == sizes_.batch &&
                        row_shape[1] == rows;
  if (!fits || (!shared && !per_item)) {
    const std::string last =
        coordinates > 1 ? absl::StrCat(",", coordinates) : "";
    violations_.Add(
        field + ".shape",
        absl::StrCat(wire::ShapeText(shape), ", expected [", rows, last,
                     "] or [", sizes_.batch, ",", rows, last, "]"));
    return;
  }
  const auto count = wire::ElementCount(shape);
  const int64_t bytes = count.value_or(0) * 8;
  if (payload_ == Payload::kAbsent && axis.data().empty()) return;
  Expect(bytes == static_cast<int64_t>(axis.data().size()), field + ".data",
         absl::StrCat(axis.data().size(), " bytes, expected ", bytes,
                      " (8 each, ", wire::ShapeText(shape), ")"));
}

void TimeChecker::CheckAxes() {
  const bool both = request_.has_query_time() && request_.has_key_time();
  if (request_.has_query_time() != request_.has_key_time()) {
    violations_.Add(request_.has_query_time() ? "key_time" : "query_time",
                    "required when the other axis has times; without any, "
                    "rows stand at integer positions");
  }
  if (request_.has_query_time()) {
    CheckTimeAxis(request_.query_time(), "query_time", sizes_.queries);
  }
  if (request_.has_key_time()) {
    CheckTimeAxis(request_.key_time(), "key_time", sizes_.keys);
  }
  if (!both) return;
  const v1::TimeAxis& query = request_.query_time();
  const v1::TimeAxis& key = request_.key_time();
  Expect(
      (query.type() == v1::TIME_TYPE_F64) == (key.type() == v1::TIME_TYPE_F64),
      "key_time.type", "differs from that of query_time");
  const auto unit = [](const v1::TimeAxis& axis, int coordinate) {
    const int i = std::min(coordinate, axis.units_size() - 1);
    if (i < 0 || axis.units(i) == v1::TICK_UNIT_UNSPECIFIED) {
      return v1::TICK_UNIT_SECONDS;
    }
    return axis.units(i);
  };
  const int coordinates = std::max(1, query.coordinates());
  Expect(coordinates == std::max(1, key.coordinates()), "key_time.coordinates",
         "differ from those of query_time");
  bool same = true;
  for (int c = 0; c < coordinates; ++c) {
    same = same && unit(query, c) == unit(key, c);
  }
  Expect(same, "key_time.units", "differ from those of query_time");
  Expect(query.data().empty() == key.data().empty() ||
             payload_ == Payload::kPresent,
         "key_time.data", "expected data on both time axes or none");
}

void TimeChecker::CheckFinite(const v1::TimeAxis& axis,
                              const std::string& field, int64_t rows,
                              const int64_t* lengths,
                              absl::string_view validity) {
  const int64_t coordinates = std::max(1, axis.coordinates());
  const bool per_item = axis.shape_size() == (coordinates > 1 ? 3 : 2);
  // The first coordinate that is not finite, or the last one.
  const auto time = [&](int64_t item, int64_t row) {
    double value = 0;
    for (int64_t c = 0; c < coordinates && std::isfinite(value); ++c) {
      const int64_t element =
          ((per_item ? item * rows : 0) + row) * coordinates + c;
      std::memcpy(&value, axis.data().data() + 8 * element, sizeof(value));
    }
    return value;
  };
  int64_t bad = 0, first_item = 0, first_row = 0;
  for (int64_t item = 0; item < sizes_.batch; ++item) {
    const int64_t end = lengths == nullptr ? rows : lengths[item];
    for (int64_t row = 0; row < end; ++row) {
      if (std::isfinite(time(item, row))) continue;
      // What padding holds is nobody's business.
      if (!validity.empty() && validity[item * rows + row] == 0) continue;
      if (bad++ > 0) continue;
      first_item = item;
      first_row = row;
    }
  }
  if (bad > 0) {
    violations_.Add(
        field + ".data",
        absl::StrCat("item ", first_item, ", row ", first_row, " is ",
                     time(first_item, first_row), ", expected finite"),
        bad);
  }
}

void TimeChecker::CheckFiniteTimes() {
  if (request_.query_time().type() != v1::TIME_TYPE_F64 ||
      request_.query_time().data().empty()) {
    return;
  }
  const v1::Mask& mask = request_.mask();
  const auto lengths = [](const auto& field) {
    return field.empty() ? nullptr : field.data();
  };
  CheckFinite(request_.query_time(), "query_time", sizes_.queries,
              lengths(mask.query_lengths()), "");
  CheckFinite(request_.key_time(), "key_time", sizes_.keys,
              lengths(mask.key_lengths()), mask.key_validity());
}

}  // namespace

void CheckTimes(const v1::AttendRequest& request, const RequestSizes& sizes,
                Payload payload, Violations& violations) {
  TimeChecker checker(request, sizes, payload, violations);
  checker.CheckAxes();
  CheckMask(request, sizes, violations);
  // Times are read by sizes that must be right.
  if (violations.empty()) checker.CheckFiniteTimes();
}

}  // namespace attnd::server
