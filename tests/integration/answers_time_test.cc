// What times do to scores, over the wire: angles, slopes, decays, epochs.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/integration/answers_test.h"
#include "tests/server/requests.h"

namespace attnd::testing {
namespace {

TEST_F(AnswersTest, RotationsDependOnTimeDifferencesAlone) {
  const auto pair = [](int channel) {
    std::vector<float> row(16, 0);
    row[channel] = 1;
    return row;
  };
  for (const int64_t base :
       {int64_t{0}, int64_t{5001}, int64_t{1700000000}, int64_t{1} << 60}) {
    for (const char* name : {"rope", "rope_interleaved"}) {
      const int second = std::string(name) == "rope" ? 1 : 2;
      v1::AttendRequest request = One({pair(second)}, {pair(second)}, {{1}});
      request.set_encoding(name);
      SetTimes({base + 1}, {base}, v1::TICK_UNIT_SECONDS, request);
      EXPECT_NEAR(Ask(request).scores[0], 0.950415, 1e-5) << base;
      request = One({pair(0)}, {pair(0)}, {{1}});
      request.set_encoding(name);
      SetTimes({base + 1}, {base}, v1::TICK_UNIT_SECONDS, request);
      EXPECT_NEAR(Ask(request).scores[0], 0.540302, 1e-5) << base;
    }
  }
}

TEST_F(AnswersTest, RotationsTurnThePublishedWay) {
  v1::AttendRequest request = One({{1, 0}}, {{0, 1}}, {{1}});
  request.set_encoding("turn");
  SetTimes({1}, {0}, v1::TICK_UNIT_SECONDS, request);
  EXPECT_NEAR(Ask(request).scores[0], 0.841471, 1e-6);
}

TEST_F(AnswersTest, PublishedSlopesForAnyNumberOfHeads) {
  const auto ask = [&](int64_t heads) {
    v1::AttendRequest request = MakeRequest({.query_heads = heads,
                                             .kv_heads = heads,
                                             .queries = 1,
                                             .keys = 2,
                                             .dim = 2,
                                             .value_dim = 1});
    request.mutable_query()->set_data(std::string(8 * heads, '\0'));
    std::vector<float> values;
    for (int64_t h = 0; h < heads; ++h) values.insert(values.end(), {0, 1});
    request.mutable_value()->set_data(ToBytes(values));
    request.set_encoding("alibi");
    SetTimes({4}, {0, 4}, v1::TICK_UNIT_SECONDS, request);
    return Ask(request);
  };
  const Answer seven = ask(7);
  const double slopes[] = {0.25, 0.0625, 0.015625, 0.00390625,
                           0.5,  0.125,  0.03125};
  for (int h = 0; h < 7; ++h) {
    EXPECT_NEAR(seven.scores[2 * h], -4 * slopes[h], 1e-6);
  }
  EXPECT_NEAR(seven.output[0], 0.731059, 1e-6);
  EXPECT_NEAR(seven.output[4], 0.880797, 1e-6);
  EXPECT_NEAR(ask(1).scores[0], -4 * std::exp2(-8), 1e-6);
  const Answer twelve = ask(12);
  EXPECT_NEAR(twelve.scores[2 * 7], -4 * std::exp2(-8), 1e-6);
  EXPECT_NEAR(twelve.scores[2 * 8], -4 * std::exp2(-0.5), 1e-6);
  EXPECT_NEAR(twelve.scores[2 * 11], -4 * std::exp2(-3.5), 1e-6);
}

TEST_F(AnswersTest, DecayIsOfDifferencesHoweverFarOrLong) {
  for (const int64_t base : {int64_t{0}, int64_t{1700000000}}) {
    v1::AttendRequest request = OnlyBiases(1, {0, 1});
    request.set_encoding("decay");
    SetTimes({base + 1}, {base, base + 1}, v1::TICK_UNIT_SECONDS, request);
    const Answer answer = Ask(request);
    EXPECT_ALL_NEAR(answer.scores, (std::vector<float>{-1, 0}), 1e-6);
    EXPECT_NEAR(answer.output[0], 0.731059, 1e-6);
    EXPECT_NEAR(answer.lse[0], 0.313262, 1e-6);
  }
  v1::AttendRequest request = OnlyBiases(1, {0, 1});
  request.set_encoding("decay");
  SetTimes({1000001}, {1, 0}, v1::TICK_UNIT_SECONDS, request);
  const Answer answer = Ask(request);
  EXPECT_ALL_NEAR(answer.weights, (std::vector<float>{0.731059f, 0.268941f}),
                  1e-5);
  EXPECT_NEAR(answer.lse[0], -999999.687, 0.1);
}

TEST_F(AnswersTest, EpochTimesLoseNothing) {
  const struct {
    const char* encoding;
    int64_t gap, base;
    v1::TickUnit unit;
  } cases[] = {
      {"decay_minute", 60, 0, v1::TICK_UNIT_SECONDS},
      {"decay_minute", 60, 1700000000, v1::TICK_UNIT_SECONDS},
      {"decay_minute", 60000000000, 1700000000000000000,
       v1::TICK_UNIT_NANOSECONDS},
      {"decay_minute", 60000, 1700000000000, v1::TICK_UNIT_MILLISECONDS},
      {"decay_100ns", 100, 1700000000000000000, v1::TICK_UNIT_NANOSECONDS},
      {"decay_100ns", 100, INT64_MIN, v1::TICK_UNIT_NANOSECONDS},
      {"decay_100ns", 100, INT64_MAX - 100, v1::TICK_UNIT_NANOSECONDS},
  };
  for (const auto& c : cases) {
    v1::AttendRequest request = OnlyBiases(1, {0, 1});
    request.set_encoding(c.encoding);
    SetTimes({c.base + c.gap}, {c.base, c.base + c.gap}, c.unit, request);
    const Answer answer = Ask(request);
    EXPECT_ALL_NEAR(answer.scores, (std::vector<float>{-1, 0}), 1e-6);
    EXPECT_NEAR(answer.output[0], 0.731059, 1e-6);
  }
  // Real seconds.
  for (const double base : {0.0, 1.7e9}) {
    v1::AttendRequest request = OnlyBiases(1, {0, 1});
    request.set_encoding("decay_minute");
    SetReal({base + 60}, *request.mutable_query_time());
    SetReal({base, base + 60}, *request.mutable_key_time());
    EXPECT_NEAR(Ask(request).output[0], 0.731059, 1e-6);
  }
}

TEST_F(AnswersTest, ACommonShiftChangesNoBit) {
  const int64_t rows = 150;
  v1::AttendRequest request = MakeRequest({.query_heads = 4,
                                           .kv_heads = 2,
                                           .queries = rows,
                                           .keys = rows,
                                           .dim = 16,
                                           .value_dim = 8});
  std::mt19937_64 random(3);
  std::vector<int64_t> times;
  for (int64_t i = 0; i < rows; ++i) {
    times.push_back(static_cast<int64_t>(random() % 1000000000));
  }
  for (const char* encoding : {"rope", "alibi", "both_sides"}) {
    request.set_encoding(encoding);
    SetCausal(request);
    SetTimes(times, times, v1::TICK_UNIT_MICROSECONDS, request);
    const Answer here = Ask(request);
    for (const int64_t shift : {int64_t{1}, int64_t{1700000000000000},
                                INT64_MIN, INT64_MAX - 1000000000}) {
      std::vector<int64_t> shifted;
      for (int64_t t : times) {
        shifted.push_back(static_cast<int64_t>(static_cast<uint64_t>(t) +
                                               static_cast<uint64_t>(shift)));
      }
      SetTimes(shifted, shifted, v1::TICK_UNIT_MICROSECONDS, request);
      EXPECT_EQ(Ask(request).output, here.output) << encoding << " " << shift;
    }
  }
}

TEST_F(AnswersTest, PositionsCountAsUnits) {
  for (const char* encoding : {"decay", "steps", "decay_minute"}) {
    v1::AttendRequest request = OnlyBiases(1, {0, 1});
    request.set_encoding(encoding);
    EXPECT_NEAR(Ask(request).output[0], 0.731059, 1e-6) << encoding;
  }
}

}  // namespace
}  // namespace attnd::testing
