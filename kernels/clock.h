// Time as integers: units, ticks, exact rotation phases.
//
// Rule N1: int64 ticks are subtracted before any float exists, so a common
// shift of all times changes no bit of an answer. Rule N2: the phase of a
// rotation is a 128-bit integer of turns, so that phases add exactly for every
// int64 lag.
#ifndef ATTND_KERNELS_CLOCK_H_
#define ATTND_KERNELS_CLOCK_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace attnd {

// How many units of an encoding one tick of a request lasts, as a ratio of
// nanoseconds; {1, 1} for positions.
struct TickRatio {
  int64_t tick_ns = 1;
  int64_t unit_ns = 1;
  double units_per_tick() const {
    return static_cast<double>(tick_ns) / static_cast<double>(unit_ns);
  }
  friend bool operator==(const TickRatio&, const TickRatio&) = default;
};

// "365.25d", "1s", "250 ms" -> nanoseconds (a whole number, >= 1). Units: ns us
// ms s min h d w. "position" -> 0. INVALID_ARGUMENT says what was expected.
absl::StatusOr<int64_t> ParseTimeUnit(absl::string_view text);

// Turns per tick: value = whole + (hi*2^64 + lo) / 2^128. Whole turns change no
// phase at whole ticks, but they do at parts of a tick.
struct TurnFrequency {
  uint64_t hi = 0, lo = 0;
  __int128 whole = 0;  // floor, mod 2^128
  friend bool operator==(const TurnFrequency&, const TurnFrequency&) = default;
};

// round(2^128 * omega * ratio / 2pi) / 2^128, from the exact value of the
// double `omega` [rad per unit] and enough of 1/2pi. omega must be finite.
TurnFrequency MakeTurnFrequency(double omega, const TickRatio& ratio);

// Upper 64 bits of F * n mod 2^128: the phase in turns, read as a fraction (or,
// as int64, in [-1/2, 1/2)). Exact for every int64 n.
uint64_t PhaseWord(const TurnFrequency& frequency, int64_t ticks);

// The same for a real number of ticks (f64 time); exact from the double's value
// up to 2^-64 turn, for less than 2^127 turns per tick. `ticks` must be finite;
// from 2^63 on the error grows as 2^-128 |ticks|.
uint64_t PhaseWord(const TurnFrequency& frequency, double ticks);

// Turns per unit of a learned clock: omega / 2pi = high + low up to a part in
// 2^100. `high` has 29 bits, so that its product with a float is exact and
// whole turns leave it without rounding; low's product is rounded, so that a
// phase of n turns is exact to 2^-81 n turns.
struct ClockTurns {
  double high = 0, low = 0;
};

// omega [rad per unit] must be finite. Beyond 2^255 turns per unit, where that
// sum has only whole turns for every float, it is 0.
ClockTurns MakeClockTurns(double omega);

// Times of one axis of a request, borrowed.
//
// kPositions: nothing was sent; rows stand at integer positions.
// kTicks: int64 little-endian. kReal: binary64 little-endian.
class TimeAxis {
 public:
  enum class Kind : uint8_t { kPositions, kTicks, kReal };

  // Positions.
  TimeAxis() = default;

  // bytes: [rows, coordinates] or [batch, rows, coordinates] values of 8 bytes,
  // any alignment. INVALID_ARGUMENT on a size that does not match.
  static absl::StatusOr<TimeAxis> Make(Kind kind, absl::Span<const char> bytes,
                                       int64_t batch, int64_t rows,
                                       bool per_item, int coordinates = 1);

  Kind kind() const { return kind_; }
  int64_t rows() const { return rows_; }
  // False when one row of times serves every batch item.
  bool per_item() const { return per_item_; }
  // Items that have times of their own; 1 unless per_item().
  int64_t batch() const { return batch_; }
  int coordinates() const { return coordinates_; }
  int64_t Ticks(int64_t batch, int64_t row, int coordinate = 0) const;
  double Real(int64_t batch, int64_t row, int coordinate = 0) const;

 private:
  Kind kind_ = Kind::kPositions;
  absl::Span<const char> bytes_;
  int64_t batch_ = 1, rows_ = 0;
  bool per_item_ = false;
  int coordinates_ = 1;
};

}  // namespace attnd

#endif  // ATTND_KERNELS_CLOCK_H_
