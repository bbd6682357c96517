// Checks of numbers and times on the command line.
#ifndef ATTND_CLIENT_NUMBER_RANGE_H_
#define ATTND_CLIENT_NUMBER_RANGE_H_

#include <CLI/App.hpp>
#include <cstdint>
#include <limits>

namespace attnd::client {

// Each refuses what is not in its range, or no number at all, with a text that
// says what came and what was expected; CLI11 puts the option's name before it.
// CLI11's own conversion takes the nearest of what a type cannot hold, and NaN.

CLI::Validator WholeNumber(int64_t low,
                           int64_t high = std::numeric_limits<int64_t>::max());

// Any uint64_t.
CLI::Validator Seed();

// Which ends belong to a range.
enum class Ends { kBoth, kLow, kHigh, kNeither };

// Not NaN; an infinite end that does not belong leaves finite numbers.
inline constexpr double kNoEnd = std::numeric_limits<double>::infinity();
CLI::Validator RealNumber(double low, double high, Ends ends = Ends::kBoth);

// As ParseDuration() reads it, 0 or more.
CLI::Validator TimeFrom0();
// The same without 0.
CLI::Validator TimeAbove0();

}  // namespace attnd::client

#endif  // ATTND_CLIENT_NUMBER_RANGE_H_
