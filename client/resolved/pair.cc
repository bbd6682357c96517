#include "client/resolved/pair.h"

#include <cmath>

namespace attnd::client::resolved {

DoubleDouble Units::In(const Lag& lag, int coordinate) const {
  double unit = encoding_.unit_nanoseconds();
  if (coordinate > 0 &&
      coordinate <= encoding_.coordinate_unit_nanoseconds_size()) {
    unit = encoding_.coordinate_unit_nanoseconds(coordinate - 1);
  }
  const int64_t tick = times_.tick_nanoseconds(coordinate);
  if (tick == 0 || unit == 0) return lag.precise;
  return lag.precise * DoubleDouble{static_cast<double>(tick), 0} /
         DoubleDouble{unit, 0};
}

PairLags::PairLags(const v1::ResolvedEncoding& encoding, const Times& times,
                   const Sequence& sequence, const Array& query_clock,
                   const Array& key_clock)
    : units_(encoding, times),
      times_(times),
      sequence_(sequence),
      query_clock_(query_clock),
      key_clock_(key_clock),
      hf_fp32_(encoding.definition().angle_precision() ==
               v1::ANGLE_PRECISION_HF_FP32) {}

Lag PairLags::Between(int coordinate) const {
  return keys_ ? times_.KeyMinusKey(sequence_, i_, j_, coordinate)
               : times_.QueryMinusKey(sequence_, i_, j_, coordinate);
}

double PairLags::Clock(bool query, const Drive& drive) const {
  if (query && !keys_) {
    return query_clock_.At(sequence_.batch, kv_head_,
                           sequence_.first_query + i_, drive.index);
  }
  return key_clock_.At(sequence_.batch, kv_head_,
                       sequence_.first_key + (query ? i_ : j_), drive.index);
}

double PairLags::UnitsAlong(const Drive& drive) const {
  if (drive.clock) return Clock(true, drive) - Clock(false, drive);
  return units_.In(Between(drive.index), drive.index).high;
}

double PairLags::Angle(double frequency, const Drive& drive) const {
  if (drive.clock) {
    // Of clocks that differ by much a double cannot hold the difference.
    return AngleOf(frequency, {Clock(true, drive), 0}) -
           AngleOf(frequency, {Clock(false, drive), 0});
  }
  if (hf_fp32_) {
    const auto angle = [&](double position) {
      return static_cast<float>(position) * static_cast<float>(frequency);
    };
    return double{angle(QueryPosition(drive))} -
           double{angle(KeyPosition(drive))};
  }
  return AngleOf(frequency, units_.In(Between(drive.index), drive.index));
}

double PairLags::QueryPosition(const Drive& drive) const {
  if (drive.clock) return Clock(true, drive);
  const Lag lag = keys_ ? times_.Key(sequence_, i_, drive.index)
                        : times_.Query(sequence_, i_, drive.index);
  return units_.In(lag, drive.index).high;
}

double PairLags::KeyPosition(const Drive& drive) const {
  if (drive.clock) return Clock(false, drive);
  return units_.In(times_.Key(sequence_, j_, drive.index), drive.index).high;
}

}  // namespace attnd::client::resolved
