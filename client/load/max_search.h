// Searches the largest rate that a server sustains.
#ifndef ATTND_CLIENT_LOAD_MAX_SEARCH_H_
#define ATTND_CLIENT_LOAD_MAX_SEARCH_H_

#include <cstdint>
#include <optional>

#include "client/load/load_result.h"

namespace attnd::client {

// Doubles or halves the rate until it lies between a sustained and an
// unsustained one, halves that interval (on a logarithmic scale) until its ends
// are within `precision` of each other, and then asks for the lower end again:
// a rate counts as found when it was sustained twice in a row. Each failure
// lowers it by the precision. Pure: it only says which rate to try.
class MaxSearch {
 public:
  //   first      rate to begin with, > 0
  //   precision  relative width at which to stop, > 0
  explicit MaxSearch(double first, double precision = 0.05, int trials = 40);

  // The rate of the next trial; nullopt when the search is over.
  std::optional<double> Next() const;

  // The outcome of the trial at Next().
  void Tell(bool sustained);

  // Sustained twice; nullopt until then, or when nothing was.
  std::optional<double> found() const { return found_; }

 private:
  double precision_;
  int trials_left_;
  double rate_;
  std::optional<double> good_;
  std::optional<double> bad_;
  // Bracketing is done; successes in a row at this rate.
  bool confirming_ = false;
  int successes_ = 0;
  bool over_ = false;
  std::optional<double> found_;
};

// Largest median of a run's last third, for a stable run: twice that of the
// first third and this much. Random arrivals make the median of a stable queue
// wander; a queue that grows makes it five times as large, however short the
// run was.
inline constexpr int64_t kStableNoiseNs = 1'000'000;

// Whether a run kept pace with its schedule: no arrival was dropped, and
// latency did not grow by that rule.
bool Stable(const LoadResult& result);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_MAX_SEARCH_H_
