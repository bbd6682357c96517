#include "client/load/arrivals.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/numeric/int128.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace attnd::client {
namespace {

int64_t Nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

}  // namespace

Arrivals Arrivals::Even(RateProfile profile) {
  Arrivals arrivals(Kind::kEven);
  arrivals.profile_ = std::move(profile);
  return arrivals;
}

Arrivals Arrivals::Poisson(RateProfile profile, uint64_t seed) {
  Arrivals arrivals(Kind::kPoisson);
  arrivals.profile_ = std::move(profile);
  arrivals.random_ = Random(seed);
  return arrivals;
}

Arrivals Arrivals::Replay(std::vector<int64_t> moments_ns) {
  Arrivals arrivals(Kind::kReplay);
  arrivals.moments_ns_ = std::move(moments_ns);
  return arrivals;
}

std::optional<int64_t> Arrivals::Next() {
  if (kind_ == Kind::kReplay) {
    if (number_ == static_cast<int64_t>(moments_ns_.size())) return {};
    return moments_ns_[number_++];
  }
  expected_ = kind_ == Kind::kEven ? static_cast<double>(number_)
                                   : expected_ + random_.Exponential();
  // 10 s at 0.1/s are 1 call, not 2 because the product is 1 + 1e-16.
  if (expected_ >= profile_->calls() * (1 - 1e-12)) return {};
  ++number_;
  return Nanoseconds(profile_->MomentOf(expected_));
}

double Arrivals::RateAt(double seconds) const {
  if (kind_ != Kind::kReplay) return profile_->RateAt(seconds);
  const auto before = [&](double moment) {
    return std::lower_bound(moments_ns_.begin(), moments_ns_.end(),
                            Nanoseconds(moment));
  };
  return static_cast<double>(before(seconds + 0.5) - before(seconds - 0.5));
}

absl::StatusOr<std::vector<int64_t>> ParseMoments(absl::string_view text,
                                                  const TimeFormat& format,
                                                  double speed) {
  std::vector<int64_t> moments;
  int64_t number = 0;
  absl::int128 first = 0;
  absl::int128 last = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const absl::StatusOr<int64_t> moment = ParseTime(line, format);
    if (!moment.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", number, ": ", moment.status().message()));
    }
    if (moments.empty()) first = last = *moment;
    if (*moment < last) {
      return absl::InvalidArgumentError(absl::StrCat(
          "line ", number, ": '", line, "' is before the line above"));
    }
    last = *moment;
    const double since = static_cast<double>(last - first) / speed;
    if (since > 9e18) {
      return absl::InvalidArgumentError(absl::StrCat(
          "line ", number, ": '", line, "' is 292 years after the first"));
    }
    moments.push_back(speed == 1 ? static_cast<int64_t>(last - first)
                                 : std::llround(since));
  }
  if (moments.empty()) {
    return absl::InvalidArgumentError("no moment in it, expected one a line");
  }
  return moments;
}

}  // namespace attnd::client
