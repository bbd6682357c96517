// Answers over the wire against closed forms and against a plain triple loop in
// double that is written here from the formulas alone.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "absl/strings/str_cat.h"
#include "tests/integration/service_test.h"
#include "tests/server/requests.h"

namespace attnd::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

constexpr char kEncodings[] = R"(
encodings:
  - {name: rope, time_unit: 1s, blocks: [{rotary: {pair_layout: half_split}}]}
  - name: rope_interleaved
    time_unit: 1s
    blocks: [{rotary: {pair_layout: interleaved}}]
  - name: turn
    time_unit: 1s
    blocks: [{rotation: {frequencies: [1], pair_layout: half_split}}]
  - {name: alibi, time_unit: 1s, biases: [{alibi: {}}]}
  - {name: decay, time_unit: 1s, biases: [{alibi: {slopes: [1]}}]}
  - {name: decay_minute, time_unit: 1min, biases: [{alibi: {slopes: [1]}}]}
  - {name: decay_100ns, time_unit: 100ns, biases: [{alibi: {slopes: [1]}}]}
  - name: both_sides
    time_unit: 1s
    biases: [{alibi: {slopes: [1], two_sided: true}}]
  - name: steps
    time_unit: position
    biases: [{alibi: {slopes: [1]}}]
)";

struct Answer {
  std::vector<float> output, lse, scores, weights;
};

class AnswersTest : public ServiceTest {
 protected:
  void SetUp() override { Start(kEncodings); }

  // Asks for everything.
  Answer Ask(v1::AttendRequest request) {
    request.clear_outputs();
    for (const v1::Output output : {v1::OUTPUT_OUTPUT, v1::OUTPUT_LSE,
                                    v1::OUTPUT_SCORES, v1::OUTPUT_WEIGHTS}) {
      request.add_outputs(output);
    }
    const auto result = client_->Attend(request);
    EXPECT_TRUE(result.ok()) << result.code << ": " << result.message;
    return {FromBytes<float>(result.reply.output().data()),
            FromBytes<float>(result.reply.lse().data()),
            FromBytes<float>(result.reply.scores().data()),
            FromBytes<float>(result.reply.weights().data())};
  }
};

// B = H = 1, scale 1.
v1::AttendRequest One(const std::vector<std::vector<float>>& query,
                      const std::vector<std::vector<float>>& key,
                      const std::vector<std::vector<float>>& value) {
  v1::AttendRequest request;
  const auto set = [](const std::vector<std::vector<float>>& rows,
                      v1::Tensor& tensor) {
    std::vector<float> flat;
    for (const auto& row : rows)
      flat.insert(flat.end(), row.begin(), row.end());
    SetTensor({1, 1, static_cast<int64_t>(rows.size()),
               static_cast<int64_t>(rows[0].size())},
              flat, tensor);
  };
  set(query, *request.mutable_query());
  set(key, *request.mutable_key());
  set(value, *request.mutable_value());
  request.set_scale(1);
  return request;
}

// Q = 0: the scores are the biases alone.
v1::AttendRequest OnlyBiases(size_t queries, const std::vector<float>& values) {
  std::vector<std::vector<float>> rows;
  for (float v : values) rows.push_back({v});
  return One(std::vector<std::vector<float>>(queries, {0}),
             std::vector<std::vector<float>>(values.size(), {0}), rows);
}

void SetTimes(const std::vector<int64_t>& query,
              const std::vector<int64_t>& key, v1::TickUnit unit,
              v1::AttendRequest& request) {
  SetTicks(query, unit, *request.mutable_query_time());
  SetTicks(key, unit, *request.mutable_key_time());
}

void SetCausal(v1::AttendRequest& request) {
  request.mutable_mask()->set_causal(v1::CAUSALITY_TIME);
}

#define EXPECT_ALL_NEAR(actual, expected, tolerance)                \
  do {                                                              \
    const std::vector<float> a_ = (actual), e_ = (expected);        \
    ASSERT_EQ(a_.size(), e_.size());                                \
    for (size_t i_ = 0; i_ < a_.size(); ++i_) {                     \
      if (std::isinf(e_[i_])) {                                     \
        EXPECT_EQ(a_[i_], e_[i_]) << "element " << i_;              \
      } else {                                                      \
        EXPECT_NEAR(a_[i_], e_[i_], tolerance) << "element " << i_; \
      }                                                             \
    }                                                               \
  } while (false)

// ---- rows without keys, NaN, causality, lse, tails, empty axes --------------

v1::AttendRequest TwoByThree() {
  v1::AttendRequest request =
      One({{1, 0}, {0, 1}}, {{1, 0}, {0, 1}, {1, 1}}, {{1, 2}, {3, 4}, {5, 6}});
  request.set_scale(static_cast<float>(1 / std::sqrt(2.0)));
  return request;
}

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

TEST_F(AnswersTest, LseIsTheNaturalLogWhicheverOutputsAreAsked) {
  v1::AttendRequest request = One({{2}}, {{1}, {0}}, {{1}, {2}});
  for (const bool biased : {false, true}) {
    if (biased) SetTensor({1, 1, 1, 2}, {-1, 0}, *request.mutable_bias());
    const Answer all = Ask(request);
    EXPECT_ALL_NEAR(all.scores, (std::vector<float>{biased ? 1.0f : 2.0f, 0}),
                    1e-6);
    EXPECT_NEAR(all.lse[0], biased ? 1.313262 : 2.126928, 1e-5);
    for (int j = 0; j < 2; ++j) {
      EXPECT_NEAR(std::exp(all.scores[j] - all.lse[0]), all.weights[j], 1e-6);
    }
    request.clear_outputs();
    request.add_outputs(v1::OUTPUT_LSE);
    const auto alone = client_->Attend(request);
    ASSERT_TRUE(alone.ok()) << alone.message;
    EXPECT_EQ(FromBytes<float>(alone.reply.lse().data())[0], all.lse[0]);
    EXPECT_FALSE(alone.reply.has_output());
  }
}

TEST_F(AnswersTest, SizesThatFillNoBlock) {
  const std::vector<int64_t> rows = {1,  2,  7,   9,   16,  31, 33,
                                     64, 65, 127, 129, 137, 257};
  const std::vector<int64_t> dims = {1, 2, 3, 8, 15, 17, 31, 64, 80, 129};
  std::mt19937 random(7);
  for (int i = 0; i < 120; ++i) {
    const int64_t lq = rows[random() % rows.size()];
    const int64_t lk = rows[random() % rows.size()];
    const int64_t d = dims[random() % dims.size()];
    const int64_t dv = dims[random() % dims.size()];
    SCOPED_TRACE(absl::StrCat("Lq ", lq, " Lk ", lk, " D ", d, " Dv ", dv));
    v1::AttendRequest request;
    std::vector<float> values(lk * dv);
    for (int64_t j = 0; j < lk * dv; ++j)
      values[j] = static_cast<float>(j / dv);
    SetTensor({1, 1, lq, d}, std::vector<float>(lq * d, 0),
              *request.mutable_query());
    SetRandom({1, 1, lk, d}, random, *request.mutable_key());
    SetTensor({1, 1, lk, dv}, values, *request.mutable_value());
    const int64_t visible = 1 + random() % lk;
    request.mutable_mask()->add_key_lengths(visible);
    const Answer answer = Ask(request);
    const double mean = (static_cast<double>(visible) - 1) / 2;
    for (float x : answer.output) EXPECT_NEAR(x, mean, 1e-5 * (1 + mean));
    for (float x : answer.lse) {
      EXPECT_NEAR(x, std::log(static_cast<double>(visible)), 1e-5);
    }
    for (int64_t j = 0; j < lk; ++j) {
      EXPECT_NEAR(answer.weights[j], j < visible ? 1.0 / visible : 0, 1e-6);
    }
  }
}

TEST_F(AnswersTest, CausalRowsAverageTheirPast) {
  for (const int64_t rows : {1, 9, 64, 65, 255}) {
    std::vector<float> values(rows);
    std::vector<int64_t> times(rows);
    std::iota(values.begin(), values.end(), 0.0f);
    std::iota(times.begin(), times.end(), 0);
    v1::AttendRequest request = OnlyBiases(rows, values);
    SetTimes(times, times, v1::TICK_UNIT_SECONDS, request);
    SetCausal(request);
    const Answer answer = Ask(request);
    for (int64_t i = 0; i < rows; ++i) {
      EXPECT_NEAR(answer.output[i], i / 2.0, 1e-5 * (1 + i));
      EXPECT_NEAR(answer.lse[i], std::log(i + 1.0), 1e-5);
    }
  }
}

TEST_F(AnswersTest, EmptyAxesGiveEmptyOrZeroTensors) {
  const auto shapes = [&](const Sizes& sizes) {
    v1::AttendRequest request = MakeRequest(sizes);
    request.add_outputs(v1::OUTPUT_OUTPUT);
    request.add_outputs(v1::OUTPUT_LSE);
    const auto result = client_->Attend(request);
    EXPECT_TRUE(result.ok()) << result.message;
    return result.reply;
  };
  auto reply = shapes({.batch = 0, .query_heads = 2, .kv_heads = 2});
  EXPECT_THAT(reply.output().shape(), ElementsAre(0, 2, 2, 4));
  EXPECT_TRUE(reply.output().data().empty());
  reply = shapes({.queries = 0});
  EXPECT_THAT(reply.output().shape(), ElementsAre(1, 1, 0, 4));
  reply = shapes({.value_dim = 0});
  EXPECT_THAT(reply.output().shape(), ElementsAre(1, 1, 2, 0));
  EXPECT_TRUE(std::isfinite(FromBytes<float>(reply.lse().data())[0]));
  reply = shapes({.keys = 0});
  EXPECT_THAT(FromBytes<float>(reply.output().data()), Each(0));
  EXPECT_THAT(FromBytes<float>(reply.lse().data()), Each(-kInf));
  EXPECT_TRUE(client_->Attend(TwoByThree()).ok());
}

// ---- angles, slopes, decays, epochs, padding --------------------------------

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

TEST_F(AnswersTest, PositionsCountAsUnits) {
  for (const char* encoding : {"decay", "steps", "decay_minute"}) {
    v1::AttendRequest request = OnlyBiases(1, {0, 1});
    request.set_encoding(encoding);
    EXPECT_NEAR(Ask(request).output[0], 0.731059, 1e-6) << encoding;
  }
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

// ---- against a triple loop --------------------------------------------------

TEST_F(AnswersTest, GroupedHeadsOfBothLayoutsAgainstATripleLoop) {
  const Sizes s = {.batch = 2,
                   .query_heads = 6,
                   .kv_heads = 2,
                   .queries = 37,
                   .keys = 53,
                   .dim = 12,
                   .value_dim = 5};
  v1::AttendRequest request = MakeRequest(s);
  request.set_encoding("both_sides");
  std::vector<int64_t> query_time, key_time;
  std::mt19937_64 random(5);
  for (int64_t i = 0; i < s.queries; ++i) query_time.push_back(random() % 5000);
  for (int64_t j = 0; j < s.keys; ++j) key_time.push_back(random() % 5000);
  SetTimes(query_time, key_time, v1::TICK_UNIT_MILLISECONDS, request);
  SetCausal(request);
  request.mutable_mask()->set_past_ticks(3000);
  const Answer answer = Ask(request);

  const auto q = FromBytes<float>(request.query().data());
  const auto k = FromBytes<float>(request.key().data());
  const auto v = FromBytes<float>(request.value().data());
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.query_heads; ++h) {
      const int64_t g = h / (s.query_heads / s.kv_heads);
      for (int64_t i = 0; i < s.queries; ++i) {
        std::vector<double> output(s.value_dim, 0);
        double sum = 0;
        for (int64_t j = 0; j < s.keys; ++j) {
          const int64_t lag = query_time[i] - key_time[j];
          if (lag < 0 || lag > 3000) continue;
          double score = 0;
          for (int64_t c = 0; c < s.dim; ++c) {
            score +=
                double{
                    q[((b * s.query_heads + h) * s.queries + i) * s.dim + c]} *
                k[((b * s.kv_heads + g) * s.keys + j) * s.dim + c];
          }
          score = score / std::sqrt(double(s.dim)) - 1e-3 * double(lag);
          sum += std::exp(score);
          for (int64_t c = 0; c < s.value_dim; ++c) {
            output[c] +=
                std::exp(score) *
                v[((b * s.kv_heads + g) * s.keys + j) * s.value_dim + c];
          }
        }
        const int64_t row = (b * s.query_heads + h) * s.queries + i;
        for (int64_t c = 0; c < s.value_dim; ++c) {
          EXPECT_NEAR(answer.output[row * s.value_dim + c],
                      sum == 0 ? 0 : output[c] / sum, 1e-5);
        }
        if (sum > 0) {
          EXPECT_NEAR(answer.lse[row], std::log(sum), 1e-5);
        }
      }
    }
  }

  // The same numbers as [B,L,H,D] give the same answer, transposed.
  const auto transpose = [](v1::Tensor& tensor) {
    const auto& shape = tensor.shape();
    const int64_t B = shape[0], H = shape[1], L = shape[2], D = shape[3];
    const auto in = FromBytes<float>(tensor.data());
    std::vector<float> out(in.size());
    for (int64_t b = 0; b < B; ++b)
      for (int64_t h = 0; h < H; ++h)
        for (int64_t l = 0; l < L; ++l)
          for (int64_t d = 0; d < D; ++d)
            out[((b * L + l) * H + h) * D + d] =
                in[((b * H + h) * L + l) * D + d];
    tensor.set_data(ToBytes(out));
    tensor.set_layout(v1::LAYOUT_BLHD);
    tensor.mutable_shape()->SwapElements(1, 2);
  };
  transpose(*request.mutable_query());
  transpose(*request.mutable_key());
  transpose(*request.mutable_value());
  v1::AttendResponse reply = client_->Attend(request).reply;
  EXPECT_EQ(reply.output().layout(), v1::LAYOUT_BLHD);
  EXPECT_THAT(reply.output().shape(),
              ElementsAre(s.batch, s.queries, s.query_heads, s.value_dim));
  const auto out = FromBytes<float>(reply.output().data());
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.query_heads; ++h) {
      for (int64_t i = 0; i < s.queries; ++i) {
        for (int64_t c = 0; c < s.value_dim; ++c) {
          EXPECT_NEAR(
              out[((b * s.queries + i) * s.query_heads + h) * s.value_dim + c],
              answer.output[((b * s.query_heads + h) * s.queries + i) *
                                s.value_dim +
                            c],
              2e-6);
        }
      }
    }
  }
}

}  // namespace
}  // namespace attnd::testing
