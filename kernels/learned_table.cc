#include "kernels/learned_table.h"

#include <algorithm>
#include <cmath>

namespace attnd {
namespace {

using Boundary = LearnedTablePart::Boundary;
using Interpolation = LearnedTablePart::Interpolation;

// Rows from any tick to any other are more than 64 bits hold.
using Row = __int128;

// A place in the table: whole + fraction, 0 <= fraction < 1. Rows beyond
// +-2^100 are all the same to us.
struct Place {
  Row whole = 0;
  double fraction = 0;
  bool finite = true;
};

constexpr Row kFar = Row{1} << 100;

Place FromReal(long double x) {
  if (!std::isfinite(x)) return {.finite = false};
  const long double floor = std::floor(x);
  if (floor >= 0x1p100L) return {.whole = kFar};
  if (floor < -0x1p100L) return {.whole = -kFar};
  return {.whole = static_cast<Row>(floor),
          .fraction = static_cast<double>(x - floor)};
}

// Up to four rows with their weights.
struct Stencil {
  int count = 0;
  Row row[4] = {};
  double weight[4] = {};

  void Add(Row at, double by) {
    row[count] = at;
    weight[count++] = by;
  }
};

Stencil CatmullRom(Row row, double f) {
  const double f2 = f * f, f3 = f2 * f;
  Stencil stencil;
  stencil.Add(row - 1, (-f3 + 2 * f2 - f) / 2);
  stencil.Add(row, (3 * f3 - 5 * f2 + 2) / 2);
  stencil.Add(row + 1, (-3 * f3 + 4 * f2 + f) / 2);
  stencil.Add(row + 2, (f3 - f2) / 2);
  return stencil;
}

class LearnedTable : public AbsoluteVector {
 public:
  LearnedTable(const LearnedTablePart& part, const TickRatio& ratio,
               int64_t origin_ticks)
      : part_(part),
        origin_(origin_ticks),
        ticks_per_row_(static_cast<long double>(part.step) * ratio.unit_ns /
                       ratio.tick_ns) {
    if (ticks_per_row_ == std::floor(ticks_per_row_) && ticks_per_row_ >= 1 &&
        ticks_per_row_ < 0x1p62L) {
      whole_ticks_ = static_cast<int64_t>(ticks_per_row_);
    }
  }

  bool Covers(const AbsoluteTime& time) const override;
  void AddExact(bool, int, const AbsoluteTime& time,
                double* vector) const override {
    AddRows(time, vector);
  }
  void AddToRow(bool, int, const AbsoluteTime& time, AbsoluteScratch*,
                float* row) const override {
    AddRows(time, row);
  }

 private:
  Place Find(const AbsoluteTime& time) const;
  Stencil Rows(const Place& place) const;
  int64_t Fold(Row row) const;
  template <typename Number>
  void AddRows(const AbsoluteTime& time, Number* vector) const;

  LearnedTablePart part_;
  int64_t origin_;
  long double ticks_per_row_;
  int64_t whole_ticks_ = 0;  // ticks per row when that is an integer
};

// x + row_offset.
Place LearnedTable::Find(const AbsoluteTime& time) const {
  Place place;
  const int64_t origin = time.position ? 0 : origin_;
  if (!time.exact) {
    place = FromReal((static_cast<long double>(time.real) - origin) /
                     ticks_per_row_);
  } else {
    const Row ticks = Row{time.ticks} - origin;
    if (whole_ticks_ == 0) {
      place = FromReal(static_cast<long double>(ticks) / ticks_per_row_);
    } else {
      Row row = ticks / whole_ticks_, rest = ticks % whole_ticks_;
      if (rest < 0) {
        rest += whole_ticks_;
        --row;
      }
      place = {.whole = row,
               .fraction = static_cast<double>(rest) /
                           static_cast<double>(whole_ticks_)};
      // A quotient that rounds up to the next row is that row.
      if (place.fraction >= 1) place = {.whole = place.whole + 1};
    }
  }
  place.whole += part_.row_offset;
  return place;
}

bool LearnedTable::Covers(const AbsoluteTime& time) const {
  const Place place = Find(time);
  if (!place.finite) return false;
  if (part_.interpolation == Interpolation::kExact && place.fraction != 0) {
    return false;
  }
  if (part_.boundary != Boundary::kError) return true;
  const bool nearest = part_.interpolation == Interpolation::kNearest;
  const Row first = place.whole + (nearest && place.fraction >= 0.5);
  const Row last = nearest ? first : first + (place.fraction != 0);
  return first >= 0 && last < part_.rows;
}

Stencil LearnedTable::Rows(const Place& place) const {
  Stencil stencil;
  switch (part_.interpolation) {
    case Interpolation::kExact:
      stencil.Add(place.whole, 1);
      break;
    case Interpolation::kNearest:
      stencil.Add(place.whole + (place.fraction >= 0.5), 1);
      break;
    case Interpolation::kLinear:
      stencil.Add(place.whole, 1 - place.fraction);
      stencil.Add(place.whole + 1, place.fraction);
      break;
    case Interpolation::kCubic:
      return CatmullRom(place.whole, place.fraction);
  }
  return stencil;
}

int64_t LearnedTable::Fold(Row row) const {
  if (part_.boundary != Boundary::kWrap) {
    return static_cast<int64_t>(std::clamp<Row>(row, 0, part_.rows - 1));
  }
  const auto rest = static_cast<int64_t>(row % part_.rows);
  return rest < 0 ? rest + part_.rows : rest;
}

template <typename Number>
void LearnedTable::AddRows(const AbsoluteTime& time, Number* vector) const {
  Place place = Find(time);
  if (part_.boundary != Boundary::kWrap) {
    if (place.whole < 0) place = {};
    if (place.whole >= part_.rows - 1) place = {.whole = part_.rows - 1};
  }
  const Stencil stencil = Rows(place);
  const float* rows[4] = {};
  for (int k = 0; k < stencil.count; ++k) {
    rows[k] = part_.table.data() + Fold(stencil.row[k]) * part_.dim;
  }
  for (int c = 0; c < part_.dim; ++c) {
    double sum = 0;
    for (int k = 0; k < stencil.count; ++k) {
      if (stencil.weight[k] != 0) sum += stencil.weight[k] * rows[k][c];
    }
    vector[c] += static_cast<Number>(sum);
  }
}

}  // namespace

std::unique_ptr<AbsoluteVector> MakeLearnedTable(const LearnedTablePart& part,
                                                 const TickRatio& ratio,
                                                 int64_t origin_ticks) {
  return std::make_unique<LearnedTable>(part, ratio, origin_ticks);
}

}  // namespace attnd
