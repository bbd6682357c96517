#include "client/load/timeline.h"

#include <algorithm>
#include <cassert>

namespace attnd::client {
namespace {

void Clear(TimelineRow* row) {
  row->planned = row->started = row->ok = row->failed = row->dropped = 0;
  row->latency_ns.Clear();
}

void Add(const TimelineRow& from, TimelineRow* to) {
  to->planned += from.planned;
  to->started += from.started;
  to->ok += from.ok;
  to->failed += from.failed;
  to->dropped += from.dropped;
  to->latency_ns.Merge(from.latency_ns);
}

}  // namespace

Timeline::Timeline(int64_t row_ns, int rows) : row_ns_(row_ns) {
  assert(row_ns > 0 && rows > 0 && rows % 2 == 0);
  Histogram empty = *Histogram::Create({.digits = 2});
  rows_.assign(rows, {.latency_ns = std::move(empty)});
  for (TimelineRow& row : rows_) row.latency_ns.Reserve();
}

void Timeline::Halve() {
  row_ns_ *= 2;
  const int half = static_cast<int>(rows_.size()) / 2;
  for (int i = 0; i < half; ++i) {
    if (i > 0) {
      Clear(&rows_[i]);
      Add(rows_[2 * i], &rows_[i]);
    }
    Add(rows_[2 * i + 1], &rows_[i]);
  }
  for (size_t i = half; i < rows_.size(); ++i) Clear(&rows_[i]);
  used_ = (used_ + 1) / 2;
}

TimelineRow& Timeline::RowAt(int64_t moment_ns) {
  moment_ns = std::max<int64_t>(moment_ns, 0);
  while (moment_ns / row_ns_ >= static_cast<int64_t>(rows_.size())) Halve();
  const int index = static_cast<int>(moment_ns / row_ns_);
  used_ = std::max(used_, index + 1);
  return rows_[index];
}

void Timeline::Count(Event event, int64_t moment_ns) {
  TimelineRow& row = RowAt(moment_ns);
  switch (event) {
    case Event::kPlanned:
      ++row.planned;
      break;
    case Event::kStarted:
      ++row.started;
      break;
    case Event::kOk:
      ++row.ok;
      break;
    case Event::kFailed:
      ++row.failed;
      break;
    case Event::kDropped:
      ++row.dropped;
      break;
  }
}

void Timeline::Latency(int64_t planned_ns, int64_t latency_ns) {
  RowAt(planned_ns).latency_ns.Record(latency_ns);
}

}  // namespace attnd::client
