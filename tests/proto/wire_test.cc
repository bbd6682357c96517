#include "proto/wire.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace attnd::wire {
namespace {

constexpr int64_t kMax = INT64_MAX;
constexpr int64_t kMin = INT64_MIN;

TEST(Wire, ElementsHaveFourOrTwoBytesAndUnknownOnesNone) {
  EXPECT_EQ(ElementBytes(v1::DTYPE_F32), 4);
  EXPECT_EQ(ElementBytes(v1::DTYPE_BF16), 2);
  EXPECT_EQ(ElementBytes(v1::DTYPE_F16), 2);
  EXPECT_EQ(ElementBytes(v1::DTYPE_UNSPECIFIED), 0);
  EXPECT_EQ(ElementBytes(static_cast<v1::DType>(99)), 0);
  EXPECT_EQ(ElementBytes(static_cast<v1::DType>(-1)), 0);
}

TEST(Wire, ProductsAreExactOrRefused) {
  EXPECT_EQ(CheckedMultiply(0, kMax), 0);
  EXPECT_EQ(CheckedMultiply(1, kMax), kMax);
  EXPECT_EQ(CheckedMultiply(int64_t{1} << 31, int64_t{1} << 31),
            int64_t{1} << 62);
  EXPECT_EQ(CheckedMultiply(int64_t{1} << 32, int64_t{1} << 31), std::nullopt);
  EXPECT_EQ(CheckedMultiply(2, kMax), std::nullopt);
  EXPECT_EQ(CheckedMultiply(kMax, kMax), std::nullopt);
}

TEST(Wire, SumsAreExactOrRefused) {
  EXPECT_EQ(CheckedAdd(kMax - 1, 1), kMax);
  EXPECT_EQ(CheckedAdd(kMax, 1), std::nullopt);
  EXPECT_EQ(CheckedAdd(kMax, kMax), std::nullopt);
}

TEST(Wire, NegativeOperandsAreRefused) {
  for (int64_t negative : {int64_t{-1}, kMin}) {
    for (int64_t other : {int64_t{0}, int64_t{5}, int64_t{-1}, kMin}) {
      EXPECT_EQ(CheckedMultiply(negative, other), std::nullopt);
      EXPECT_EQ(CheckedMultiply(other, negative), std::nullopt);
      EXPECT_EQ(CheckedAdd(negative, other), std::nullopt);
      EXPECT_EQ(CheckedAdd(other, negative), std::nullopt);
    }
  }
}

TEST(Wire, ElementCountIsTheProduct) {
  EXPECT_EQ(ElementCount({}), 1);
  EXPECT_EQ(ElementCount({7}), 7);
  EXPECT_EQ(ElementCount({1, 2, 16, 64}), 2048);
  EXPECT_EQ(ElementCount({2, 0, 3}), 0);
}

TEST(Wire, ProductsThatWrapToZeroAreRefused) {
  EXPECT_EQ(ElementCount({65536, 65536, 65536, 65536}), std::nullopt);
  EXPECT_EQ(TensorBytes(v1::DTYPE_F32, {65536, 65536, 65536, 65536}),
            std::nullopt);
}

TEST(Wire, AZeroDoesNotExcuseHugeExtents) {
  const int64_t huge = int64_t{1} << 40;
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{huge, huge, 0},
        std::vector<int64_t>{0, huge, huge},
        std::vector<int64_t>{huge, 0, huge}}) {
    EXPECT_EQ(ElementCount(shape), std::nullopt);
    EXPECT_EQ(TensorBytes(v1::DTYPE_F32, shape), std::nullopt);
  }
  EXPECT_EQ(ElementCount({huge, 0}), 0);
}

TEST(Wire, NegativeExtentsAreRefused) {
  EXPECT_EQ(ElementCount({1, 1, -1, 4}), std::nullopt);
  EXPECT_EQ(ElementCount({-1, -1}), std::nullopt);
  EXPECT_EQ(ElementCount({0, -1}), std::nullopt);
  EXPECT_EQ(ElementCount({kMin, kMin}), std::nullopt);
}

TEST(Wire, TensorBytesCountsTheElementSize) {
  EXPECT_EQ(TensorBytes(v1::DTYPE_F32, {1, 1, 2, 3}), 24);
  EXPECT_EQ(TensorBytes(v1::DTYPE_BF16, {1, 1, 2, 3}), 12);
  EXPECT_EQ(TensorBytes(v1::DTYPE_F16, {0, 5}), 0);
}

TEST(Wire, BytesThatOverflowAreRefused) {
  const int64_t half = int64_t{1} << 61;
  EXPECT_EQ(ElementCount({half}), half);
  EXPECT_EQ(TensorBytes(v1::DTYPE_F16, {half}), int64_t{1} << 62);
  EXPECT_EQ(TensorBytes(v1::DTYPE_F32, {half}), std::nullopt);
}

TEST(Wire, UnknownDTypesHaveNoSize) {
  EXPECT_EQ(TensorBytes(v1::DTYPE_UNSPECIFIED, {1}), std::nullopt);
  EXPECT_EQ(TensorBytes(static_cast<v1::DType>(99), {1}), std::nullopt);
  EXPECT_EQ(TensorBytes(v1::DTYPE_UNSPECIFIED, {0}), std::nullopt);
}

TEST(Wire, TextsAreForMessages) {
  EXPECT_EQ(ShapeText({1, 2, 16, 64}), "[1,2,16,64]");
  EXPECT_EQ(ShapeText({}), "[]");
  EXPECT_EQ(DTypeText(v1::DTYPE_F32), "f32");
  EXPECT_EQ(DTypeText(v1::DTYPE_BF16), "bf16");
  EXPECT_EQ(DTypeText(v1::DTYPE_F16), "f16");
  EXPECT_EQ(DTypeText(static_cast<v1::DType>(99)), "dtype 99");
}

TEST(Wire, DefaultMessageLimitIs128MiB) {
  EXPECT_EQ(kDefaultMessageBytes, 134'217'728);
}

}  // namespace
}  // namespace attnd::wire
