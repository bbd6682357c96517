// Absolute parts, and what they add to a row of zeros.
#ifndef ATTND_TESTS_KERNELS_ABSOLUTE_PARTS_H_
#define ATTND_TESTS_KERNELS_ABSOLUTE_PARTS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/absolute.h"

namespace attnd::testing {

inline constexpr TickRatio kNsToSeconds{.tick_ns = 1, .unit_ns = 1000000000};

inline AbsoluteTime At(int64_t ticks) { return {.ticks = ticks}; }

inline std::shared_ptr<const Absolute> Compile(
    const AbsolutePart& part, int dim, const TickRatio& ratio = kNsToSeconds) {
  auto absolute = Absolute::Compile({part}, dim, 2, ratio);
  EXPECT_TRUE(absolute.ok()) << absolute.status();
  return *std::move(absolute);
}

inline std::vector<double> Vector(const Absolute& absolute, int dim,
                                  const AbsoluteTime& time, bool query = true,
                                  int head = 0) {
  std::vector<double> vector(dim);
  absolute.Exact(query, head, time, vector.data());
  return vector;
}

// What AddToRow adds to zeros.
inline std::vector<float> Row(const Absolute& absolute, int dim,
                              const AbsoluteTime& time, bool query = true,
                              int head = 0) {
  std::vector<float> row(dim);
  AbsoluteScratch scratch;
  absolute.AddToRow(query, head, time, &scratch, row.data());
  return row;
}

inline AbsolutePart Sinusoids(
    SinusoidalPart::Order order = SinusoidalPart::Order::kInterleaved) {
  return {.kind = SinusoidalPart{.order = order}};
}

inline AbsolutePart Table(LearnedTablePart::Boundary boundary,
                          LearnedTablePart::Interpolation interpolation,
                          int rows = 8) {
  LearnedTablePart table{.rows = rows,
                         .dim = 2,
                         .table = {},
                         .boundary = boundary,
                         .interpolation = interpolation};
  for (int r = 0; r < rows; ++r) {
    table.table.push_back(static_cast<float>(r));
    table.table.push_back(static_cast<float>(r * r % 5));
  }
  return {.kind = table};
}

}  // namespace attnd::testing

#endif  // ATTND_TESTS_KERNELS_ABSOLUTE_PARTS_H_
