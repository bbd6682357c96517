// Where the rows of random problems stand: in time and along further
// coordinates, and the masks that are said in times.
#ifndef ATTND_TESTS_KERNELS_RANDOM_PLACES_H_
#define ATTND_TESTS_KERNELS_RANDOM_PLACES_H_

#include <cstdint>

#include "tests/kernels/problem_builder.h"

namespace attnd::testing {

// Replaces times and units of the problem by ones from a nanosecond to a
// century, adds up to two coordinates to some, and brings windows and ranges
// that the problem has into that span. The kind of time stays. Returns the span
// in units, the same along every coordinate.
double SetRandomPlaces(Random& random, ProblemSpec& spec);

// Units between key 0 of the problem and a row of an item of its batch; without
// times the row's position, where packed items count from their own first.
double PlaceOfRow(const ProblemSpec& spec, bool query, int64_t item,
                  int64_t row);

// Most units between two rows along any coordinate.
double LongestGap(const ProblemSpec& spec);

}  // namespace attnd::testing

#endif  // ATTND_TESTS_KERNELS_RANDOM_PLACES_H_
