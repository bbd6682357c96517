#include "client/interpolate/time_ticks.h"

#include "absl/numeric/int128.h"
#include "absl/strings/str_format.h"
#include "absl/time/civil_time.h"
#include "client/interpolate/time_text.h"

namespace attnd::client {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kDay = 86400 * kSecond;
// Beyond the day, steps are months.
constexpr int64_t kFixedSteps[] = {kSecond,
                                   2 * kSecond,
                                   5 * kSecond,
                                   10 * kSecond,
                                   30 * kSecond,
                                   60 * kSecond,
                                   120 * kSecond,
                                   300 * kSecond,
                                   600 * kSecond,
                                   1800 * kSecond,
                                   3600 * kSecond,
                                   2 * 3600 * kSecond,
                                   3 * 3600 * kSecond,
                                   6 * 3600 * kSecond,
                                   12 * 3600 * kSecond,
                                   kDay,
                                   2 * kDay,
                                   7 * kDay,
                                   14 * kDay};
constexpr int kMonthSteps[] = {1, 3, 6, 12, 24, 60, 120, 240, 600, 1200};

absl::CivilSecond Civil(int64_t ns) {
  return absl::CivilSecond(1970, 1, 1) +
         (ns / kSecond - (ns % kSecond < 0 ? 1 : 0));
}

std::string FixedLabel(int64_t ns, int64_t step) {
  const absl::CivilSecond civil = Civil(ns);
  if (step % kDay == 0) {
    return absl::StrFormat("%04d-%02d-%02d", civil.year(), civil.month(),
                           civil.day());
  }
  if (step % (60 * kSecond) == 0) {
    return absl::StrFormat("%02d-%02d %02d:%02d", civil.month(), civil.day(),
                           civil.hour(), civil.minute());
  }
  if (step % kSecond == 0) {
    return absl::StrFormat("%02d:%02d:%02d", civil.hour(), civil.minute(),
                           civil.second());
  }
  // The clock of "1970-01-01T00:00:00.5Z", and its fraction without zeros.
  std::string text = TimeTexts({ns})[0];
  text = text.size() > 11 ? text.substr(11, text.size() - 12) : "00:00:00.0";
  while (text.find('.') != std::string::npos && text.back() == '0') {
    text.pop_back();
  }
  return text;
}

std::vector<TimeTick> FixedTicks(int64_t first_ns, int64_t last_ns,
                                 int64_t step) {
  // The first multiple at or after the start; its neighbours may lie beyond
  // int64.
  const absl::int128 start = first_ns;
  absl::int128 at = start / step * step;
  if (at < start) at += step;
  std::vector<TimeTick> ticks;
  for (; at <= last_ns; at += step) {
    const int64_t ns = static_cast<int64_t>(at);
    ticks.push_back({ns, FixedLabel(ns, step)});
  }
  return ticks;
}

std::vector<TimeTick> MonthTicks(int64_t first_ns, int64_t last_ns,
                                 int months) {
  std::vector<TimeTick> ticks;
  const absl::CivilSecond first = Civil(first_ns);
  int64_t month = (first.year() * 12 + first.month() - 1) / months * months;
  for (;; month += months) {
    const absl::CivilDay day(month / 12, month % 12 + 1, 1);
    const absl::int128 ns =
        absl::int128(day - absl::CivilDay(1970, 1, 1)) * kDay;
    if (ns > last_ns) return ticks;
    if (ns < first_ns) continue;
    ticks.push_back({static_cast<int64_t>(ns),
                     months % 12 == 0 ? absl::StrFormat("%04d", day.year())
                                      : absl::StrFormat("%04d-%02d", day.year(),
                                                        day.month())});
  }
}

}  // namespace

std::vector<TimeTick> TimeTicks(int64_t first_ns, int64_t last_ns, int most) {
  const double span = static_cast<double>(absl::int128(last_ns) - first_ns);
  const double least = span / most;
  for (int64_t step = 1; step < kSecond; step *= 10) {
    for (int64_t times : {1, 2, 5}) {
      if (times * step >= least) {
        return FixedTicks(first_ns, last_ns, times * step);
      }
    }
  }
  for (int64_t step : kFixedSteps) {
    if (step >= least) return FixedTicks(first_ns, last_ns, step);
  }
  for (int months : kMonthSteps) {
    if (months * 30.0 * kDay >= least) {
      return MonthTicks(first_ns, last_ns, months);
    }
  }
  return MonthTicks(first_ns, last_ns, kMonthSteps[std::size(kMonthSteps) - 1]);
}

}  // namespace attnd::client
