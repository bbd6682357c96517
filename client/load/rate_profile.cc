#include "client/load/rate_profile.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/duration_text.h"

namespace attnd::client {
namespace {

double Calls(const RateSegment& segment) {
  return segment.seconds * (segment.begin_rate + segment.end_rate) / 2;
}

// Calls of the first `seconds` of a segment.
double CallsWithin(const RateSegment& segment, double seconds) {
  const double slope =
      (segment.end_rate - segment.begin_rate) / segment.seconds;
  return seconds * (segment.begin_rate + slope * seconds / 2);
}

// The inverse, in the form that is exact for a slope of 0 too.
double MomentWithin(const RateSegment& segment, double calls) {
  const double slope =
      (segment.end_rate - segment.begin_rate) / segment.seconds;
  const double square =
      segment.begin_rate * segment.begin_rate + 2 * slope * calls;
  const double sum = segment.begin_rate + std::sqrt(std::max(square, 0.0));
  return sum > 0 ? std::min(2 * calls / sum, segment.seconds) : 0;
}

}  // namespace

RateProfile::RateProfile(std::vector<RateSegment> segments)
    : segments_(std::move(segments)) {
  for (const RateSegment& segment : segments_) {
    seconds_ += segment.seconds;
    calls_ += Calls(segment);
  }
}

absl::StatusOr<RateProfile> RateProfile::Make(
    std::vector<RateSegment> segments) {
  for (const RateSegment& segment : segments) {
    if (!(segment.seconds > 0)) {
      return absl::InvalidArgumentError(absl::StrCat(
          segment.seconds, " seconds at one rate, expected more than 0"));
    }
    for (double rate : {segment.begin_rate, segment.end_rate}) {
      if (!(rate >= 0 && rate <= kMaxRate)) {
        return absl::InvalidArgumentError(
            absl::StrCat(rate, " calls per second, expected 0 to ", kMaxRate));
      }
    }
  }
  RateProfile profile(std::move(segments));
  if (profile.calls_ < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(profile.calls_, " calls in ", profile.seconds_,
                     " seconds, expected at least 1"));
  }
  return profile;
}

double RateProfile::RateAt(double seconds) const {
  if (seconds < 0) return 0;
  for (const RateSegment& segment : segments_) {
    if (seconds < segment.seconds) {
      return segment.begin_rate + (segment.end_rate - segment.begin_rate) *
                                      seconds / segment.seconds;
    }
    seconds -= segment.seconds;
  }
  return 0;
}

double RateProfile::CallsUntil(double seconds) const {
  double calls = 0;
  for (const RateSegment& segment : segments_) {
    if (seconds <= 0) break;
    calls += CallsWithin(segment, std::min(seconds, segment.seconds));
    seconds -= segment.seconds;
  }
  return calls;
}

double RateProfile::MomentOf(double calls) const {
  double moment = 0;
  for (const RateSegment& segment : segments_) {
    const double within = Calls(segment);
    // A pause lasts until its end for the call that follows it.
    if (calls < within || &segment == &segments_.back()) {
      return moment + MomentWithin(segment, std::min(calls, within));
    }
    calls -= within;
    moment += segment.seconds;
  }
  return moment;
}

absl::StatusOr<std::vector<RateSegment>> ParseSteps(absl::string_view text) {
  std::vector<RateSegment> segments;
  for (absl::string_view step : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(step, absl::MaxSplits(':', 1));
    double rate;
    const absl::StatusOr<int64_t> ns = ParseDuration(parts.second);
    if (!absl::SimpleAtod(parts.first, &rate) || !ns.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", step, "', expected RATE:TIME, for example 100:10s"));
    }
    segments.push_back({static_cast<double>(*ns) * 1e-9, rate, rate});
  }
  return segments;
}

absl::StatusOr<RateSegment> ParseRamp(absl::string_view text, double seconds) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits(':', 1));
  RateSegment segment = {seconds, 0, 0};
  if (!absl::SimpleAtod(parts.first, &segment.begin_rate) ||
      !absl::SimpleAtod(parts.second, &segment.end_rate)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", text, "', expected FIRST:LAST rate, for example 10:500"));
  }
  return segment;
}

}  // namespace attnd::client
