#include "client/load/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "client/request.h"

namespace attnd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int64_t> Times(const v1::TimeAxis& axis) {
  std::vector<int64_t> times(axis.data().size() / 8);
  std::memcpy(times.data(), axis.data().data(), axis.data().size());
  return times;
}

TEST(MakeRequests, HaveTheShapesAskedFor) {
  const auto requests = MakeRequests({.batch = 2,
                                      .heads = 4,
                                      .kv_heads = 2,
                                      .queries = 3,
                                      .keys = 5,
                                      .dim = 8,
                                      .value_dim = 6,
                                      .encoding = "rope",
                                      .causal = v1::CAUSALITY_TIME,
                                      .distinct = 3});
  ASSERT_TRUE(requests.ok()) << requests.status();
  ASSERT_EQ(requests->size(), 3u);
  const v1::AttendRequest& request = (*requests)[0];
  EXPECT_THAT(request.query().shape(), ElementsAre(2, 4, 3, 8));
  EXPECT_THAT(request.key().shape(), ElementsAre(2, 2, 5, 8));
  EXPECT_THAT(request.value().shape(), ElementsAre(2, 2, 5, 6));
  EXPECT_EQ(request.encoding(), "rope");
  EXPECT_EQ(request.mask().causal(), v1::CAUSALITY_TIME);
  EXPECT_THAT(request.outputs(), ElementsAre(v1::OUTPUT_OUTPUT));
  EXPECT_NE(request.query().data(), (*requests)[1].query().data());
}

TEST(MakeRequests, ASeedMeansTheSameBytes) {
  const auto bytes = [](uint64_t seed) {
    return MakeRequests({.queries = 16, .keys = 16, .seed = seed})
        .value()[0]
        .SerializeAsString();
  };
  EXPECT_EQ(bytes(1), bytes(1));
  EXPECT_NE(bytes(1), bytes(2));
}

TEST(MakeRequests, TimesAreIrregularAndEndTogether) {
  const auto requests = MakeRequests(
      {.queries = 2000, .keys = 3000, .dim = 1, .value_dim = 1, .distinct = 1});
  const std::vector<int64_t> query = Times((*requests)[0].query_time());
  const std::vector<int64_t> key = Times((*requests)[0].key_time());
  EXPECT_EQ(query.back(), key.back());
  EXPECT_EQ(query.front(), key[1000]);
  double sum = 0, square = 0;
  for (size_t i = 1; i < key.size(); ++i) {
    const double gap = static_cast<double>(key[i] - key[i - 1]) / 1e9;
    EXPECT_GE(gap, 0);
    sum += gap;
    square += gap * gap;
  }
  // Exponential gaps: mean 1, mean square 2.
  EXPECT_NEAR(sum / 2999, 1, 0.06);
  EXPECT_NEAR(square / 2999, 2, 0.3);
}

TEST(MakeRequests, GridsAreRegularAndNoneHasNoTimes) {
  const auto grid = MakeRequests(
      {.queries = 3, .keys = 3, .times = TimeKind::kGrid, .mean_gap_ns = 7});
  const std::vector<int64_t> times = Times((*grid)[0].key_time());
  EXPECT_EQ(times[1] - times[0], 7);
  EXPECT_EQ(times[2] - times[1], 7);
  EXPECT_FALSE((*MakeRequests({.times = TimeKind::kNone}))[0].has_query_time());
}

TEST(MakeRequests, SendEveryTypeMaskAndPriority) {
  const auto requests = MakeRequests({.batch = 3,
                                      .queries = 8,
                                      .keys = 16,
                                      .dtype = v1::DTYPE_F16,
                                      .compute = v1::COMPUTE_PRECISION_BF16,
                                      .causal = v1::CAUSALITY_TIME,
                                      .strict = true,
                                      .past_ns = 7'000'000'000,
                                      .past_keys = 5,
                                      .ragged = 0.5,
                                      .priority = -3,
                                      .distinct = 1});
  ASSERT_TRUE(requests.ok()) << requests.status();
  const v1::AttendRequest& request = (*requests)[0];
  EXPECT_EQ(request.query().dtype(), v1::DTYPE_F16);
  EXPECT_EQ(request.compute(), v1::COMPUTE_PRECISION_BF16);
  EXPECT_EQ(request.query().data().size(), 3u * 8 * 8 * 64 * 2);
  EXPECT_TRUE(request.mask().strict());
  EXPECT_EQ(request.mask().past_ticks(), 7'000'000'000);
  EXPECT_FALSE(request.mask().has_future_ticks());
  EXPECT_EQ(request.mask().past_keys(), 5);
  EXPECT_THAT(request.mask().key_lengths(), ElementsAre(8, 12, 16));
  EXPECT_THAT(request.mask().query_lengths(), ElementsAre(4, 6, 8));
  EXPECT_EQ(request.priority(), -3);
}

TEST(MakeSeriesRequests, CutWindowsOutOfTheSeries) {
  Series series;
  for (int i = 0; i < 100; ++i) {
    series.time_ns.push_back(i * i);
    series.value.push_back(i % 10 == 3 ? NAN : i);
  }
  const Work work = {
      .queries = 2, .keys = 10, .dim = 4, .value_dim = 3, .distinct = 9};
  const auto requests = MakeSeriesRequests(work, series);
  ASSERT_TRUE(requests.ok()) << requests.status();
  ASSERT_EQ(requests->size(), 9u);
  // 90 observations: the windows begin at 0, 10, 20, ... of them.
  const v1::AttendRequest& second = (*requests)[1];
  EXPECT_THAT(Times(second.key_time()),
              ElementsAre(11 * 11, 12 * 12, 14 * 14, 15 * 15, 16 * 16, 17 * 17,
                          18 * 18, 19 * 19, 20 * 20, 21 * 21));
  EXPECT_THAT(Times(second.query_time()), ElementsAre(20 * 20, 21 * 21));
  const std::vector<float> values = *ToFloats(second.value());
  const float mean = (11 + 12 + 14 + 15 + 16 + 17 + 18 + 19 + 20 + 21) / 10.0f;
  EXPECT_FLOAT_EQ(values[0], 11 - mean);
  EXPECT_FLOAT_EQ(values[2], 11 - mean);
  EXPECT_FLOAT_EQ(values[3], 12 - mean);
  EXPECT_EQ(Times((*requests)[8].key_time()).back(), 99 * 99);
  EXPECT_FALSE(MakeSeriesRequests({.queries = 2, .keys = 91}, series).ok());
}

TEST(CheckWork, NamesTheOption) {
  const auto refusal = [](const Work& work) {
    return std::string(CheckWork(work).message());
  };
  EXPECT_EQ(refusal({}), "");
  EXPECT_THAT(refusal({.heads = 3, .kv_heads = 2}), HasSubstr("--kv-heads 2"));
  EXPECT_THAT(refusal({.dim = 0}), HasSubstr("--dim 0"));
  EXPECT_THAT(refusal({.queries = 1 << 20,
                       .keys = 1 << 20,
                       .mean_gap_ns = int64_t{1} << 60}),
              HasSubstr("--gap"));
  EXPECT_THAT(refusal({.past_ns = 1, .times = TimeKind::kNone}),
              HasSubstr("--past"));
  EXPECT_THAT(refusal({.ragged = 1}), HasSubstr("--ragged"));
  EXPECT_THAT(refusal({.priority = 11}), HasSubstr("--priority 11"));
  EXPECT_THAT(refusal({.batch = 1 << 20, .queries = 1 << 20}),
              HasSubstr("2 GiB"));
}

TEST(WorkText, IsShort) {
  EXPECT_EQ(WorkText({.encoding = "rope", .causal = v1::CAUSALITY_TIME}),
            "B1 H8 Lq128 Lk128 D64 f32 rope causal");
  EXPECT_EQ(WorkText({.heads = 8,
                      .kv_heads = 2,
                      .value_dim = 32,
                      .dtype = v1::DTYPE_BF16}),
            "B1 H8/2 Lq128 Lk128 D64 Dv32 bf16");
}

}  // namespace
}  // namespace attnd::client
