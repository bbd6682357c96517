// Answers of many shapes over the wire: against closed forms, and against a
// plain triple loop in double that is written here from the formulas alone.
#include <gmock/gmock.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/answers_test.h"
#include "tests/server/requests.h"

namespace attnd::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr float kInf = std::numeric_limits<float>::infinity();

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
