// Learned clocks: what they count from does not matter.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/kernels/answer.h"
#include "tests/kernels/problem_builder.h"

namespace attnd::testing {
namespace {

// Every float from 2^34 to 2^35 is a multiple of it.
constexpr double kStep = 2048;

std::vector<float> Clocks(Random& random, int64_t count, double origin) {
  std::vector<float> clocks;
  for (int64_t n = 0; n < count; ++n) {
    clocks.push_back(static_cast<float>(
        origin + kStep * static_cast<double>(random.Integer(0, 1000))));
  }
  return clocks;
}

// 50 rad a unit from 2^34 on: 10^12 rad, of which a double holds 10^-4.
ProblemSpec Problem(double query_origin, double key_origin) {
  Random random(1);
  constexpr int64_t kRows = 90, kDim = 48;
  ProblemSpec spec;
  spec.query_heads = 4;
  spec.kv_heads = 2;
  spec.queries = spec.keys = kRows;
  spec.dim = kDim;
  spec.value_dim = 20;
  spec.Fill(random);
  RotationBlock block{.frequencies = {}};
  for (int p = 0; p < kDim / 2; ++p) {
    block.frequencies.push_back(50 * std::pow(1e-3, 2.0 * p / kDim));
  }
  EncodingSpec encoding;
  encoding.blocks = {Block(block, {.clock = true})};
  spec.encoding = encoding;
  spec.query_clock = Clocks(random, spec.kv_heads * kRows, query_origin);
  spec.key_clock = Clocks(random, spec.kv_heads * kRows, key_origin);
  return spec;
}

TEST(LearnedClock, RotationsKeepTheContractFarFromZero) {
  for (const double origin : {0.0, 0x1p34, -0x1p35}) {
    EXPECT_EQ(Judge(Problem(origin, origin)), "") << origin;
  }
}

TEST(LearnedClock, RotationsKeepTheContractFarFromEachOther) {
  EXPECT_EQ(Judge(Problem(0x1p34, 0)), "");
  EXPECT_EQ(Judge(Problem(0x1p34, -0x1p34)), "");
}

TEST(LearnedClock, ACommonOriginDropsOut) {
  const Answer near = RunSpec(Problem(0, 0));
  const Answer far = RunSpec(Problem(0x1p34, 0x1p34));
  ASSERT_EQ(near.output.size(), far.output.size());
  for (size_t n = 0; n < near.output.size(); ++n) {
    EXPECT_NEAR(near.output[n], far.output[n], 2e-5) << n;
  }
}

}  // namespace
}  // namespace attnd::testing
