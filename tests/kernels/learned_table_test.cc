// Learned tables: which times they cover, and what lies between their rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "kernels/absolute.h"
#include "tests/kernels/absolute_parts.h"

namespace attnd {
namespace {

using ::testing::AllOf;
using testing::At;
using testing::Compile;
using ::testing::HasSubstr;
using testing::Row;
using testing::Table;
using testing::Vector;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

using Boundary = LearnedTablePart::Boundary;
using Interpolation = LearnedTablePart::Interpolation;

AbsoluteTime Position(int64_t position, int64_t row) {
  return {.ticks = position, .position = true, .index = row};
}

// One bad position among 4096 good ones.
TEST(LearnedTable, PositionsOutsideAreRefusedByName) {
  const auto absolute =
      Compile(Table(Boundary::kError, Interpolation::kExact), 2, {});
  std::vector<AbsoluteTime> times;
  for (int64_t i = 0; i < 4097; ++i) times.push_back(Position(i % 8, i));
  EXPECT_TRUE(absolute->Check(true, times, "query_time").ok());
  for (int64_t bad : {int64_t{8}, int64_t{-1}, int64_t{2147483648},
                      std::numeric_limits<int64_t>::max(),
                      std::numeric_limits<int64_t>::min()}) {
    times[1234] = Position(bad, 1234);
    const absl::Status status = absolute->Check(true, times, "query_time");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("query_time: position " + std::to_string(bad) +
                                " of row 1234"),
                      HasSubstr("from 0 to 7"), HasSubstr("8 rows"),
                      HasSubstr("1 such row")));
  }
  for (double bad : {7.5, 0.5, -1e300, 1e300, 2147483648.0, kNaN,
                     std::numeric_limits<double>::infinity()}) {
    const AbsoluteTime time{.exact = false, .real = bad, .index = 3};
    EXPECT_EQ(absolute->Check(false, {time, time}, "key_time").code(),
              absl::StatusCode::kInvalidArgument)
        << bad;
    EXPECT_THAT(
        std::string(absolute->Check(false, {time, time}, "key_time").message()),
        HasSubstr("2 such rows"));
  }
}

TEST(LearnedTable, OnlyTheSideItIsAddedToIsChecked) {
  AbsolutePart part = Table(Boundary::kError, Interpolation::kExact);
  part.on_key = false;
  const auto absolute = Compile(part, 2, {});
  EXPECT_FALSE(absolute->Check(true, {Position(9, 0)}, "query_time").ok());
  EXPECT_TRUE(absolute->Check(false, {Position(9, 0)}, "key_time").ok());
}

TEST(LearnedTable, ClampAndWrapTakeEveryTime) {
  for (Interpolation interpolation :
       {Interpolation::kNearest, Interpolation::kLinear,
        Interpolation::kCubic}) {
    const auto clamp = Compile(Table(Boundary::kClamp, interpolation), 2, {});
    const auto wrap = Compile(Table(Boundary::kWrap, interpolation), 2, {});
    const int64_t least = std::numeric_limits<int64_t>::min();
    const int64_t most = std::numeric_limits<int64_t>::max();
    for (int64_t t : {least, most, int64_t{-1}, int64_t{8}}) {
      EXPECT_TRUE(clamp->Check(true, {At(t)}, "t").ok());
      EXPECT_EQ(Row(*clamp, 2, At(t))[0], t < 0 ? 0 : 7);
    }
    EXPECT_EQ(Row(*wrap, 2, At(-1))[0], 7);
    EXPECT_EQ(Row(*wrap, 2, At(8))[0], 0);
    for (const int64_t t : {int64_t{1} << 61, int64_t{1} << 62, most, least}) {
      for (const int64_t beside : {0, 1, 3, 5}) {
        const int64_t at = t < 0 ? t + beside : t - beside;
        const auto row = static_cast<float>(static_cast<uint64_t>(at) % 8);
        EXPECT_EQ(Row(*wrap, 2, At(at))[0], row) << at;
      }
    }
    const AbsoluteTime far{.exact = false, .real = 1e300};
    EXPECT_EQ(Row(*clamp, 2, far)[0], 7);
  }
}

TEST(LearnedTable, InterpolationIsExactAtRowsAndContinuous) {
  constexpr int64_t kStep = 1000000;  // ticks per row
  const TickRatio ratio{.tick_ns = 1, .unit_ns = kStep};
  for (Boundary boundary :
       {Boundary::kError, Boundary::kClamp, Boundary::kWrap}) {
    for (Interpolation interpolation :
         {Interpolation::kLinear, Interpolation::kCubic}) {
      const auto absolute = Compile(Table(boundary, interpolation), 2, ratio);
      for (int64_t r = 0; r < 8; ++r) {
        const auto row = [&](int64_t ticks) {
          return Row(*absolute, 2, At(ticks));
        };
        EXPECT_EQ(row(r * kStep)[0], static_cast<float>(r));
        EXPECT_EQ(row(r * kStep)[1], static_cast<float>(r * r % 5));
        for (int64_t near : {r * kStep - 1, r * kStep + 1}) {
          if (boundary == Boundary::kError && (near < 0 || near > 7 * kStep)) {
            continue;
          }
          EXPECT_NEAR(row(near)[1], row(r * kStep)[1], 2e-5);
        }
      }
    }
  }
}

TEST(LearnedTable, CubicHasAContinuousSlope) {
  constexpr int64_t kStep = 1000000;
  const auto absolute = Compile(Table(Boundary::kClamp, Interpolation::kCubic),
                                2, {.tick_ns = 1, .unit_ns = kStep});
  for (int64_t r = 1; r < 7; ++r) {
    const auto at = [&](int64_t ticks) {
      return Vector(*absolute, 2, At(r * kStep + ticks))[1];
    };
    EXPECT_NEAR((at(0) - at(-1000)) / 1e-3, (at(1000) - at(0)) / 1e-3, 2e-2);
  }
}

TEST(LearnedTable, RowsOfOddLengthsAreFoundExactly) {
  // A third of a second: not a whole number of ticks.
  AbsolutePart part = Table(Boundary::kError, Interpolation::kNearest);
  std::get<LearnedTablePart>(part.kind).step = 1.0 / 3;
  const auto absolute = Compile(part, 2);
  EXPECT_EQ(Row(*absolute, 2, At(166666666))[0], 0);
  EXPECT_EQ(Row(*absolute, 2, At(166666667))[0], 1);
  EXPECT_EQ(Row(*absolute, 2, At(2333333333))[0], 7);
  EXPECT_TRUE(absolute->Check(true, {At(2499999999)}, "t").ok());
  EXPECT_FALSE(absolute->Check(true, {At(2500000001)}, "t").ok());
}

}  // namespace
}  // namespace attnd
