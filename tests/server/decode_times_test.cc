// Times and clocks of requests: pairs, units, shapes, finite where valid.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/server/decode_test.h"
#include "tests/server/requests.h"

namespace attnd::server {
namespace {

using ::attnd::testing::MakeRequest;
using ::attnd::testing::SetReal;
using ::attnd::testing::SetTicks;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST_F(DecodeTest, TimesComeInPairs) {
  SetTicks({10, 20}, v1::TICK_UNIT_SECONDS, *request_.mutable_query_time());
  ExpectInvalid("key_time: required");
  request_.clear_query_time();
  SetTicks({0, 1, 2}, v1::TICK_UNIT_SECONDS, *request_.mutable_key_time());
  ExpectInvalid("query_time: required");
}

TEST_F(DecodeTest, TimesMustAgree) {
  SetTimes();
  request_.mutable_key_time()->set_units(0, v1::TICK_UNIT_MILLISECONDS);
  ExpectInvalid("key_time.units");
  SetTimes();
  SetReal({0, 1, 2}, *request_.mutable_key_time());
  ExpectInvalid("key_time.type");
}

TEST_F(DecodeTest, TickUnitsAreRequired) {
  SetTimes();
  request_.mutable_query_time()->clear_units();
  ExpectInvalid("query_time.units: required");
  SetTimes();
  request_.mutable_query_time()->set_units(0, v1::TICK_UNIT_UNSPECIFIED);
  ExpectInvalid("query_time.units: entry 0 is TICK_UNIT_UNSPECIFIED, expected");
  request_.mutable_query_time()->set_units(0, static_cast<v1::TickUnit>(99));
  ExpectInvalid("query_time.units: entry 0 is 99, expected");
  SetRealTimes({1, 2}, {0, 1, 2});  // none: seconds
  ExpectAccepted();
  request_.mutable_query_time()->add_units(v1::TICK_UNIT_NANOSECONDS);
  ExpectInvalid("query_time.units: entry 0 is TICK_UNIT_NANOSECONDS, expected");
}

TEST_F(DecodeTest, TimeShapes) {
  SetTimes();
  SetTicks({0, 10, 20, 30}, v1::TICK_UNIT_SECONDS,
           *request_.mutable_key_time());
  ExpectInvalid("key_time.shape: [4], expected [3] or [1,3]");
  SetTimes();
  request_.mutable_key_time()->set_data("1234567");
  ExpectInvalid("key_time.data: 7 bytes, expected 24");
  SetTimes();
  request_.mutable_key_time()->mutable_shape()->Clear();
  request_.mutable_key_time()->add_shape(1);
  request_.mutable_key_time()->add_shape(3);
  ExpectAccepted();
}

TEST_F(DecodeTest, NanTimesAreRefusedWhereValid) {
  SetRealTimes({1, kNan}, {0, kInfinity, 2});
  const absl::Status status = Try().status();
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("query_time.data: item 0, row 1 is nan"),
                    HasSubstr("key_time.data: item 0, row 1 is inf")));
  // Padding may hold anything.
  request_.mutable_mask()->add_query_lengths(1);
  request_.mutable_mask()->set_key_validity(std::string("\1\0\1", 3));
  ExpectAccepted();
}

TEST_F(DecodeTest, ManyNansAreOneViolationWithACount) {
  request_ =
      MakeRequest({.queries = 1, .keys = 100000, .dim = 1, .value_dim = 1});
  SetRealTimes({0}, std::vector<double>(100000, kNan));
  ExpectInvalid(
      "key_time.data: item 0, row 0 is nan, expected finite (first "
      "of 100000)");
}

TEST_F(DecodeTest, SeveralCoordinatesNeedAnAxisOfThem) {
  SetTimes();
  request_.mutable_query_time()->set_coordinates(2);
  request_.mutable_key_time()->set_coordinates(2);
  ExpectInvalid("query_time.shape");
}

TEST_F(DecodeTest, ClocksAndGatesAreChecked) {
  request_.mutable_query_clock();
  ExpectInvalid("query_clock.dtype");
  request_ = MakeRequest({});
  request_.mutable_gates()->set_dtype(v1::DTYPE_F32);
  request_.mutable_gates()->add_shape(7);
  ExpectInvalid("gates.shape");
}

}  // namespace
}  // namespace attnd::server
