#include "client/resolved/times.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace attnd::client::resolved {
namespace {

template <typename T>
std::vector<T> Numbers(const std::string& bytes) {
  std::vector<T> numbers(bytes.size() / sizeof(T));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(T));
  return numbers;
}

Lag OfTicks(__int128 ticks) {
  const auto high = static_cast<double>(ticks);
  return {ticks,
          high,
          {high, static_cast<double>(ticks - static_cast<__int128>(high))}};
}

Lag OfReal(DoubleDouble exact) { return {0, exact.high, exact}; }

}  // namespace

absl::StatusOr<Times::Axis> Times::ReadAxis(const v1::TimeAxis& in,
                                            int64_t rows, const char* field) {
  Axis axis;
  axis.rows = rows;
  axis.coordinates = std::max(1, in.coordinates());
  const int expected = axis.coordinates > 1 ? 2 : 1;
  axis.per_item = in.shape_size() > expected;
  if (in.type() == v1::TIME_TYPE_F64) {
    axis.real = Numbers<double>(in.data());
  } else {
    axis.ticks = Numbers<int64_t>(in.data());
  }
  for (const int unit : in.units()) {
    axis.units.push_back(static_cast<v1::TickUnit>(unit));
  }
  if (axis.units.empty()) axis.units.push_back(v1::TICK_UNIT_SECONDS);
  const int64_t count =
      static_cast<int64_t>(std::max(axis.ticks.size(), axis.real.size()));
  const int64_t each = rows * axis.coordinates;
  if (axis.per_item ? each > 0 && count % each != 0 : count != each) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": ", count, " times, expected ", each));
  }
  return axis;
}

absl::StatusOr<Times> Times::Make(const v1::AttendRequest& request,
                                  int64_t queries, int64_t keys) {
  Times times;
  if (!request.has_query_time()) return times;
  times.kind_ = request.query_time().type() == v1::TIME_TYPE_F64 ? Kind::kReal
                                                                 : Kind::kTicks;
  absl::StatusOr<Axis> axis =
      ReadAxis(request.query_time(), queries, "query_time");
  if (!axis.ok()) return axis.status();
  times.query_ = *std::move(axis);
  axis = ReadAxis(request.key_time(), keys, "key_time");
  if (!axis.ok()) return axis.status();
  times.key_ = *std::move(axis);
  return times;
}

int64_t Times::tick_nanoseconds(int coordinate) const {
  if (kind_ == Kind::kPositions) return 0;
  const auto& units = query_.units;
  switch (units[std::min<size_t>(coordinate, units.size() - 1)]) {
    case v1::TICK_UNIT_NANOSECONDS:
      return 1;
    case v1::TICK_UNIT_MICROSECONDS:
      return 1'000;
    case v1::TICK_UNIT_MILLISECONDS:
      return 1'000'000;
    case v1::TICK_UNIT_SECONDS:
      return 1'000'000'000;
    default:
      return 0;
  }
}

size_t Times::Index(const Axis& axis, int64_t batch, int64_t row,
                    int coordinate) {
  return ((axis.per_item ? batch : 0) * axis.rows + row) * axis.coordinates +
         coordinate;
}

Lag Times::Difference(const Axis& a, int64_t row_a, const Axis& b,
                      int64_t row_b, int64_t batch, int coordinate) const {
  const size_t at_a = Index(a, batch, row_a, coordinate);
  const size_t at_b = Index(b, batch, row_b, coordinate);
  if (kind_ == Kind::kReal) {
    return OfReal(ExactSum(a.real[at_a], -b.real[at_b]));
  }
  return OfTicks(static_cast<__int128>(a.ticks[at_a]) - b.ticks[at_b]);
}

Lag Times::Since(const Axis& axis, int64_t batch, int64_t row, int coordinate,
                 int64_t origin) const {
  const size_t at = Index(axis, batch, row, coordinate);
  if (kind_ == Kind::kReal) {
    return OfReal(ExactSum(axis.real[at], -static_cast<double>(origin)));
  }
  return OfTicks(static_cast<__int128>(axis.ticks[at]) - origin);
}

Lag Times::QueryMinusKey(const Sequence& s, int64_t i, int64_t j,
                         int coordinate) const {
  if (kind_ == Kind::kPositions) return OfTicks(s.keys - s.queries + i - j);
  return Difference(query_, s.first_query + i, key_, s.first_key + j, s.batch,
                    coordinate);
}

Lag Times::KeyMinusKey(const Sequence& s, int64_t a, int64_t b,
                       int coordinate) const {
  if (kind_ == Kind::kPositions) return OfTicks(a - b);
  return Difference(key_, s.first_key + a, key_, s.first_key + b, s.batch,
                    coordinate);
}

Lag Times::QueryMinusQuery(const Sequence& s, int64_t a, int64_t b) const {
  if (kind_ == Kind::kPositions) return OfTicks(a - b);
  return Difference(query_, s.first_query + a, query_, s.first_query + b,
                    s.batch, 0);
}

Lag Times::Query(const Sequence& s, int64_t i, int coordinate,
                 int64_t origin) const {
  if (kind_ == Kind::kPositions) return OfTicks(s.keys - s.queries + i);
  return Since(query_, s.batch, s.first_query + i, coordinate, origin);
}

Lag Times::Key(const Sequence& s, int64_t j, int coordinate,
               int64_t origin) const {
  if (kind_ == Kind::kPositions) return OfTicks(j);
  return Since(key_, s.batch, s.first_key + j, coordinate, origin);
}

}  // namespace attnd::client::resolved
