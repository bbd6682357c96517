#include "client/load/live_line.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/duration_text.h"

namespace attnd::client {
namespace {

// Back to the start of the line, and erase it (ECMA-48).
constexpr char kClear[] = "\r\x1b[2K";

}  // namespace

LiveLine::LiveLine(std::ostream& out, double warm_up_seconds, double seconds)
    : out_(out), warm_up_seconds_(warm_up_seconds), seconds_(seconds) {}

LiveLine::~LiveLine() { out_ << kClear << std::flush; }

void LiveLine::Observe(const Conductor& conductor, int64_t now_ns) {
  const double now = 1e-9 * static_cast<double>(now_ns);
  const LoadResult& result = conductor.result();
  if (now < warm_up_seconds_) {
    text_ = absl::StrFormat("warm-up %.0fs  %d in flight",
                            warm_up_seconds_ - now, conductor.in_flight());
    return;
  }
  // Of the last full stretch, so that a change is seen when it happens.
  const Timeline& timeline = result.timeline;
  const int row = std::max(timeline.size() - 2, 0);
  const Histogram* latency =
      timeline.size() > 0 ? &timeline.row(row).latency_ns : nullptr;
  const double elapsed = std::max(now - seen_before_, 1e-3);
  text_ =
      absl::StrFormat("%.0f/s  %d in flight",
                      static_cast<double>(result.all.ok - ok_before_) / elapsed,
                      conductor.in_flight());
  ok_before_ = result.all.ok;
  seen_before_ = now;
  if (latency != nullptr && latency->count() > 0) {
    absl::StrAppend(
        &text_, "  p50 ",
        DurationText(static_cast<double>(latency->ValueAtPercentile(50))),
        "  p99 ",
        DurationText(static_cast<double>(latency->ValueAtPercentile(99))));
  }
  if (result.dropped > 0) {
    absl::StrAppend(&text_, "  dropped ", result.dropped);
  }
  for (const auto& [code, errors] : result.all.errors) {
    absl::StrAppend(&text_, "  ", absl::StatusCodeToString(code), " ",
                    errors.count);
  }
  if (seconds_ > 0) {
    absl::StrAppendFormat(&text_, "  %.0fs left",
                          std::max(seconds_ - now, 0.0));
  }
}

void LiveLine::Show() {
  // A line that wraps could not be erased.
  out_ << kClear << text_.substr(0, 110) << std::flush;
}

}  // namespace attnd::client
