#include "kernels/circle_points.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/kernels/each_target.h"
#include "tests/kernels/problem_builder.h"

namespace attnd {
namespace {

using testing::Random;

void ExpectExactPoints() {
  Random random(31);
  for (int64_t count : {1, 7, 8, 9, 64, 1000}) {
    std::vector<uint64_t> phases;
    for (int64_t i = 0; i < count; ++i) phases.push_back(random.Bits());
    for (uint64_t eighth = 0; eighth < 8 && count > 8; ++eighth) {
      phases[eighth] = eighth << 61;
    }
    std::vector<float> cosines(count), sines(count);
    CirclePoints(phases.data(), count, cosines.data(), sines.data());
    for (int64_t i = 0; i < count; ++i) {
      const double angle =
          std::ldexp(static_cast<double>(phases[i]), -63) * M_PI;
      EXPECT_NEAR(cosines[i], std::cos(angle), kCirclePointError);
      EXPECT_NEAR(sines[i], std::sin(angle), kCirclePointError);
    }
  }
}

TEST(CirclePoints, AreWithinTheirErrorOnEveryInstructionSet) {
  testing::OnEachTarget(ExpectExactPoints);
}

}  // namespace
}  // namespace attnd
