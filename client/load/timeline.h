// What happened in each stretch of a run, in memory that does not grow.
#ifndef ATTND_CLIENT_LOAD_TIMELINE_H_
#define ATTND_CLIENT_LOAD_TIMELINE_H_

#include <cstdint>
#include <vector>

#include "client/histogram.h"

namespace attnd::client {

// Counts by the moment at which each thing happened; the latencies of a row are
// of the calls that were planned in it, so that a frozen server shows where it
// froze.
struct TimelineRow {
  int64_t planned = 0;
  int64_t started = 0;
  int64_t ok = 0;
  int64_t failed = 0;
  int64_t dropped = 0;
  // Two digits.
  Histogram latency_ns;
};

// Rows of equal length from moment 0. A run longer than all rows doubles the
// length of each; nothing is allocated after the construction.
class Timeline {
 public:
  // The first length is of a row; even number of `rows`.
  explicit Timeline(int64_t row_ns, int rows = 240);
  Timeline() : Timeline(1'000'000'000) {}

  enum class Event { kPlanned, kStarted, kOk, kFailed, kDropped };
  // Moments before 0 count as 0.
  void Count(Event event, int64_t moment_ns);
  void Latency(int64_t planned_ns, int64_t latency_ns);

  int64_t row_ns() const { return row_ns_; }
  // Rows up to the last in which something happened.
  int size() const { return used_; }
  const TimelineRow& row(int index) const { return rows_[index]; }

 private:
  TimelineRow& RowAt(int64_t moment_ns);
  void Halve();

  int64_t row_ns_;
  std::vector<TimelineRow> rows_;
  int used_ = 0;
};

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_TIMELINE_H_
