// The linear kind over the wire: streams in pieces, segments that merge,
// refusals.
#include <gmock/gmock.h>

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/service_test.h"
#include "tests/server/requests.h"

namespace attnd::testing {
namespace {

constexpr int64_t kHeads = 2, kDim = 8, kValues = 4;

constexpr char kEncodings[] = R"(
encodings:
  - name: fade
    time_unit: 1s
    blocks:
      - damped_rotation:
          pair_layout: half_split
          frequencies: [1, 0.3, 0.1, 0.01]
          rates: [0.02, 0.02, 0.02, 0.02]
  - {name: alibi, time_unit: 1s, biases: [{alibi: {}}]}
)";

// Self-attention on irregular times, or a piece of it.
struct Stream {
  explicit Stream(int64_t rows) : rows(rows) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    std::exponential_distribution<double> gap(1e-9);
    for (auto* values : {&query, &key, &value}) {
      const int64_t columns = values == &value ? kValues : kDim;
      values->resize(kHeads * rows * columns);
      for (float& x : *values) x = normal(random);
    }
    int64_t t = 1'700'000'000'000'000'000;
    for (int64_t i = 0; i < rows; ++i) {
      times.push_back(t += 1 + static_cast<int64_t>(gap(random)));
    }
  }

  v1::AttendRequest Piece(int64_t first, int64_t last) const {
    v1::AttendRequest request;
    request.set_kind(v1::ATTENTION_KIND_LINEAR);
    request.set_encoding("fade");
    request.set_scale(0.5f);
    const auto cut = [&](const std::vector<float>& values, int64_t columns,
                         v1::Tensor& tensor) {
      std::vector<float> some;
      for (int64_t h = 0; h < kHeads; ++h) {
        some.insert(some.end(), values.begin() + (h * rows + first) * columns,
                    values.begin() + (h * rows + last) * columns);
      }
      SetTensor({1, kHeads, last - first, columns}, some, tensor);
    };
    cut(query, kDim, *request.mutable_query());
    cut(key, kDim, *request.mutable_key());
    cut(value, kValues, *request.mutable_value());
    const std::vector<int64_t> some(times.begin() + first,
                                    times.begin() + last);
    for (auto* axis :
         {request.mutable_query_time(), request.mutable_key_time()}) {
      SetTicks(some, v1::TICK_UNIT_NANOSECONDS, *axis);
    }
    return request;
  }

  int64_t rows;
  std::vector<float> query, key, value;
  std::vector<int64_t> times;
};

class LinearTest : public ServiceTest {
 protected:
  void SetUp() override { Start(kEncodings); }

  v1::AttendResponse Ask(const v1::AttendRequest& request) {
    const auto result = client_->Attend(request);
    EXPECT_TRUE(result.ok()) << result.code << ": " << result.message;
    return result.reply;
  }
};

TEST_F(LinearTest, EqualsTheFormula) {
  const Stream stream(50);
  const v1::AttendResponse reply = Ask(stream.Piece(0, 50));
  const std::vector<float> output = FromBytes<float>(reply.output().data());
  const double omega[] = {1, 0.3, 0.1, 0.01};
  for (int64_t h = 0; h < kHeads; ++h) {
    for (int64_t i = 0; i < 50; ++i) {
      double sum = 0, size = 0;
      for (int64_t j = 0; j <= i; ++j) {
        const double lag =
            1e-9 * static_cast<double>(stream.times[i] - stream.times[j]);
        const float* q = &stream.query[(h * 50 + i) * kDim];
        const float* k = &stream.key[(h * 50 + j) * kDim];
        double dot = 0;
        // exp(-w D J) on the pair (p, p + 4).
        for (int p = 0; p < 4; ++p) {
          const double c = std::cos(omega[p] * lag);
          const double s = std::sin(omega[p] * lag);
          dot += q[p] * (c * k[p] + s * k[p + 4]) +
                 q[p + 4] * (c * k[p + 4] - s * k[p]);
        }
        const double term = 0.5 * dot * std::exp(-0.02 * lag) *
                            stream.value[(h * 50 + j) * kValues];
        sum += term;
        size += std::abs(term);
      }
      EXPECT_NEAR(output[(h * 50 + i) * kValues], sum, 1e-5 * (1 + size));
    }
  }
}

TEST_F(LinearTest, PiecesWithACarriedStateEqualOnePass) {
  const Stream stream(300);
  for (const bool held : {false, true}) {
    const auto options = [&](v1::AttendRequest request) {
      request.mutable_linear()->set_return_state(true);
      if (held) {
        request.mutable_linear()->set_input_rule(
            v1::LinearOptions::INPUT_RULE_ZERO_ORDER_HOLD);
      }
      return request;
    };
    const std::vector<float> whole =
        FromBytes<float>(Ask(options(stream.Piece(0, 300))).output().data());
    v1::LinearState state;
    for (const auto& [first, last] : std::vector<std::pair<int64_t, int64_t>>{
             {0, 1}, {1, 100}, {100, 101}, {101, 300}}) {
      v1::AttendRequest request = options(stream.Piece(first, last));
      if (first > 0) *request.mutable_linear()->mutable_initial_state() = state;
      const v1::AttendResponse reply = Ask(request);
      state = reply.final_state();
      const std::vector<float> piece = FromBytes<float>(reply.output().data());
      for (int64_t h = 0; h < kHeads; ++h) {
        for (int64_t i = 0; i < (last - first) * kValues; ++i) {
          const float expected = whole[(h * 300 + first) * kValues + i];
          EXPECT_NEAR(piece[h * (last - first) * kValues + i], expected,
                      1e-5 * (1 + std::abs(expected)))
              << "held " << held << " piece " << first;
        }
      }
    }
    EXPECT_EQ(state.keys(0), 300);
    EXPECT_EQ(state.reference_ticks(0), stream.times.back());
  }
}

TEST_F(LinearTest, SegmentsMerge) {
  const Stream stream(200);
  const auto state_of = [&](int64_t first, int64_t last) {
    v1::AttendRequest request = stream.Piece(first, last);
    request.mutable_linear()->set_return_state(true);
    return Ask(request).final_state();
  };
  const v1::LinearState whole = state_of(0, 200);
  // A step without rows that only merges, in no particular order.
  v1::AttendRequest request = stream.Piece(0, 0);
  request.mutable_linear()->set_return_state(true);
  *request.mutable_linear()->add_merge_states() = state_of(150, 200);
  *request.mutable_linear()->add_merge_states() = state_of(0, 70);
  *request.mutable_linear()->add_merge_states() = state_of(70, 150);
  const v1::LinearState merged = Ask(request).final_state();
  EXPECT_EQ(merged.keys(0), 200);
  EXPECT_EQ(merged.reference_ticks(0), stream.times.back());
  const auto a = FromBytes<float>(whole.state().data());
  const auto b = FromBytes<float>(merged.state().data());
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(b[i], a[i], 1e-5 * (1 + std::abs(a[i])));
  }
}

TEST_F(LinearTest, AStateOfAnotherKindIsRefused) {
  const Stream stream(20);
  v1::AttendRequest request = stream.Piece(0, 10);
  request.mutable_linear()->set_return_state(true);
  const v1::LinearState state = Ask(request).final_state();
  request = stream.Piece(10, 20);
  *request.mutable_linear()->mutable_initial_state() = state;
  request.mutable_linear()->set_feature_map(
      v1::LinearOptions::FEATURE_MAP_RELU);
  auto result = client_->Attend(request);
  EXPECT_EQ(result.code, kInvalidArgument);
  EXPECT_EQ(result.Fields(), "linear.initial_state.encoding_hash");
  request.mutable_linear()->clear_feature_map();
  request.mutable_linear()->mutable_initial_state()->set_version(2);
  result = client_->Attend(request);
  EXPECT_EQ(result.Fields(), "linear.initial_state.version");
  // Rows before the state.
  request = stream.Piece(0, 10);
  *request.mutable_linear()->mutable_initial_state() = state;
  result = client_->Attend(request);
  EXPECT_EQ(result.code, kInvalidArgument);
  EXPECT_EQ(result.Fields(), "query_time");
}

TEST_F(LinearTest, WhatHasNoMeaningIsRefused) {
  const Stream stream(10);
  v1::AttendRequest request = stream.Piece(0, 10);
  request.mutable_mask()->set_past_ticks(5);
  EXPECT_EQ(client_->Attend(request).Fields(), "mask");
  request = stream.Piece(0, 10);
  request.set_encoding("alibi");
  EXPECT_EQ(client_->Attend(request).Fields(), "encoding");
  request = stream.Piece(0, 10);
  request.mutable_mask()->set_causal(v1::CAUSALITY_NONE);
  EXPECT_EQ(client_->Attend(request).Fields(), "mask.causal");
  request = stream.Piece(0, 10);
  request.clear_kind();
  request.mutable_linear();
  EXPECT_EQ(client_->Attend(request).Fields(), "linear");
}

TEST_F(LinearTest, AnEstimateTellsTheSizeOfTheState) {
  v1::AttendRequest request = Stream(10).Piece(0, 10);
  request.mutable_linear()->set_return_state(true);
  const int64_t bytes =
      static_cast<int64_t>(Ask(request).final_state().ByteSizeLong());
  for (v1::Tensor* tensor : {request.mutable_query(), request.mutable_key(),
                             request.mutable_value()}) {
    tensor->clear_data();
  }
  const auto estimate = client_->Estimate(request);
  ASSERT_TRUE(estimate.ok()) << estimate.message;
  EXPECT_GE(estimate.reply.state_bytes(), bytes);
  EXPECT_LE(estimate.reply.state_bytes(), 2 * bytes + 1024);
  EXPECT_GT(estimate.reply.predicted_seconds(), 0);
}

// Segments of a long head on two workers at once.
TEST_F(LinearTest, LongStreamsInOneRequestEqualTheirPieces) {
  const int64_t rows = 40'000;
  const Stream stream(rows);
  const std::vector<float> whole =
      FromBytes<float>(Ask(stream.Piece(0, rows)).output().data());
  v1::AttendRequest first = stream.Piece(0, rows / 2);
  first.mutable_linear()->set_return_state(true);
  v1::AttendRequest second = stream.Piece(rows / 2, rows);
  *second.mutable_linear()->mutable_initial_state() = Ask(first).final_state();
  const std::vector<float> rest = FromBytes<float>(Ask(second).output().data());
  for (int64_t h = 0; h < kHeads; ++h) {
    for (int64_t i = 0; i < rows / 2 * kValues; ++i) {
      const float expected = whole[(h * rows + rows / 2) * kValues + i];
      ASSERT_NEAR(rest[h * (rows / 2) * kValues + i], expected,
                  1e-4 * (1 + std::abs(expected)));
    }
  }
}

}  // namespace
}  // namespace attnd::testing
