// The moments at which calls are planned, whatever becomes of those before: an
// open loop.
#ifndef ATTND_CLIENT_LOAD_ARRIVALS_H_
#define ATTND_CLIENT_LOAD_ARRIVALS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/interpolate/time_text.h"
#include "client/load/rate_profile.h"
#include "client/random.h"

namespace attnd::client {

// Planned moments in order, as nanoseconds from the start of the schedule.
// Never allocates once made. Copies repeat the sequence from where the original
// is.
class Arrivals {
 public:
  // Call k at the moment until which k calls are planned: equal gaps at a
  // constant rate, the first at 0.
  static Arrivals Even(RateProfile profile);

  // A Poisson process whose intensity is the profile: a unit Poisson process
  // mapped through the inverse of the profile's integral (time rescaling).
  static Arrivals Poisson(RateProfile profile, uint64_t seed);

  // The given moments; sorted, >= 0.
  static Arrivals Replay(std::vector<int64_t> moments_ns);

  // The next moment; nullopt after the last.
  std::optional<int64_t> Next();

  // Planned rate at a moment, calls per second; of a replay over the second
  // around it.
  double RateAt(double seconds) const;

 private:
  enum class Kind { kEven, kPoisson, kReplay };
  explicit Arrivals(Kind kind) : kind_(kind) {}

  Kind kind_;
  std::optional<RateProfile> profile_;
  std::vector<int64_t> moments_ns_;
  Random random_{0};
  int64_t number_ = 0;
  // Calls of the unit process so far.
  double expected_ = 0;
};

// Moments from a text with one a line, as `format` says ('#' begins a comment),
// made relative to the first and divided by `speed`. InvalidArgument with the
// line for anything else, and for moments that go back in time.
absl::StatusOr<std::vector<int64_t>> ParseMoments(absl::string_view text,
                                                  const TimeFormat& format,
                                                  double speed);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_ARRIVALS_H_
