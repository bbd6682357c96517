#include "kernels/tensor.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/kernels/problem_builder.h"

namespace attnd {
namespace {

absl::StatusOr<TensorRef> MakeF32(const std::vector<char>& bytes,
                                  const Shape4& shape) {
  return TensorRef::Make(absl::MakeConstSpan(bytes), DType::kF32, Layout::kBHLD,
                         shape);
}

TEST(TensorRef, ElementsAreFourOrTwoBytes) {
  EXPECT_EQ(ElementBytes(DType::kF32), 4);
  EXPECT_EQ(ElementBytes(DType::kBF16), 2);
  EXPECT_EQ(ElementBytes(DType::kF16), 2);
}

TEST(TensorRef, TakesExactlyTheBytesOfItsShape) {
  for (size_t size : {20, 23, 25, 28}) {
    EXPECT_EQ(MakeF32(std::vector<char>(size), {1, 1, 2, 3}).status().code(),
              absl::StatusCode::kInvalidArgument)
        << size;
  }
  EXPECT_TRUE(MakeF32(std::vector<char>(24), {1, 1, 2, 3}).ok());
}

TEST(TensorRef, RefusesNegativeExtents) {
  EXPECT_FALSE(MakeF32({}, {1, 1, -1, 4}).ok());
  // Two negatives make a positive product.
  EXPECT_FALSE(MakeF32(std::vector<char>(16), {1, -1, -1, 4}).ok());
  EXPECT_FALSE(MakeF32({}, {0, 1, -1, 4}).ok());
}

TEST(TensorRef, RefusesProductsThatWrap) {
  EXPECT_FALSE(MakeF32({}, {65536, 65536, 65536, 65536}).ok());
  // 2^62 elements fit, their bytes wrap to 0.
  EXPECT_FALSE(MakeF32({}, {1, 1, int64_t{1} << 31, int64_t{1} << 31}).ok());
  EXPECT_FALSE(MakeF32({}, {0, 1, INT64_MAX, INT64_MAX}).ok());
}

TEST(TensorRef, RefusalSaysWhatWasExpected) {
  const absl::Status status =
      MakeF32(std::vector<char>(20), {1, 1, 2, 3}).status();
  EXPECT_NE(status.message().find("20"), absl::string_view::npos) << status;
  EXPECT_NE(status.message().find("24"), absl::string_view::npos) << status;
}

TEST(TensorRef, EmptyShapesNeedNoBytes) {
  EXPECT_TRUE(MakeF32({}, {0, 2, 2, 2}).ok());
  EXPECT_TRUE(MakeF32({}, {2, 2, 2, 0}).ok());
  EXPECT_FALSE(MakeF32(std::vector<char>(4), {2, 2, 2, 0}).ok());
}

// Element (b, h, r, c) of the numbered tensors below.
float Number(const Shape4& s, int64_t b, int64_t h, int64_t r, int64_t c) {
  return static_cast<float>(((b * s.heads + h) * s.rows + r) * s.cols + c);
}

TEST(TensorRef, FindsEveryRowInBothLayoutsAtAnyAlignment) {
  const Shape4 s{2, 3, 4, 5};
  for (Layout layout : {Layout::kBHLD, Layout::kBLHD}) {
    for (size_t shift : {0, 1, 2, 3}) {
      std::vector<char> bytes(shift + 2 * 3 * 4 * 5 * 4);
      char* next = bytes.data() + shift;
      const bool heads_outer = layout == Layout::kBHLD;
      for (int64_t b = 0; b < s.batch; ++b) {
        for (int64_t x = 0; x < (heads_outer ? s.heads : s.rows); ++x) {
          for (int64_t y = 0; y < (heads_outer ? s.rows : s.heads); ++y) {
            for (int64_t c = 0; c < s.cols; ++c, next += 4) {
              const float value =
                  Number(s, b, heads_outer ? x : y, heads_outer ? y : x, c);
              std::memcpy(next, &value, 4);
            }
          }
        }
      }
      const auto tensor = TensorRef::Make(
          absl::MakeConstSpan(bytes).subspan(shift), DType::kF32, layout, s);
      ASSERT_TRUE(tensor.ok()) << tensor.status();
      EXPECT_EQ(tensor->row_stride_bytes(), heads_outer ? 20 : 60);
      for (int64_t b = 0; b < s.batch; ++b) {
        for (int64_t h = 0; h < s.heads; ++h) {
          for (int64_t r = 0; r < s.rows; ++r) {
            float row[5];
            tensor->LoadRow(b, h, r, row);
            EXPECT_EQ(tensor->Row(b, h, r) - tensor->Row(b, h, 0),
                      r * tensor->row_stride_bytes());
            for (int64_t c = 0; c < s.cols; ++c) {
              EXPECT_EQ(row[c], Number(s, b, h, r, c)) << b << h << r << c;
            }
          }
        }
      }
    }
  }
}

// All 65536 patterns as one row.
std::vector<float> AllHalves(DType dtype) {
  std::vector<uint16_t> patterns(65536);
  for (size_t i = 0; i < patterns.size(); ++i) patterns[i] = i;
  const auto tensor = TensorRef::Make(
      absl::MakeConstSpan(reinterpret_cast<const char*>(patterns.data()),
                          2 * patterns.size()),
      dtype, Layout::kBHLD, {1, 1, 1, 65536});
  std::vector<float> row(65536);
  tensor->LoadRow(0, 0, 0, row.data());
  return row;
}

TEST(TensorRef, ReadsEveryFloat16Pattern) {
  const std::vector<float> row = AllHalves(DType::kF16);
  for (int bits = 0; bits < 65536; ++bits) {
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    const double sign = bits & 0x8000 ? -1 : 1;
    if (exponent == 31) {
      EXPECT_TRUE(mantissa ? std::isnan(row[bits])
                           : row[bits] == sign * INFINITY)
          << bits;
      continue;
    }
    const double expected =
        sign * (exponent == 0 ? std::ldexp(mantissa, -24)
                              : std::ldexp(1024 + mantissa, exponent - 25));
    EXPECT_EQ(row[bits], expected) << bits;
    EXPECT_EQ(std::signbit(row[bits]), sign < 0) << bits;
  }
}

TEST(TensorRef, ReadsEveryBFloat16Pattern) {
  const std::vector<float> row = AllHalves(DType::kBF16);
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    EXPECT_EQ(std::bit_cast<uint32_t>(row[bits]), bits << 16) << bits;
  }
}

TEST(ProblemBuilder, RoundsToTheNearest16BitNumber) {
  EXPECT_EQ(testing::ToFloat16(1.0f), 0x3C00);
  EXPECT_EQ(testing::ToFloat16(-2.0f), 0xC000);
  EXPECT_EQ(testing::ToFloat16(65504.0f), 0x7BFF);
  EXPECT_EQ(testing::ToFloat16(1e6f), 0x7C00);
  EXPECT_EQ(testing::ToFloat16(0x1p-24f), 0x0001);
  EXPECT_EQ(testing::ToFloat16(2049.0f), testing::ToFloat16(2048.0f));
  EXPECT_EQ(testing::ToFloat16(2047.5f), testing::ToFloat16(2048.0f));
  EXPECT_EQ(testing::ToBFloat16(1.0f), 0x3F80);
  EXPECT_EQ(testing::ToBFloat16(257.0f), testing::ToBFloat16(256.0f));
}

TEST(AlignedBuffer, IsAlignedAndGrows) {
  AlignedBuffer buffer;
  EXPECT_EQ(buffer.capacity(), 0);
  float* first = buffer.Reserve(3);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
  first[2] = 1;
  EXPECT_EQ(buffer.Reserve(2), first);
  EXPECT_GE(buffer.capacity(), 3);
  float* larger = buffer.Reserve(1000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(larger) % 64, 0u);
  EXPECT_GE(buffer.capacity(), 1000);
  larger[999] = 1;
  EXPECT_EQ(buffer.data(), larger);
}

}  // namespace
}  // namespace attnd
