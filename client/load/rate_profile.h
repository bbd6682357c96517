// How many calls a second are planned, over the length of a run.
#ifndef ATTND_CLIENT_LOAD_RATE_PROFILE_H_
#define ATTND_CLIENT_LOAD_RATE_PROFILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace attnd::client {

// A stretch in which the rate changes linearly, calls per second.
struct RateSegment {
  double seconds;
  double begin_rate;
  double end_rate;
};

// Segments one after the other. Immutable.
class RateProfile {
 public:
  // Ten times what one connection of gRPC carries; beyond it a rate is a typing
  // mistake.
  static constexpr double kMaxRate = 1e7;

  // InvalidArgument unless every length is > 0, every rate is in [0, kMaxRate]
  // and at least one call is planned.
  static absl::StatusOr<RateProfile> Make(std::vector<RateSegment> segments);

  double seconds() const { return seconds_; }
  // Integral of the rate over the whole length.
  double calls() const { return calls_; }

  // Planned rate at a moment; 0 outside [0, seconds()).
  double RateAt(double seconds) const;

  // Integral of the rate from the start to a moment; clamped to the length.
  double CallsUntil(double seconds) const;

  // Its inverse: the first moment until which `calls` of [0, calls()] are
  // planned.
  double MomentOf(double calls) const;

 private:
  explicit RateProfile(std::vector<RateSegment> segments);

  std::vector<RateSegment> segments_;
  double seconds_ = 0;
  double calls_ = 0;
};

// "100:10s,200:10s": rates and how long each lasts.
absl::StatusOr<std::vector<RateSegment>> ParseSteps(absl::string_view text);

// "10:500": first and last rate of a linear change.
absl::StatusOr<RateSegment> ParseRamp(absl::string_view text, double seconds);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_RATE_PROFILE_H_
