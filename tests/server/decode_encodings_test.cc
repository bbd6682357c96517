// Encodings of requests: the one named, the one inline, and what they need.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "server/status.h"
#include "tests/server/decode_test.h"
#include "tests/server/requests.h"

namespace attnd::server {
namespace {

using ::attnd::testing::MakeRequest;
using ::attnd::testing::SetTicks;
using ::testing::HasSubstr;

TEST_F(DecodeTest, UnknownEncodings) {
  request_.set_encoding("ropee");
  ExpectRefused(absl::StatusCode::kNotFound, "did you mean \"rope\"?");
  // Beside other faults it is one of them.
  request_.mutable_key()->set_data("");
  ExpectInvalid("encoding: \"ropee\" is not configured");
}

TEST_F(DecodeTest, EncodingsThatDoNotFit) {
  request_.set_encoding("two");
  ExpectInvalid("encoding: \"two\" does not fit");
  request_ = MakeRequest({.dim = 3});
  request_.set_encoding("rope");
  ExpectInvalid("encoding: \"rope\" does not fit");
}

TEST_F(DecodeTest, PositionEncodingsRefuseRealUnits) {
  request_.set_encoding("steps");
  request_.mutable_mask()->set_causal(v1::CAUSALITY_TIME);
  ExpectAccepted();
  SetTimes();
  ExpectInvalid("send ticks in POSITIONS");
  ExpectInvalid("give the encoding a time_unit");
  request_.mutable_query_time()->set_units(0, v1::TICK_UNIT_POSITIONS);
  request_.mutable_key_time()->set_units(0, v1::TICK_UNIT_POSITIONS);
  ExpectAccepted();
  SetRealTimes({1, 2}, {0, 1, 2});
  ExpectInvalid("send ticks in POSITIONS");
}

// Counting keys needs no unit.
TEST_F(DecodeTest, TemperaturesOfLengthsTakeAnyTimes) {
  inline_allowed_ = true;
  request_.mutable_inline_encoding()->mutable_query_temperature()->set_form(
      v1::QueryTemperature::FORM_LOG_LENGTH);
  ExpectAccepted();
  SetTimes();
  ExpectAccepted();
  SetRealTimes({1, 2}, {0, 1, 2});
  ExpectAccepted();
}

TEST_F(DecodeTest, TickRatios) {
  request_.set_encoding("alibi");
  EXPECT_EQ(Try()->problem.encoder->ratio(), kPositionRatio);
  SetTimes();
  request_.mutable_mask()->set_causal(v1::CAUSALITY_TIME);
  EXPECT_DOUBLE_EQ(Try()->problem.encoder->ratio().units_per_tick(), 1);
  request_.mutable_query_time()->set_units(0, v1::TICK_UNIT_MICROSECONDS);
  request_.mutable_key_time()->set_units(0, v1::TICK_UNIT_MICROSECONDS);
  EXPECT_DOUBLE_EQ(Try()->problem.encoder->ratio().units_per_tick(), 1e-6);
  request_.mutable_query_time()->set_units(0, v1::TICK_UNIT_POSITIONS);
  request_.mutable_key_time()->set_units(0, v1::TICK_UNIT_POSITIONS);
  EXPECT_DOUBLE_EQ(Try()->problem.encoder->ratio().units_per_tick(), 1);
}

TEST_F(DecodeTest, TheRequestMayChooseTheTwoSidedRule) {
  request_.set_encoding("alibi");
  EXPECT_TRUE(Try()->problem.encoder->one_sided());
  request_.set_two_sided(v1::TWO_SIDED_RULE_ABSOLUTE_LAG);
  EXPECT_FALSE(Try()->problem.encoder->one_sided());
}

// A length counts what was there to see: neither padding nor what ranges of
// time leave out, whatever causality and windows hide from some queries.
TEST_F(DecodeTest, LengthsOfScalingsAreThoseOfValidKeys) {
  request_.set_encoding("dynamic");
  SetTimes();  // keys at 0, 10 and 20
  const auto length = [this] {
    const auto decoded = Try();
    EXPECT_TRUE(decoded.ok()) << decoded.status();
    return decoded->problem.item_encoders.at(0)->sizes().length;
  };
  v1::Mask& mask = *request_.mutable_mask();
  mask.set_causal(v1::CAUSALITY_TIME);
  mask.set_past_ticks(1);
  EXPECT_EQ(length(), 3);
  v1::TimeRange& range = *mask.add_key_ranges();
  range.set_begin_ticks(5);
  range.set_end_ticks(20);
  EXPECT_EQ(length(), 2);
  mask.set_key_validity(std::string("\1\0\1", 3));
  EXPECT_EQ(length(), 1);
  mask.clear_key_ranges();
  EXPECT_EQ(length(), 2);
  mask.clear_key_validity();
  mask.add_key_lengths(1);
  EXPECT_EQ(length(), 1);
  // By position and by real times.
  mask.clear_key_lengths();
  mask.clear_past_ticks();
  SetRealTimes({10, 20}, {0, 10.5, 20});
  v1::TimeRange& real = *mask.add_key_ranges();
  real.set_begin_time(10.5);
  real.set_end_time(11);
  EXPECT_EQ(length(), 1);
  request_.clear_query_time();
  request_.clear_key_time();
  mask.mutable_key_ranges(0)->Clear();
  mask.mutable_key_ranges(0)->set_end_ticks(1);
  EXPECT_EQ(length(), 2);
}

TEST_F(DecodeTest, InlineEncodings) {
  v1::Encoding& encoding = *request_.mutable_inline_encoding();
  encoding.set_time_unit("1s");
  encoding.add_biases()->mutable_alibi()->set_two_sided(true);
  ExpectRefused(absl::StatusCode::kPermissionDenied, "inline_encoding");
  inline_allowed_ = true;
  ExpectAccepted();
  EXPECT_EQ(Try()->encoding_name, "inline");
  EXPECT_EQ(catalog_.inline_encoders().size(), 1u);
  encoding.add_biases()->mutable_kerple();
  ExpectInvalid("inline_encoding.biases[1].kerple");
  encoding.mutable_biases()->RemoveLast();
  encoding.clear_time_unit();
  ExpectInvalid("inline_encoding.time_unit: required");
}

// Neither eigenvalues nor anything else that takes long is found on the thread
// that asks first; what is wrong with them is told by the one that compiles.
TEST_F(DecodeTest, DenseBlocksOfRequestsAreCheckedWhereTheyAreCompiled) {
  inline_allowed_ = true;
  SetTimes();
  v1::Encoding& encoding = *request_.mutable_inline_encoding();
  encoding.set_time_unit("1s");
  v1::Dense& dense = *encoding.add_blocks()->mutable_dense();
  dense.set_dim(2);
  for (const double x : {1, 0, 0, 1}) dense.add_matrix(x);  // grows
  const auto decode = [&](Compiling compiling, bool stopped) {
    const std::atomic<bool> stop{stopped};
    return Decode(request_,
                  {.encodings = catalog_,
                   .limits = config_.effective.limits(),
                   .inline_encodings_allowed = true,
                   .compiling = compiling,
                   .stop = &stop},
                  Payload::kPresent)
        .status();
  };
  EXPECT_TRUE(IsWorkerNeeded(decode(Compiling::kNo, false)));
  EXPECT_EQ(decode(Compiling::kYes, true).code(), absl::StatusCode::kCancelled);
  ExpectInvalid("inline_encoding.blocks[0].dense.matrix");
  for (int i = 0; i < 4; ++i) dense.set_matrix(i, i == 0 || i == 3 ? -1 : 0);
  EXPECT_TRUE(decode(Compiling::kYes, false).ok());
  EXPECT_TRUE(decode(Compiling::kNo, false).ok()) << "in the cache";
}

// With one axis it is of the class; with more it turns by places, of which the
// request must have as many coordinates.
TEST_F(DecodeTest, LieReOfSeveralAxesTakesTimesWithAsMany) {
  inline_allowed_ = true;
  v1::Encoding& encoding = *request_.mutable_inline_encoding();
  encoding.set_time_unit("1s");
  v1::LieRe& liere = *encoding.mutable_preset()->mutable_liere();
  liere.set_tile(4);
  for (double x : {1, 0, 0, 0, 0, 0}) liere.add_generators(x);
  ExpectAccepted();
  EXPECT_TRUE(
      Try()->problem.encoder->head(0).generator().free_rotations().empty());
  liere.set_coordinates(2);
  ExpectInvalid("preset.liere.generators: 6 entries");
  for (double x : {0, 0, 1, 0, 0, 0}) liere.add_generators(x);
  const auto decoded = Try();
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_THAT(std::string(Plan::Make(decoded->problem).status().message()),
              HasSubstr("query_time.coordinates: 1, the encoding uses 2"));
  for (auto* axis :
       {request_.mutable_query_time(), request_.mutable_key_time()}) {
    const int64_t rows = axis == request_.mutable_query_time() ? 2 : 3;
    SetTicks(std::vector<int64_t>(2 * rows, 7), v1::TICK_UNIT_SECONDS, *axis);
    axis->set_shape(0, rows);
    axis->add_shape(2);
    axis->add_units(v1::TICK_UNIT_SECONDS);
    axis->set_coordinates(2);
  }
  ExpectAccepted();
}

}  // namespace
}  // namespace attnd::server
