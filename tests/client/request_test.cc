#include "client/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "client/float16.h"

namespace attnd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(MakeTensor, HoldsShapeAndBytes) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const auto tensor = MakeTensor(values, {1, 3, 2, 1}, v1::LAYOUT_BLHD);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->dtype(), v1::DTYPE_F32);
  EXPECT_EQ(tensor->layout(), v1::LAYOUT_BLHD);
  EXPECT_THAT(tensor->shape(), ElementsAre(1, 3, 2, 1));
  EXPECT_EQ(ToFloats(*tensor).value(), values);
}

TEST(MakeTensor, RoundsDoublesOnce) {
  const std::vector<double> values = {0.1, 1e300};
  const auto tensor = MakeTensor(values, {2});
  ASSERT_TRUE(tensor.ok());
  EXPECT_THAT(ToFloats(*tensor).value(), ElementsAre(0.1f, HUGE_VALF));
}

TEST(MakeTensor, SaysWhichCountTheShapeWants) {
  const std::vector<float> values(5);
  const auto tensor = MakeTensor(values, {1, 2, 3});
  EXPECT_THAT(std::string(tensor.status().message()),
              HasSubstr("5 values, expected 6 for shape [1,2,3]"));
}

TEST(MakeTensor, RefusesShapesThatLie) {
  const std::vector<float> none;
  const int64_t big = int64_t{1} << 40;
  EXPECT_FALSE(MakeTensor(none, {-1, 0}).ok());
  EXPECT_FALSE(MakeTensor(none, {big, big, 0}).ok());
  EXPECT_TRUE(MakeTensor(none, {1, 1, 0, 8}).ok());
}

TEST(MakeBf16Tensor, RoundsToNearestEven) {
  // 1 + 2^-8 lies between 1 and 1 + 2^-7: ties go to the even 1.
  const std::vector<float> values = {1 + 0x1p-8f, 1 + 3 * 0x1p-8f, -2.5f};
  const auto tensor = MakeBf16Tensor(values, {3});
  ASSERT_TRUE(tensor.ok());
  EXPECT_THAT(ToFloats(*tensor).value(), ElementsAre(1.0f, 1 + 0x1p-6f, -2.5f));
}

TEST(Float16, EveryF16SurvivesTheWayThere) {
  for (int bits = 0; bits < 1 << 16; ++bits) {
    const float value = FloatFromF16(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(FloatFromF16(F16FromFloat(value))));
    } else {
      EXPECT_EQ(F16FromFloat(value), bits);
    }
  }
}

// Halfway between neighbours: to the even one.
TEST(Float16, F16RoundsToNearestEven) {
  for (int bits = 0; bits < 0x7bff; ++bits) {
    const float low = FloatFromF16(static_cast<uint16_t>(bits));
    const float high = FloatFromF16(static_cast<uint16_t>(bits + 1));
    const float middle = (low + high) / 2;
    EXPECT_EQ(F16FromFloat(middle), bits + bits % 2);
    EXPECT_EQ(F16FromFloat(std::nextafter(middle, high)), bits + 1);
    EXPECT_EQ(F16FromFloat(-std::nextafter(middle, low)), 0x8000 | bits);
  }
  EXPECT_EQ(F16FromFloat(65519.0f), 0x7bff);
  EXPECT_EQ(F16FromFloat(65520.0f), 0x7c00);
}

TEST(Float16, EveryBf16SurvivesTheWayThere) {
  for (int bits = 0; bits < 1 << 16; ++bits) {
    const float value = FloatFromBf16(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(FloatFromBf16(Bf16FromFloat(value))));
    } else {
      EXPECT_EQ(Bf16FromFloat(value), bits);
    }
  }
}

TEST(Float16, KnownF16Values) {
  EXPECT_EQ(FloatFromF16(0x3c00), 1.0f);
  EXPECT_EQ(FloatFromF16(0xc000), -2.0f);
  EXPECT_EQ(FloatFromF16(0x7bff), 65504.0f);
  EXPECT_EQ(FloatFromF16(0x0001), 0x1p-24f);
  EXPECT_EQ(FloatFromF16(0x7c00), HUGE_VALF);
  EXPECT_TRUE(std::isnan(FloatFromF16(0x7e00)));
  EXPECT_TRUE(std::signbit(FloatFromF16(0x8000)));
}

TEST(MakeTimeAxis, KeepsTicksExactly) {
  const std::vector<int64_t> ticks = {1'700'000'000'000'000'001,
                                      std::numeric_limits<int64_t>::min()};
  const auto axis = MakeTimeAxis(ticks, v1::TICK_UNIT_NANOSECONDS);
  ASSERT_TRUE(axis.ok()) << axis.status();
  EXPECT_EQ(axis->type(), v1::TIME_TYPE_INT64_TICKS);
  EXPECT_THAT(axis->shape(), ElementsAre(2));
  EXPECT_THAT(axis->units(), ElementsAre(v1::TICK_UNIT_NANOSECONDS));
  ASSERT_EQ(axis->data().size(), 16u);
  EXPECT_EQ(std::memcmp(axis->data().data(), ticks.data(), 16), 0);
}

TEST(MakeTimeAxis, UnitHasNoDefault) {
  const std::vector<int64_t> ticks = {1};
  EXPECT_FALSE(MakeTimeAxis(ticks, v1::TICK_UNIT_UNSPECIFIED).ok());
}

TEST(MakeTimeAxis, SecondsAreTheDefaultOfDoubles) {
  const std::vector<double> times = {0.5, 1.5, 2.5, 3.5};
  const auto axis = MakeTimeAxis(times, v1::TICK_UNIT_SECONDS, {2, 2});
  ASSERT_TRUE(axis.ok());
  EXPECT_EQ(axis->type(), v1::TIME_TYPE_F64);
  EXPECT_THAT(axis->shape(), ElementsAre(2, 2));
  EXPECT_FALSE(MakeTimeAxis(times, v1::TICK_UNIT_NANOSECONDS).ok());
  EXPECT_FALSE(MakeTimeAxis(times, v1::TICK_UNIT_SECONDS, {3}).ok());
}

TEST(ToFloats, RefusesBytesThatDoNotFit) {
  v1::Tensor tensor;
  tensor.set_dtype(v1::DTYPE_F32);
  tensor.add_shape(2);
  tensor.set_data("1234567");
  EXPECT_THAT(std::string(ToFloats(tensor).status().message()),
              HasSubstr("7 bytes, expected 8 (f32 [2])"));
  tensor.set_dtype(static_cast<v1::DType>(99));
  EXPECT_FALSE(ToFloats(tensor).ok());
}

}  // namespace
}  // namespace attnd::client
