#include "client/interpolate/wanted_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace attnd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RegularGrid, ReachesTheLastWhenItFits) {
  EXPECT_THAT(RegularGrid(0, 10, 5).value(), ElementsAre(0, 5, 10));
  EXPECT_THAT(RegularGrid(-3, 10, 5).value(), ElementsAre(-3, 2, 7));
  EXPECT_THAT(RegularGrid(4, 4, 5).value(), ElementsAre(4));
}

TEST(RegularGrid, IsBounded) {
  EXPECT_FALSE(RegularGrid(0, 10, 0).ok());
  EXPECT_FALSE(RegularGrid(0, 10, -1).ok());
  EXPECT_THAT(std::string(RegularGrid(std::numeric_limits<int64_t>::min(),
                                      std::numeric_limits<int64_t>::max(), 1)
                              .status()
                              .message()),
              HasSubstr("longer step"));
  EXPECT_EQ(RegularGrid(std::numeric_limits<int64_t>::min(),
                        std::numeric_limits<int64_t>::max(),
                        std::numeric_limits<int64_t>::max())
                ->size(),
            3u);
}

TEST(ParseTimeList, OneALine) {
  EXPECT_THAT(
      ParseTimeList("# wanted\n1970-01-01\n\n1970-01-01T00:00:01\r\n").value(),
      ElementsAre(0, 1'000'000'000));
  EXPECT_THAT(std::string(ParseTimeList("1970-01-01\nx\n").status().message()),
              HasSubstr("line 2: time 'x'"));
}

}  // namespace
}  // namespace attnd::client
