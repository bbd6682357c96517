#include "client/interpolate/attention_average.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "client/random.h"
#include "tests/client/stub_attention.h"
#include "tests/client/stub_service.h"

namespace attnd::client {
namespace {

Client Connect(const StubService& stub) {
  return *Client::Create({.endpoints = {stub.address()}});
}

// A series of seconds with an encoding to match.
class AttentionAverageTest : public ::testing::Test {
 protected:
  AttentionAverageTest() {
    ServeAttention({{"e", {.unit_ns = 1e9, .periods = {7}, .slope = 0.3}}},
                   &stub_);
    Random random(4);
    int64_t at = 1'700'000'000'000'000'000;
    for (int i = 0; i < 50; ++i) {
      at += static_cast<int64_t>(random.Exponential() * 1e9);
      times_.push_back(at);
      values_.push_back(random.Normal());
      wanted_.push_back(at + 500'000'000);
    }
  }

  // The definition, from doubles.
  double Mean(int64_t wanted, bool causal) const {
    double sum = 0, weights = 0;
    for (size_t j = 0; j < times_.size(); ++j) {
      if (causal && times_[j] > wanted) continue;
      const double lag = static_cast<double>(wanted - times_[j]) / 1e9;
      const double weight =
          std::exp(4 * std::cos(2 * M_PI * lag / 7) - 0.3 * std::abs(lag));
      sum += weight * values_[j];
      weights += weight;
    }
    return sum / weights;
  }

  std::vector<double> Average(const PieceSize& piece, bool causal = false) {
    const Client client = Connect(stub_);
    auto means = AttentionAverage(
        client, {.encoding = "e", .vector = {2, 0}, .causal = causal}, piece,
        times_, values_, wanted_);
    EXPECT_TRUE(means.ok()) << means.status();
    return means.value_or(std::vector<double>());
  }

  void ExpectMeans(const std::vector<double>& means, bool causal = false) {
    ASSERT_EQ(means.size(), wanted_.size());
    for (size_t i = 0; i < means.size(); ++i) {
      EXPECT_NEAR(means[i], Mean(wanted_[i], causal), 1e-6) << i;
    }
  }

  StubService stub_;
  std::vector<int64_t> times_;
  std::vector<double> values_;
  std::vector<int64_t> wanted_;
};

TEST_F(AttentionAverageTest, IsTheWeightedMean) {
  ExpectMeans(Average({.query_rows = 50, .key_rows = 50}));
  EXPECT_EQ(stub_.arrivals().size(), 1u);
}

TEST_F(AttentionAverageTest, PiecesOfQueriesAndKeysMergeExactly) {
  ExpectMeans(Average({.query_rows = 7, .key_rows = 9}));
  EXPECT_EQ(stub_.arrivals().size(), 8u * 6u);
  ExpectMeans(Average({.query_rows = 1, .key_rows = 50}));
}

TEST_F(AttentionAverageTest, CausalPiecesThatSeeNothingCountNothing) {
  ExpectMeans(Average({.query_rows = 50, .key_rows = 8}, true), true);
  wanted_[0] = times_[0] - 1;
  EXPECT_TRUE(std::isnan(Average({.query_rows = 50, .key_rows = 8}, true)[0]));
}

TEST_F(AttentionAverageTest, HalvesWhatTheServerFindsTooLarge) {
  const auto serve = stub_.on_attend;
  std::atomic<int> refused = 0;
  stub_.on_attend = [&](int number, const v1::AttendRequest& request,
                        v1::AttendResponse* response) {
    if (request.query().shape(2) * request.key().shape(2) > 200) {
      ++refused;
      return Refusal(grpc::StatusCode::RESOURCE_EXHAUSTED, "too large");
    }
    return serve(number, request, response);
  };
  ExpectMeans(Average({.query_rows = 50, .key_rows = 50}));
  EXPECT_GT(refused, 0);
}

TEST_F(AttentionAverageTest, GivesUpWhenEvenOnePairIsTooLarge) {
  stub_.on_attend = [](int, const v1::AttendRequest&, v1::AttendResponse*) {
    return Refusal(grpc::StatusCode::RESOURCE_EXHAUSTED, "too large");
  };
  const Client client = Connect(stub_);
  const auto means = AttentionAverage(
      client, {.encoding = "e", .vector = {2, 0}},
      {.query_rows = 50, .key_rows = 50}, times_, values_, wanted_);
  EXPECT_TRUE(absl::IsResourceExhausted(means.status()));
}

TEST_F(AttentionAverageTest, AQuotaIsNotASize) {
  stub_.on_attend = [](int, const v1::AttendRequest&, v1::AttendResponse*) {
    return Refusal(grpc::StatusCode::RESOURCE_EXHAUSTED, "quota",
                   {RetryAfter(absl::Milliseconds(1))});
  };
  const Client client = Connect(stub_);
  const auto means = AttentionAverage(
      client, {.encoding = "e", .vector = {2, 0}},
      {.query_rows = 50, .key_rows = 50}, times_, values_, wanted_);
  EXPECT_TRUE(absl::IsResourceExhausted(means.status()));
  EXPECT_EQ(stub_.arrivals().size(), 4u);  // the attempts of one call
}

TEST_F(AttentionAverageTest, AnAnswerOfAnotherSizeIsAnError) {
  stub_.on_attend = [](int, const v1::AttendRequest&, v1::AttendResponse*) {
    return grpc::Status::OK;
  };
  const Client client = Connect(stub_);
  EXPECT_TRUE(absl::IsInternal(
      AttentionAverage(client, {.encoding = "e", .vector = {2, 0}},
                       {.query_rows = 50, .key_rows = 50}, times_, values_,
                       wanted_)
          .status()));
}

TEST(LargestPieces, KeepsEveryLimit) {
  v1::Limits limits;
  limits.set_rows(1000);
  limits.set_message_bytes(100'000);
  const PieceSize piece = LargestPieces(5000, 5000, 4, 1 << 20, limits);
  EXPECT_LE(piece.key_rows, 1000);
  // Both sides of a request with D = 4, plus what stands beside the arrays.
  EXPECT_LE(piece.key_rows * 28 + piece.query_rows * 24 + 4096, 100'000);
  EXPECT_GT(piece.key_rows, 900);
  // The client's limit binds as well.
  EXPECT_LE(LargestPieces(5000, 5000, 4, 20'000, limits).key_rows * 28, 10'000);
}

TEST(LargestPieces, TakesAllWhenNothingBinds) {
  const PieceSize piece = LargestPieces(2745, 1705, 4, 128 << 20, {});
  EXPECT_EQ(piece.query_rows, 2745);
  EXPECT_EQ(piece.key_rows, 1705);
  // Four million rows each way are cut by their pairs.
  const PieceSize big = LargestPieces(4 << 20, 4 << 20, 4, INT32_MAX, {});
  EXPECT_LE(big.query_rows * big.key_rows, kMaxPiecePairs);
  EXPECT_GE(LargestPieces(10, 10, 4, 100, {}).key_rows, 1);
}

}  // namespace
}  // namespace attnd::client
