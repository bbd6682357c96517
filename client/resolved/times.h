// The times of a request, and exact differences between them.
#ifndef ATTND_CLIENT_RESOLVED_TIMES_H_
#define ATTND_CLIENT_RESOLVED_TIMES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "attnd/v1/attention.pb.h"
#include "client/resolved/double_double.h"

namespace attnd::client::resolved {

// Rows that attend to each other: a batch item, or one sequence of a packed
// batch. Valid rows are the first `queries` and `keys` of it.
struct Sequence {
  int64_t batch = 0;
  int64_t first_query = 0, queries = 0;
  int64_t first_key = 0, keys = 0;
};

// A difference of two times, or a time as sent: in ticks, positions, or units
// of the f64 axis.
struct Lag {
  __int128 ticks = 0;    // exact axes
  double real = 0;       // rounded once
  DoubleDouble precise;  // exact
};

class Times {
 public:
  // INVALID_ARGUMENT when an axis does not fit `queries` and `keys` rows.
  static absl::StatusOr<Times> Make(const v1::AttendRequest& request,
                                    int64_t queries, int64_t keys);

  bool exact() const { return kind_ != Kind::kReal; }
  bool positions() const { return kind_ == Kind::kPositions; }
  int coordinates() const { return query_.coordinates; }
  // Nanoseconds of one tick of a coordinate; 0 = one unit, whatever that is.
  int64_t tick_nanoseconds(int coordinate) const;

  // Rows count from the sequence's first.
  Lag QueryMinusKey(const Sequence& s, int64_t i, int64_t j,
                    int coordinate = 0) const;
  Lag KeyMinusKey(const Sequence& s, int64_t a, int64_t b,
                  int coordinate = 0) const;
  Lag QueryMinusQuery(const Sequence& s, int64_t a, int64_t b) const;
  // Since `origin` ticks (positions: since 0).
  Lag Query(const Sequence& s, int64_t i, int coordinate = 0,
            int64_t origin = 0) const;
  Lag Key(const Sequence& s, int64_t j, int coordinate = 0,
          int64_t origin = 0) const;

 private:
  enum class Kind { kPositions, kTicks, kReal };
  struct Axis {
    int64_t rows = 0;
    int coordinates = 1;
    bool per_item = false;
    std::vector<int64_t> ticks;
    std::vector<double> real;
    std::vector<v1::TickUnit> units;
  };
  static absl::StatusOr<Axis> ReadAxis(const v1::TimeAxis& in, int64_t rows,
                                       const char* field);
  static size_t Index(const Axis& axis, int64_t batch, int64_t row,
                      int coordinate);
  Lag Difference(const Axis& a, int64_t row_a, const Axis& b, int64_t row_b,
                 int64_t batch, int coordinate) const;
  Lag Since(const Axis& axis, int64_t batch, int64_t row, int coordinate,
            int64_t origin) const;

  Kind kind_ = Kind::kPositions;
  Axis query_, key_;
};

}  // namespace attnd::client::resolved

#endif  // ATTND_CLIENT_RESOLVED_TIMES_H_
