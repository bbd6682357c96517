// Attention from resolved definitions against numbers computed by hand.
#include "client/resolved/attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "client/request.h"
#include "kernels/attention.h"

namespace attnd::client::resolved {
namespace {

using ::testing::ElementsAre;

constexpr double kHidden = -std::numeric_limits<double>::infinity();

v1::Tensor TensorOf(const std::vector<float>& values,
                    const std::vector<int64_t>& shape) {
  return *MakeTensor(values, shape);
}

// One head; q = 0 and k = 0, so that logits come from the encoding alone.
v1::AttendRequest RequestOf(const std::vector<int64_t>& query_times,
                            const std::vector<int64_t>& key_times,
                            const std::vector<float>& values) {
  const auto queries = static_cast<int64_t>(query_times.size());
  const auto keys = static_cast<int64_t>(key_times.size());
  v1::AttendRequest request;
  *request.mutable_query() =
      TensorOf(std::vector<float>(queries), {1, 1, queries, 1});
  *request.mutable_key() = TensorOf(std::vector<float>(keys), {1, 1, keys, 1});
  *request.mutable_value() = TensorOf(values, {1, 1, keys, 1});
  *request.mutable_query_time() =
      *MakeTimeAxis(query_times, v1::TICK_UNIT_SECONDS);
  *request.mutable_key_time() = *MakeTimeAxis(key_times, v1::TICK_UNIT_SECONDS);
  return request;
}

v1::ResolvedEncoding Alibi(double slope, double unit_ns = 1e9) {
  v1::ResolvedEncoding encoding;
  encoding.add_alibi_slopes(slope);
  encoding.set_unit_nanoseconds(unit_ns);
  return encoding;
}

v1::ResolvedEncoding Sinusoids() {
  v1::ResolvedEncoding encoding;
  encoding.set_unit_nanoseconds(1e9);
  encoding.mutable_definition()
      ->add_absolutes()
      ->mutable_sinusoidal()
      ->set_order(v1::Sinusoidal::ORDER_INTERLEAVED);
  return encoding;
}

Answer Compute(const v1::AttendRequest& request,
               const v1::ResolvedEncoding& encoding) {
  const v1::ResolvedEncoding* one = &encoding;
  auto answer = Attention(request, absl::MakeConstSpan(&one, 1));
  EXPECT_TRUE(answer.ok()) << answer.status();
  return *std::move(answer);
}

// A decay split into two factors overflows; also at the epoch.
TEST(ResolvedAttention, OnlyDifferencesOfTimesEnter) {
  for (int64_t t : {int64_t{0}, int64_t{1'700'000'000}}) {
    const Answer answer =
        Compute(RequestOf({t + 1}, {t, t + 1}, {0, 1}), Alibi(1));
    EXPECT_THAT(answer.scores, ElementsAre(-1, 0));
    EXPECT_NEAR(answer.output[0], 0.7310585786, 1e-10);
    EXPECT_NEAR(answer.lse[0], 0.3132616875, 1e-10);
  }
}

// Padding takes no part.
TEST(ResolvedAttention, RowsBeyondALengthAreEmpty) {
  v1::AttendRequest request =
      RequestOf({2, 5, 6, 0, 0}, {2, 5, 6, 0, 0}, {1, 2, 4, 9, 9});
  request.mutable_mask()->set_causal(v1::CAUSALITY_TIME);
  request.mutable_mask()->add_query_lengths(3);
  request.mutable_mask()->add_key_lengths(3);
  const Answer answer = Compute(request, Alibi(1));
  EXPECT_EQ(answer.output[0], 1);
  EXPECT_NEAR(answer.output[1], (std::exp(-3) + 2) / (std::exp(-3) + 1), 1e-15);
  const double sum = std::exp(-4) + std::exp(-1) + 1;
  EXPECT_NEAR(answer.output[2], (std::exp(-4) + 2 * std::exp(-1) + 4) / sum,
              1e-15);
  EXPECT_NEAR(answer.lse[2], std::log(sum), 1e-15);
  EXPECT_EQ(answer.output[3], 0);
  EXPECT_EQ(answer.lse[4], kHidden);
}

// Which keys of {0, 10, 20, 20, 30} a query at 20 sees.
TEST(ResolvedAttention, MasksAreWhatTheirFieldsSay) {
  const v1::AttendRequest plain =
      RequestOf({20}, {0, 10, 20, 20, 30}, {0, 0, 0, 0, 0});
  const auto seen = [&](const std::function<void(v1::Mask&)>& set) {
    v1::AttendRequest request = plain;
    set(*request.mutable_mask());
    std::string text;
    for (double score : Compute(request, Alibi(0)).scores) {
      text += score == kHidden ? '.' : 'x';
    }
    return text;
  };
  EXPECT_EQ(seen([](v1::Mask&) {}), "xxxxx");
  EXPECT_EQ(seen([](v1::Mask& m) { m.set_causal(v1::CAUSALITY_TIME); }),
            "xxxx.");
  EXPECT_EQ(seen([](v1::Mask& m) {
              m.set_causal(v1::CAUSALITY_TIME);
              m.set_strict(true);
            }),
            "xx...");
  // One query against five keys: it is the fifth.
  EXPECT_EQ(seen([](v1::Mask& m) {
              m.set_causal(v1::CAUSALITY_INDEX);
              m.set_strict(true);
            }),
            "xxxx.");
  EXPECT_EQ(seen([](v1::Mask& m) {
              m.set_past_ticks(10);
              m.set_future_ticks(0);
            }),
            ".xxx.");
  EXPECT_EQ(seen([](v1::Mask& m) {
              m.set_past_keys(3);
              m.set_future_keys(0);
            }),
            ".xxx.");
  EXPECT_EQ(seen([](v1::Mask& m) {
              m.set_past_ticks(0);
              m.set_future_ticks(0);
              m.set_prefix(1);
            }),
            "x.xx.");
  EXPECT_EQ(seen([](v1::Mask& m) {
              v1::TimeRange& range = *m.add_key_ranges();
              range.set_begin_ticks(10);
              range.set_end_ticks(29);
            }),
            ".xxx.");
  EXPECT_EQ(seen([](v1::Mask& m) {
              m.set_key_validity(std::string("\1\0\1\1\1", 5));
            }),
            "x.xxx");
}

TEST(ResolvedAttention, PackedSequencesSeeThemselvesAlone) {
  v1::AttendRequest request = RequestOf({1, 2, 3}, {1, 2, 3}, {1, 2, 4});
  for (int64_t offset : {0, 2, 3}) {
    request.mutable_mask()->add_query_offsets(offset);
    request.mutable_mask()->add_key_offsets(offset);
  }
  const Answer answer = Compute(request, Alibi(0));
  EXPECT_THAT(answer.output, ElementsAre(1.5, 1.5, 4));
}

TEST(ResolvedAttention, SinksTakeTheirShare) {
  v1::AttendRequest request = RequestOf({0}, {0}, {3});
  request.mutable_mask()->add_sinks(0);
  const Answer answer = Compute(request, Alibi(0));
  EXPECT_DOUBLE_EQ(answer.output[0], 1.5);
  EXPECT_DOUBLE_EQ(answer.lse[0], std::log(2));
}

TEST(ResolvedAttention, ChannelsAverageOverTheirOwnKeys) {
  v1::AttendRequest request = RequestOf({0}, {0, 0}, {1, 3});
  *request.mutable_value() = TensorOf({1, 1, 3, 1}, {1, 1, 2, 2});
  request.mutable_mask()->set_value_channel_mask(std::string("\1\0\1\0", 4));
  EXPECT_THAT(Compute(request, Alibi(0)).output, ElementsAre(2, 0));
}

TEST(ResolvedAttention, NonFiniteInputsReachTheRowsThatSeeThem) {
  v1::AttendRequest request = RequestOf({0, 1}, {0, 1}, {1, NAN});
  request.mutable_mask()->set_causal(v1::CAUSALITY_TIME);
  const Answer answer = Compute(request, Alibi(1));
  EXPECT_EQ(answer.output[0], 1);
  EXPECT_TRUE(std::isnan(answer.output[1]));
  EXPECT_TRUE(std::isfinite(answer.lse[1]));
}

TEST(ResolvedAttention, GatesAddUpBetweenKeyAndQuery) {
  v1::AttendRequest request = RequestOf({7}, {0, 4, 6}, {0, 0, 0});
  *request.mutable_gates() = TensorOf({-1, -2, -4}, {1, 1, 3});
  v1::ResolvedEncoding encoding;
  encoding.set_unit_nanoseconds(1e9);
  encoding.mutable_definition()->add_biases()->mutable_cumulative_gate();
  EXPECT_THAT(Compute(request, encoding).scores, ElementsAre(-6, -4, 0));
  encoding.mutable_definition()
      ->mutable_biases(0)
      ->mutable_cumulative_gate()
      ->set_per_unit(true);
  EXPECT_THAT(Compute(request, encoding).scores, ElementsAre(-16, -8, 0));
}

// q.k of the parts: 1 = sin^2 + cos^2 at equal times, cos D otherwise.
TEST(ResolvedAttention, SinusoidsAreAddedToBoth) {
  v1::AttendRequest request = RequestOf({5}, {5, 3}, {0, 0});
  *request.mutable_query() = TensorOf({0, 0}, {1, 1, 1, 2});
  *request.mutable_key() = TensorOf({0, 0, 0, 0}, {1, 1, 2, 2});
  request.set_scale(1);
  const Answer answer = Compute(request, Sinusoids());
  EXPECT_NEAR(answer.scores[0], 1, 1e-15);
  EXPECT_NEAR(answer.scores[1], std::cos(2), 1e-15);
}

// cos 0 = 1 beside an element of -1: nothing is left, but its size is 2.
TEST(ResolvedAttention, PartsThatCancelCountBesideTheRow) {
  v1::AttendRequest request = RequestOf({0}, {0}, {0});
  *request.mutable_query() = TensorOf({0, -1}, {1, 1, 1, 2});
  *request.mutable_key() = TensorOf({0, 3}, {1, 1, 1, 2});
  request.set_scale(1);
  const Answer answer = Compute(request, Sinusoids());
  EXPECT_NEAR(answer.scores[0], 0, 1e-15);
  EXPECT_NEAR(answer.logit_size[0], 2 * 4, 1e-15);
}

// Rows are sin(w i + w' t).
TEST(ResolvedAttention, EventsAreCountedInTimeOrderAmongValidKeys) {
  v1::AttendRequest request = RequestOf({5}, {0, 5, 3}, {0, 0, 0});
  request.mutable_mask()->set_key_validity(std::string("\0\1\1", 3));
  request.set_scale(1);
  v1::ResolvedEncoding encoding;
  encoding.set_unit_nanoseconds(1e9);
  auto& part = *encoding.mutable_definition()
                    ->add_absolutes()
                    ->mutable_transformer_hawkes();
  part.set_form(v1::TransformerHawkes::FORM_SAHP);
  part.add_index_frequencies(0.7);
  part.add_time_frequencies(0.2);
  const Answer answer = Compute(request, encoding);
  EXPECT_EQ(answer.scores[0], kHidden);
  const double query = std::sin(0.2 * 5);
  EXPECT_NEAR(answer.scores[1], query * std::sin(0.7 + 0.2 * 5), 1e-15);
  EXPECT_NEAR(answer.scores[2], query * std::sin(0.2 * 3), 1e-15);
}

TEST(ResolvedAttention, ComputesTheRowsAskedFor) {
  const v1::AttendRequest request = RequestOf({1, 2, 3}, {1, 2}, {1, 3});
  const v1::ResolvedEncoding encoding = Alibi(1);
  const v1::ResolvedEncoding* one = &encoding;
  const int64_t rows[] = {2};
  const auto some = Attention(request, absl::MakeConstSpan(&one, 1), rows);
  ASSERT_TRUE(some.ok());
  EXPECT_THAT(some->rows, ElementsAre(2));
  EXPECT_EQ(some->output[0], Compute(request, encoding).output[2]);
}

TEST(ResolvedAttention, RefusesAnEncodingOfOtherSizes) {
  v1::ResolvedEncoding encoding = Alibi(1);
  encoding.add_alibi_slopes(2);
  const v1::ResolvedEncoding* one = &encoding;
  EXPECT_EQ(Attention(RequestOf({1}, {1}, {1}), absl::MakeConstSpan(&one, 1))
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

// The bound that clients judge by is the one that servers promise.
TEST(ResolvedAttention, TheBoundIsTheKernels) {
  EXPECT_EQ(kAccuracy, kOutputError);
  EXPECT_EQ(kAccuracy, kScoreError);
  EXPECT_EQ(kEntropyAccuracy, kEntropyError);
  EXPECT_EQ(kJordanSlack, attnd::kJordanSlack);
  EXPECT_EQ(kBf16OutputAccuracy, kBf16OutputError);
  EXPECT_EQ(kBf16Accuracy, kBf16ScoreError);
}

}  // namespace
}  // namespace attnd::client::resolved
