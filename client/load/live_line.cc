#include "client/load/live_line.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/duration_text.h"

namespace attnd::client {
namespace {

// Back to the start of the line, and erase it (ECMA-48).
constexpr char kClear[] = "\r\x1b[2K";

// Looks, half a second apart, over which the rate is taken: of one alone it
// would jump where answers are few.
constexpr size_t kRateLooks = 4;

// What is left out first comes last.
enum Rank { kRate, kErrors, kP99, kTimeLeft, kP50, kInFlight, kTitle };

// "42s", "12:05", "1:02:05".
std::string Clock(double seconds) {
  const auto whole = static_cast<int64_t>(std::ceil(std::max(seconds, 0.0)));
  if (whole < 60) return absl::StrCat(whole, "s");
  if (whole < 3600) return absl::StrFormat("%d:%02d", whole / 60, whole % 60);
  return absl::StrFormat("%d:%02d:%02d", whole / 3600, whole / 60 % 60,
                         whole % 60);
}

}  // namespace

std::string FitLine(std::vector<LiveField> fields, int columns) {
  const auto room = static_cast<size_t>(std::max(columns - 1, 0));
  while (true) {
    std::string line;
    for (const LiveField& field : fields) {
      absl::StrAppend(&line, line.empty() ? "" : "  ", field.text);
    }
    if (line.size() <= room || fields.size() <= 1) return line.substr(0, room);
    fields.erase(std::max_element(
        fields.begin(), fields.end(),
        [](const auto& a, const auto& b) { return a.rank < b.rank; }));
  }
}

LiveLine::LiveLine(std::ostream& out, std::function<int()> columns)
    : out_(out), columns_(std::move(columns)) {}

LiveLine::~LiveLine() { out_ << kClear << std::flush; }

void LiveLine::Write(std::vector<LiveField> fields) {
  out_ << kClear << FitLine(std::move(fields), columns_()) << std::flush;
}

RunLine::RunLine(LiveLine& line, std::string title, double warm_up_seconds,
                 double seconds, int64_t calls)
    : line_(line),
      title_(std::move(title)),
      warm_up_seconds_(warm_up_seconds),
      seconds_(seconds),
      calls_(calls) {}

void RunLine::Observe(const Conductor& conductor, int64_t now_ns) {
  const double now = 1e-9 * static_cast<double>(now_ns);
  const LoadResult& result = conductor.result();
  fields_.clear();
  if (!title_.empty()) fields_.push_back({title_, kTitle});
  const bool warm = now >= warm_up_seconds_;
  if (warm) {
    AddRate(result, now);
  } else {
    fields_.push_back(
        {absl::StrCat("warm-up, ", Clock(warm_up_seconds_ - now), " left"),
         kRate});
  }
  fields_.push_back(
      {absl::StrCat(conductor.in_flight(), " in flight"), kInFlight});
  if (!warm) return;
  AddLatency(result.timeline);
  AddErrors(result);
  AddTimeLeft(result, now);
}

void RunLine::AddRate(const LoadResult& result, double now) {
  looks_.emplace_back(now, result.all.ok);
  if (looks_.size() > kRateLooks + 1) looks_.pop_front();
  const double seconds = now - looks_.front().first;
  const auto answers =
      static_cast<double>(result.all.ok - looks_.front().second);
  if (seconds <= 0) {
    fields_.push_back({"measuring", kRate});
    return;
  }
  const double rate = answers / seconds;
  fields_.push_back(
      {absl::StrFormat("%.*f/s", rate < 9.95 ? 1 : 0, rate), kRate});
}

void RunLine::AddLatency(const Timeline& timeline) {
  // Of the last full stretch that has answers, so that a change is seen when it
  // happens.
  for (int row = timeline.size() - 2; row >= 0; --row) {
    const Histogram& latency = timeline.row(row).latency_ns;
    if (latency.count() == 0) continue;
    const auto at = [&](double percent) {
      return DurationText(
          static_cast<double>(latency.ValueAtPercentile(percent)));
    };
    fields_.push_back({absl::StrCat("p50 ", at(50)), kP50});
    fields_.push_back({absl::StrCat("p99 ", at(99)), kP99});
    return;
  }
}

void RunLine::AddErrors(const LoadResult& result) {
  if (result.dropped > 0) {
    fields_.push_back({absl::StrCat("dropped ", result.dropped), kErrors});
  }
  for (const auto& [code, errors] : result.all.errors) {
    fields_.push_back(
        {absl::StrCat(absl::StatusCodeToString(code), " ", errors.count),
         kErrors});
  }
}

void RunLine::AddTimeLeft(const LoadResult& result, double now) {
  const int64_t ended = result.all.ok + result.all.failed + result.dropped;
  double left;
  if (seconds_ > 0) {
    left = seconds_ - now;
  } else if (calls_ > 0 && ended > 0) {
    left = (now - warm_up_seconds_) * static_cast<double>(calls_ - ended) /
           static_cast<double>(ended);
  } else {
    return;
  }
  fields_.push_back({absl::StrCat(Clock(left), " left"), kTimeLeft});
}

void RunLine::Show() { line_.Write(fields_); }

}  // namespace attnd::client
