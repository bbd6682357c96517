// Masks of requests: windows, lengths, causality, ranges, packed items.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "tests/server/decode_test.h"
#include "tests/server/requests.h"

namespace attnd::server {
namespace {

using ::attnd::testing::MakeRequest;
using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST_F(DecodeTest, Windows) {
  SetTimes();
  request_.mutable_mask()->set_past_ticks(5);
  request_.mutable_mask()->set_future_ticks(0);
  ExpectAccepted();
  request_.mutable_mask()->set_past_ticks(-5);
  ExpectInvalid("mask.past_ticks: -5, expected >= 0");
  request_.mutable_mask()->clear_past_ticks();
  request_.mutable_mask()->set_past_time(1);
  ExpectInvalid("mask.past_time: times are integer: use past_ticks");
  request_.mutable_mask()->Clear();
  SetRealTimes({1, 2}, {0, 1, 2});
  request_.mutable_mask()->set_future_ticks(1);
  ExpectInvalid("mask.future_ticks: times are F64: use future_time");
  request_.mutable_mask()->clear_future_ticks();
  request_.mutable_mask()->set_future_time(kNan);
  ExpectInvalid("mask.future_time: nan");
  request_.mutable_mask()->set_future_time(kInfinity);
  ExpectAccepted();
}

TEST_F(DecodeTest, LengthsAndValidity) {
  request_.mutable_mask()->add_query_lengths(3);
  ExpectInvalid("mask.query_lengths: entry 0 is 3, expected 0 to 2");
  request_.mutable_mask()->set_query_lengths(0, 1);
  request_.mutable_mask()->add_key_lengths(1);
  request_.mutable_mask()->add_key_lengths(1);
  ExpectInvalid("mask.key_lengths: 2 entries, expected one per batch item (1)");
  request_.mutable_mask()->clear_key_lengths();
  request_.mutable_mask()->set_key_validity("1234");
  ExpectInvalid("mask.key_validity: 4 bytes, expected 3");
}

TEST_F(DecodeTest, AHundredThousandWrongEntriesAreOneViolation) {
  request_ = MakeRequest(
      {.batch = 60000, .queries = 1, .keys = 1, .dim = 1, .value_dim = 1});
  for (int i = 0; i < 60000; ++i) request_.mutable_mask()->add_key_lengths(7);
  ExpectInvalid(
      "mask.key_lengths: entry 0 is 7, expected 0 to 1 (first of "
      "60000)");
}

TEST_F(DecodeTest, StrictNeedsCausality) {
  request_.mutable_mask()->set_strict(true);
  ExpectInvalid("mask.strict");
  request_.mutable_mask()->set_causal(v1::CAUSALITY_TIME);
  ExpectAccepted();
}

TEST_F(DecodeTest, CausalityByIndexIsNotByTime) {
  request_.mutable_mask()->set_causal(v1::CAUSALITY_INDEX);
  SetTimes();
  ExpectAccepted();
  EXPECT_TRUE(Try()->problem.mask.causal_index);
  EXPECT_FALSE(Try()->problem.mask.causal);
}

TEST_F(DecodeTest, MasksBeyondTime) {
  v1::Mask& mask = *request_.mutable_mask();
  mask.set_past_keys(2);
  mask.set_future_keys(0);
  mask.set_prefix(1);
  mask.add_key_ranges()->set_end_ticks(1);
  mask.add_sinks(0.5f);
  mask.set_value_channel_mask(std::string(12, '\1'));
  request_.set_softcap(30);
  ExpectAccepted();
  const AttentionProblem problem = Try()->problem;
  EXPECT_EQ(problem.mask.past_keys, 2);
  EXPECT_EQ(problem.mask.future_keys, 0);
  EXPECT_EQ(problem.mask.prefix, 1);
  EXPECT_EQ(problem.mask.key_ranges[0].end_ticks, 1);
  EXPECT_EQ(problem.sinks[0], 0.5f);
  EXPECT_EQ(problem.softcap, 30);
  mask.set_past_keys(-1);
  mask.set_prefix(-2);
  mask.mutable_key_ranges(0)->set_begin_ticks(2);
  mask.set_sinks(0, static_cast<float>(kInfinity));
  mask.set_value_channel_mask("1");
  const absl::Status status = Try().status();
  for (const char* text :
       {"mask.past_keys: -1, expected >= 0", "mask.prefix: -2",
        "mask.key_ranges: entry 0 ends before it begins",
        "mask.sinks: entry 0 is inf",
        "mask.value_channel_mask: 1 bytes, expected 12 ([B,Lk,Dv])"}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }
}

TEST_F(DecodeTest, PackedItems) {
  v1::Mask& mask = *request_.mutable_mask();
  for (int64_t offset : {0, 1, 2}) mask.add_query_offsets(offset);
  ExpectInvalid("mask.key_offsets: 0 entries beside 3 query_offsets");
  for (int64_t offset : {0, 3, 2}) mask.add_key_offsets(offset);
  ExpectInvalid("mask.key_offsets: expected offsets from 0 to 3");
  mask.set_key_offsets(2, 3);
  ExpectAccepted();
  EXPECT_EQ(ItemCount(Try()->problem), 2);
  mask.add_key_lengths(3);
  ExpectInvalid("mask.query_offsets: offsets and lengths exclude each other");
}

}  // namespace
}  // namespace attnd::server
