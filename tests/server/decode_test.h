// Decodes one request, which tests change, with a catalog of a few encodings.
#ifndef ATTND_TESTS_SERVER_DECODE_TEST_H_
#define ATTND_TESTS_SERVER_DECODE_TEST_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/config.h"
#include "server/decode.h"
#include "tests/server/requests.h"

namespace attnd::server {

class DecodeTest : public ::testing::Test {
 protected:
  absl::StatusOr<DecodedRequest> Try(Payload payload = Payload::kPresent) {
    return Decode(request_,
                  {.encodings = catalog_,
                   .limits = config_.effective.limits(),
                   .inline_encodings_allowed = inline_allowed_},
                  payload);
  }
  void ExpectAccepted() {
    const auto decoded = Try();
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    const auto plan = Plan::Make(decoded->problem);
    EXPECT_TRUE(plan.ok()) << plan.status();
  }
  void ExpectRefused(absl::StatusCode code, const std::string& text) {
    const auto decoded = Try();
    ASSERT_FALSE(decoded.ok()) << "accepted; expected: " << text;
    EXPECT_EQ(decoded.status().code(), code) << decoded.status();
    EXPECT_THAT(std::string(decoded.status().message()),
                ::testing::HasSubstr(text));
  }
  void ExpectInvalid(const std::string& text) {
    ExpectRefused(absl::StatusCode::kInvalidArgument, text);
  }
  void SetTimes() {
    testing::SetTicks({10, 20}, v1::TICK_UNIT_SECONDS,
                      *request_.mutable_query_time());
    testing::SetTicks({0, 10, 20}, v1::TICK_UNIT_SECONDS,
                      *request_.mutable_key_time());
  }
  void SetRealTimes(const std::vector<double>& query,
                    const std::vector<double>& key) {
    testing::SetReal(query, *request_.mutable_query_time());
    testing::SetReal(key, *request_.mutable_key_time());
  }

  const Config config_ = *ParseConfig(R"(
encodings:
  - {name: alibi, time_unit: 1s, biases: [{alibi: {}}]}
  - {name: rope, time_unit: 1s, blocks: [{rotary: {pair_layout: half_split}}]}
  - {name: steps, time_unit: position, biases: [{alibi: {}}]}
  - name: dynamic
    time_unit: 1s
    blocks:
      - rotary:
          pair_layout: half_split
          dynamic_ntk: {factor: 2, original_length: 1}
  - {name: two, time_unit: 1s, biases: [{alibi: {slopes: [1, 2]}}]}
)",
                                      "a.yaml", Machine{});
  const EncodingCatalog catalog_{config_.effective.encodings(), 4};
  bool inline_allowed_ = false;
  // B1 H1 Lq2 Lk3 D4.
  v1::AttendRequest request_ = testing::MakeRequest({});
};

}  // namespace attnd::server

#endif  // ATTND_TESTS_SERVER_DECODE_TEST_H_
