// Parts of random encodings: blocks, biases, absolute parts.
#ifndef ATTND_TESTS_KERNELS_RANDOM_PARTS_H_
#define ATTND_TESTS_KERNELS_RANDOM_PARTS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/encoding_spec.h"
#include "tests/kernels/problem_builder.h"

namespace attnd::testing {

inline double LogUniform(Random& random, double low, double high) {
  return low * std::pow(high / low, random.Uniform());
}

inline bool Rarely(Random& random, int64_t one_in) {
  return random.Integer(1, one_in) == 1;
}

// Draws parts that Validate takes, for a problem whose times span `span` units:
// all but tables with holes. `carried`: only blocks that a state of the linear
// kind carries along, bounded functions of lags.
class RandomParts {
 public:
  RandomParts(Random& random, const ProblemSpec& spec, double span,
              bool carried = false)
      : random_(random), spec_(spec), span_(span), carried_(carried) {}

  std::vector<Block> Blocks();
  BiasTerm Bias();
  // One that falls so fast that far keys weigh nothing.
  BiasTerm FallingBias();
  AbsolutePart Absolute();
  // What the parts drawn so far need.
  bool one_sided() const { return one_sided_; }
  bool gates() const { return gates_; }
  int clock_channels() const { return clock_channels_; }
  // Something decays along a coordinate that nothing orders.
  bool unordered() const { return unordered_; }
  // Scores depend on places, not on lags alone.
  bool by_places() const { return by_places_; }

 private:
  double Rate() {
    return !carried_ && Rarely(random_, 5)
               ? 0
               : LogUniform(random_, 1e-4, 1e6) / span_;
  }
  // Clocks are floats, up to a hundred times the span: they turn by doubles.
  double Frequency(bool clock) {
    return (random_.Coin() ? 1 : -1) *
           LogUniform(random_, 1e-3, clock ? 1e4 : 1e9) / span_;
  }
  std::vector<double> Rates(int64_t count) {
    std::vector<double> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(Rate());
    return values;
  }
  std::vector<double> OneOrSeveralRates(int64_t count) {
    return Rates(random_.Coin() ? 1 : count);
  }
  std::vector<double> Frequencies(int64_t count, bool clock) {
    std::vector<double> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(Frequency(clock));
    return values;
  }
  std::vector<double> PerHead(double low, double high) {
    std::vector<double> values;
    const int64_t count = random_.Coin() ? 1 : spec_.query_heads;
    for (int64_t h = 0; h < count; ++h) {
      values.push_back(LogUniform(random_, low, high));
    }
    return values;
  }
  PairLayout Layout() {
    return random_.Coin() ? PairLayout::kHalfSplit : PairLayout::kInterleaved;
  }
  RotaryScaling Scaling(int planes);
  Block OneBlock(int left, int* width);
  Block DecayOf(int width, const Drive& drive);
  Time2VecPart Time2Vec(int width);
  std::vector<double> StableMatrix(int n);
  Drive RandomDrive();
  // The same for what decays.
  Drive DecayDrive();
  // Axes that a block may count from its drive, which then covers them.
  int AxesFrom(const Drive& drive);
  AxisSections Sections(int planes, int axes);
  // Of several axes, where the problem has them (random_axes.cc).
  Block AxesBlock(int left, int* width);
  Block LieRe(int left, const Drive& drive, int axes, int* width);
  double LargestPlace(const Drive& drive) const;

  Random& random_;
  const ProblemSpec& spec_;
  const double span_;
  const bool carried_;
  bool one_sided_ = false, gates_ = false;
  bool unordered_ = false, by_places_ = false;
  bool averaged_ = false;  // the list of blocks that is being drawn
  int clock_channels_ = 0;
};

}  // namespace attnd::testing

#endif  // ATTND_TESTS_KERNELS_RANDOM_PARTS_H_
