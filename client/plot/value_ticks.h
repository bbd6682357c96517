// Where an axis of numbers carries marks, and what they say.
#ifndef ATTND_CLIENT_PLOT_VALUE_TICKS_H_
#define ATTND_CLIENT_PLOT_VALUE_TICKS_H_

#include <string>
#include <vector>

namespace attnd::client {

struct ValueTick {
  double value;
  std::string label;
};

// At most `most` multiples of 1, 2 or 5 times a power of ten in [low, high].
//
//   low < high, both finite
std::vector<ValueTick> ValueTicks(double low, double high, int most);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_PLOT_VALUE_TICKS_H_
