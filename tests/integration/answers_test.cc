// What each row may see, over the wire: masks, causality, NaN and infinity.
#include "tests/integration/answers_test.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/server/requests.h"

namespace attnd::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST_F(AnswersTest, RowsThatSeeNothingAreZeroByEveryKindOfMask) {
  const Answer clean = Ask(TwoByThree());
  std::vector<v1::AttendRequest> masked(4, TwoByThree());
  // An additive bias.
  SetTensor({1, 1, 2, 3}, {-kInf, -kInf, -kInf, 0, 0, 0},
            *masked[0].mutable_bias());
  // Time.
  SetTimes({0, 9}, {1, 2, 3}, v1::TICK_UNIT_SECONDS, masked[1]);
  SetCausal(masked[1]);
  // A window.
  SetTimes({100, 9}, {1, 2, 3}, v1::TICK_UNIT_SECONDS, masked[2]);
  masked[2].mutable_mask()->set_past_ticks(10);
  masked[2].mutable_mask()->set_future_ticks(0);
  // Lengths: both rows.
  masked[3].mutable_mask()->add_key_lengths(0);
  for (size_t i = 0; i < masked.size(); ++i) {
    SCOPED_TRACE(absl::StrCat("mask ", i));
    const Answer answer = Ask(masked[i]);
    EXPECT_EQ(answer.output[0], 0);
    EXPECT_EQ(answer.output[1], 0);
    EXPECT_EQ(answer.lse[0], -kInf);
    for (int j = 0; j < 3; ++j) {
      EXPECT_EQ(answer.weights[j], 0);
      EXPECT_EQ(answer.scores[j], -kInf);
    }
    if (i == 3) {
      EXPECT_EQ(answer.output[2], 0);
      continue;
    }
    EXPECT_EQ(answer.output[2], clean.output[2]);
    EXPECT_EQ(answer.output[3], clean.output[3]);
    EXPECT_EQ(answer.lse[1], clean.lse[1]);
  }
  EXPECT_NEAR(clean.output[2], 3.406673, 1e-5);
  EXPECT_NEAR(clean.lse[1], 1.620621, 1e-5);
}

TEST_F(AnswersTest, AHugeFiniteBiasIsNoMask) {
  v1::AttendRequest request = TwoByThree();
  SetTensor({1, 1, 2, 3}, {-3.4e38f, -3.4e38f, -3.4e38f, 0, 0, 0},
            *request.mutable_bias());
  const Answer answer = Ask(request);
  EXPECT_ALL_NEAR(answer.output,
                  (std::vector<float>{3, 4, 3.406673f, 4.406673f}), 1e-5);
}

TEST_F(AnswersTest, NanInMeansNanOutInTheTouchedRowsOnly) {
  const Answer clean = Ask(TwoByThree());
  for (const char* encoding : {"", "turn", "both_sides"}) {
    v1::AttendRequest request = TwoByThree();
    request.mutable_query()->set_data(
        ToBytes(std::vector<float>{kNan, 0, 0, 1}));
    if (*encoding != 0) request.set_encoding(encoding);
    if (*encoding != 0) {
      SetTimes({0, 0}, {0, 0, 0}, v1::TICK_UNIT_SECONDS, request);
    }
    const Answer answer = Ask(request);
    EXPECT_TRUE(std::isnan(answer.output[0])) << encoding;
    EXPECT_TRUE(std::isnan(answer.output[1])) << encoding;
    EXPECT_TRUE(std::isnan(answer.lse[0])) << encoding;
    EXPECT_NEAR(answer.output[2], clean.output[2], 1e-6) << encoding;
  }
}

TEST_F(AnswersTest, BadValuesStayInTheFuture) {
  for (const int64_t rows : {8, 129, 600}) {
    v1::AttendRequest request =
        MakeRequest({.queries = rows, .keys = rows, .dim = 8, .value_dim = 3});
    std::vector<int64_t> times(rows);
    std::iota(times.begin(), times.end(), 0);
    SetTimes(times, times, v1::TICK_UNIT_SECONDS, request);
    SetCausal(request);
    const Answer clean = Ask(request);
    for (const float bad : {kNan, kInf}) {
      v1::AttendRequest broken = request;
      auto values = FromBytes<float>(broken.value().data());
      for (int c = 0; c < 3; ++c) values[5 * 3 + c] = bad;
      broken.mutable_value()->set_data(ToBytes(values));
      const Answer answer = Ask(broken);
      for (int64_t i = 0; i < rows * 3; ++i) {
        if (i < 5 * 3) {
          EXPECT_EQ(answer.output[i], clean.output[i]);
        } else {
          EXPECT_FALSE(std::isfinite(answer.output[i])) << i;
        }
      }
    }
    v1::AttendRequest broken = request;
    auto keys = FromBytes<float>(broken.key().data());
    keys[5 * 8] = kNan;
    broken.mutable_key()->set_data(ToBytes(keys));
    const Answer answer = Ask(broken);
    for (int64_t i = 0; i < rows; ++i) {
      if (i < 5) {
        EXPECT_EQ(answer.lse[i], clean.lse[i]);
      } else {
        EXPECT_TRUE(std::isnan(answer.lse[i])) << i;
      }
    }
  }
}

TEST_F(AnswersTest, CausalityIsByTimeWhateverTheOrder) {
  std::vector<std::pair<int64_t, float>> keys = {
      {10, 1}, {20, 2}, {30, 4}, {40, 8}};
  std::vector<std::pair<int64_t, float>> ties = {
      {10, 1}, {30, 2}, {30, 4}, {40, 8}};
  for (auto& list : {keys, ties}) {
    auto order = list;
    std::sort(order.begin(), order.end());
    do {
      std::vector<int64_t> times;
      std::vector<float> values;
      for (const auto& [t, v] : order) {
        times.push_back(t);
        values.push_back(v);
      }
      v1::AttendRequest request = OnlyBiases(1, values);
      SetTimes({30}, times, v1::TICK_UNIT_SECONDS, request);
      SetCausal(request);
      EXPECT_NEAR(Ask(request).output[0], 7.0 / 3, 1e-6);
    } while (std::next_permutation(order.begin(), order.end()));
  }
  v1::AttendRequest strict = OnlyBiases(1, {1, 2, 4, 8});
  SetTimes({30}, {10, 20, 30, 40}, v1::TICK_UNIT_SECONDS, strict);
  SetCausal(strict);
  strict.mutable_mask()->set_strict(true);
  EXPECT_NEAR(Ask(strict).output[0], 1.5, 1e-6);
}

TEST_F(AnswersTest, WithoutTimesTheLastQueryMeetsTheLastKey) {
  for (const v1::Causality rule : {v1::CAUSALITY_TIME, v1::CAUSALITY_INDEX}) {
    v1::AttendRequest request = OnlyBiases(2, {1, 2, 4, 8});
    request.mutable_mask()->set_causal(rule);
    EXPECT_ALL_NEAR(Ask(request).output,
                    (std::vector<float>{7.0f / 3, 15.0f / 4}), 1e-6);
    // More queries than keys: the first stand before every key.
    request = OnlyBiases(3, {1, 2});
    request.mutable_mask()->set_causal(rule);
    EXPECT_ALL_NEAR(Ask(request).output, (std::vector<float>{0, 1, 1.5}), 1e-6);
  }
}

TEST_F(AnswersTest, PaddingTakesNoPart) {
  const auto ask = [&](double padding, float value) {
    v1::AttendRequest request = MakeRequest(
        {.batch = 2, .queries = 5, .keys = 5, .dim = 1, .value_dim = 1});
    request.set_scale(1);
    request.set_encoding("decay");
    SetCausal(request);
    request.mutable_query()->set_data(std::string(40, '\0'));
    request.mutable_value()->set_data(
        ToBytes(std::vector<float>{1, 2, 4, value, value, 1, 2, 3, 4, 5}));
    for (v1::TimeAxis* axis :
         {request.mutable_query_time(), request.mutable_key_time()}) {
      SetReal({2, 5, 6, padding, padding, 1, 2, 3, 4, 5}, *axis);
      axis->clear_shape();
      axis->add_shape(2);
      axis->add_shape(5);
    }
    for (int64_t length : {3, 5}) {
      request.mutable_mask()->add_query_lengths(length);
      request.mutable_mask()->add_key_lengths(length);
    }
    return Ask(request);
  };
  const Answer zero = ask(0, 9);
  EXPECT_NEAR(zero.output[0], 1, 1e-6);
  EXPECT_NEAR(zero.output[1], 1.952574, 1e-5);
  EXPECT_NEAR(zero.output[2], 3.429585, 1e-5);
  EXPECT_NEAR(zero.lse[2], 0.326563, 1e-5);
  EXPECT_NEAR(zero.weights[2 * 5], 0.013213, 1e-5);
  for (int row : {3, 4}) {
    EXPECT_EQ(zero.output[row], 0);
    EXPECT_EQ(zero.lse[row], -kInf);
  }
  EXPECT_EQ(ask(kNan, kNan).output, zero.output);
  EXPECT_EQ(ask(1e30, kInf).output, zero.output);
}

TEST_F(AnswersTest, WindowsAreClosedAndSaturate) {
  v1::AttendRequest request = OnlyBiases(1, {1, 2, 4, 8});
  SetTimes({30}, {10, 20, 40, 41}, v1::TICK_UNIT_SECONDS, request);
  v1::Mask& mask = *request.mutable_mask();
  mask.set_past_ticks(10);
  mask.set_future_ticks(10);
  EXPECT_NEAR(Ask(request).output[0], 3, 1e-6);
  mask.set_past_ticks(INT64_MAX);
  EXPECT_NEAR(Ask(request).output[0], 7.0 / 3, 1e-6);
  mask.clear_past_ticks();
  mask.set_future_ticks(INT64_MAX);
  EXPECT_NEAR(Ask(request).output[0], 15.0 / 4, 1e-6);
}

TEST_F(AnswersTest, HiddenContentNeverLeaks) {
  v1::AttendRequest request = TwoByThree();
  request.mutable_mask()->set_key_validity(std::string("\1\1\0", 3));
  const Answer clean = Ask(request);
  request.mutable_key()->set_data(
      ToBytes(std::vector<float>{1, 0, 0, 1, kNan, kInf}));
  request.mutable_value()->set_data(
      ToBytes(std::vector<float>{1, 2, 3, 4, kInf, kNan}));
  const Answer dirty = Ask(request);
  EXPECT_EQ(dirty.output, clean.output);
  EXPECT_EQ(dirty.scores[2], -kInf);
  EXPECT_EQ(dirty.weights[2], 0);
}

}  // namespace
}  // namespace attnd::testing
