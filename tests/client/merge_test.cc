#include "client/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "client/request.h"

namespace attnd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::AttendResponse Part(const std::vector<float>& output,
                        const std::vector<float>& lse,
                        const std::vector<int64_t>& shape = {1, 1, 2, 1},
                        v1::DType dtype = v1::DTYPE_F32,
                        v1::Layout layout = v1::LAYOUT_BHLD) {
  v1::AttendResponse part;
  *part.mutable_output() = dtype == v1::DTYPE_F16
                               ? MakeF16Tensor(output, shape, layout).value()
                               : MakeTensor(output, shape, layout).value();
  const bool blhd = layout == v1::LAYOUT_BLHD;
  *part.mutable_lse() =
      MakeTensor(lse, {shape[0], shape[blhd ? 2 : 1], shape[blhd ? 1 : 2]})
          .value();
  return part;
}

TEST(MergePartial, WeighsByLse) {
  const auto merged = MergePartial(
      {Part({4, 1}, {0, -HUGE_VALF}), Part({8, 3}, {std::log(3.0f), 5})});
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_THAT(ToFloats(merged->output()).value(), ElementsAre(7, 3));
  EXPECT_THAT(ToFloats(merged->lse()).value(), ElementsAre(std::log(4.0f), 5));
}

TEST(MergePartial, FindsTheRowsOfEitherLayout) {
  // Two heads, three queries: value 10 h + q in each part's output.
  std::vector<float> output, lse = {0, 1, 2, 3, 4, 5};
  for (int q = 0; q < 3; ++q) {
    for (int h = 0; h < 2; ++h)
      output.push_back(static_cast<float>(10 * h + q));
  }
  std::vector<float> zero(6), other = {-90, -90, -90, 90, 90, 90};
  const auto merged = MergePartial(
      {Part(output, lse, {1, 3, 2, 1}, v1::DTYPE_F16, v1::LAYOUT_BLHD),
       Part(zero, other, {1, 3, 2, 1}, v1::DTYPE_F16, v1::LAYOUT_BLHD)});
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_EQ(merged->output().dtype(), v1::DTYPE_F16);
  EXPECT_EQ(merged->output().layout(), v1::LAYOUT_BLHD);
  // Head 1 is all the other part's.
  EXPECT_THAT(ToFloats(merged->output()).value(),
              ElementsAre(0, 0, 1, 0, 2, 0));
}

TEST(MergePartial, RefusesWhatDoesNotFit) {
  EXPECT_FALSE(MergePartial({}).ok());
  v1::AttendResponse without = Part({1, 2}, {0, 0});
  without.clear_lse();
  EXPECT_THAT(
      std::string(
          MergePartial({Part({1, 2}, {0, 0}), without}).status().message()),
      HasSubstr("parts[1]: ask for outputs OUTPUT and LSE"));
  EXPECT_THAT(
      std::string(
          MergePartial({Part({1, 2}, {0, 0}), Part({1}, {0}, {1, 1, 1, 1})})
              .status()
              .message()),
      HasSubstr("parts[1]: f32 [1,1,1,1] beside f32 [1,1,2,1] of parts[0]"));
}

}  // namespace
}  // namespace attnd::client
