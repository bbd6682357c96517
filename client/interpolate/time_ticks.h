// Where an axis of time carries marks, and what they say.
#ifndef ATTND_CLIENT_INTERPOLATE_TIME_TICKS_H_
#define ATTND_CLIENT_INTERPOLATE_TIME_TICKS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace attnd::client {

struct TimeTick {
  int64_t time_ns;
  std::string label;
};

// At most `most` instants in [first, last] at round places of the calendar: a
// number of years, months, days, hours, minutes, seconds or parts of one.
//
//   first_ns <= last_ns, most >= 1
std::vector<TimeTick> TimeTicks(int64_t first_ns, int64_t last_ns, int most);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_INTERPOLATE_TIME_TICKS_H_
