#include "server/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "attnd/rpc/v1/error_details.pb.h"
#include "server/text.h"
#include "server/violations.h"

namespace attnd::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The detail of that type; a default one if there is none.
template <typename Message>
Message Detail(const RpcError& error, const std::string& name) {
  rpc::v1::Status status;
  EXPECT_TRUE(status.ParseFromString(error.details));
  EXPECT_EQ(status.code(), error.code);
  EXPECT_EQ(status.message(), error.message);
  Message detail;
  for (const auto& any : status.details()) {
    if (any.type_url() == "type.googleapis.com/google.rpc." + name) {
      EXPECT_TRUE(detail.ParseFromString(any.value()));
    }
  }
  return detail;
}

TEST(Violations, NamesEveryFieldOnceWithACount) {
  Violations violations;
  violations.Add("query.shape", "5 axes, expected 4");
  for (int i = 0; i < 100000; ++i) {
    violations.Add("bias.data", absl::StrCat("element ", i, " is nan"));
  }
  const RpcError error = ToRpcError(violations.ToStatus());
  EXPECT_EQ(error.code, 3);
  EXPECT_THAT(
      error.message,
      AllOf(HasSubstr("query.shape: 5 axes"),
            HasSubstr("bias.data: element 0 is nan (first of 100000)")));
  const auto bad = Detail<rpc::v1::BadRequest>(error, "BadRequest");
  ASSERT_EQ(bad.field_violations_size(), 2);
  EXPECT_EQ(bad.field_violations(1).field(), "bias.data");
}

TEST(Violations, StayWithinTheirBounds) {
  Violations violations;
  for (int i = 0; i < 500; ++i) {
    violations.Add(absl::StrCat("field_", i, std::string(200, 'x')),
                   std::string(5000, 'y'));
  }
  const RpcError error = ToRpcError(violations.ToStatus());
  EXPECT_LT(error.message.size(), 1024u);
  EXPECT_LT(error.details.size(), 4096u);
  EXPECT_THAT(error.message, HasSubstr(" more"));
  const auto bad = Detail<rpc::v1::BadRequest>(error, "BadRequest");
  EXPECT_GT(bad.field_violations_size(), 1);
  EXPECT_THAT(bad.field_violations().rbegin()->description(),
              HasSubstr("and "));
}

TEST(Violations, TakesThePathOutOfAMessage) {
  Violations violations;
  violations.AddStatus(
      absl::InvalidArgumentError("blocks[1].rotary.base: -1, expected > 0"),
      "encodings[2].", "blocks");
  violations.AddStatus(absl::InvalidArgumentError("Something: odd"), "", "all");
  violations.AddStatus(absl::OkStatus(), "", "nothing");
  ASSERT_EQ(violations.list().size(), 2u);
  EXPECT_EQ(violations.list()[0].field, "encodings[2].blocks[1].rotary.base");
  EXPECT_EQ(violations.list()[0].description, "-1, expected > 0");
  EXPECT_EQ(violations.list()[1].field, "all");
}

TEST(Refuse, EveryReasonHasItsCode) {
  const std::pair<Reason, int> codes[] = {
      {Reason::kInvalid, 3},          {Reason::kUnknownEncoding, 5},
      {Reason::kForbidden, 7},        {Reason::kTooLarge, 8},
      {Reason::kMemory, 8},           {Reason::kQueueFull, 14},
      {Reason::kDraining, 14},        {Reason::kHopeless, 4},
      {Reason::kInternal, 13},        {Reason::kQuota, 8},
      {Reason::kUnauthenticated, 16}, {Reason::kDuplicateId, 3}};
  EXPECT_EQ(std::size(codes), std::size(kAllReasons));
  for (const auto& [reason, code] : codes) {
    const absl::Status status = Refuse(reason, "text");
    EXPECT_EQ(ToRpcError(status).code, code);
    EXPECT_EQ(ReasonOf(status), reason);
    const auto info =
        Detail<rpc::v1::ErrorInfo>(ToRpcError(status), "ErrorInfo");
    EXPECT_EQ(info.reason(), ReasonText(reason));
  }
}

TEST(Refuse, CarriesTheRetryDelay) {
  const RpcError error = ToRpcError(
      Refuse(Reason::kQueueFull, "full", std::chrono::milliseconds(1234)));
  ASSERT_TRUE(error.retry_delay);
  EXPECT_EQ(error.retry_delay->count(), 1234);
  const auto retry = Detail<rpc::v1::RetryInfo>(error, "RetryInfo");
  EXPECT_EQ(retry.retry_delay().seconds(), 1);
  EXPECT_EQ(retry.retry_delay().nanos(), 234000000);
  EXPECT_FALSE(ToRpcError(Refuse(Reason::kTooLarge, "no")).retry_delay);
}

TEST(RefuseEncoding, NamesWhatThereIs) {
  const std::vector<std::string> known = {"nope", "rope", "alibi"};
  const RpcError error = ToRpcError(RefuseEncoding("ropee", known));
  EXPECT_EQ(error.code, 5);
  EXPECT_THAT(
      error.message,
      HasSubstr("is not configured; did you mean \"rope\"? Known: nope, "
                "rope, alibi"));
  EXPECT_THAT(ToRpcError(RefuseEncoding("quite other", known)).message,
              HasSubstr("is not configured. Known: nope"));
  const auto info = Detail<rpc::v1::ResourceInfo>(error, "ResourceInfo");
  EXPECT_EQ(info.resource_name(), "ropee");
}

TEST(RefuseEncoding, IsBoundedHoweverMuchThereIs) {
  std::vector<std::string> known;
  for (int i = 0; i < 10000; ++i) known.push_back(absl::StrCat("name", i));
  const RpcError error =
      ToRpcError(RefuseEncoding(std::string(1 << 20, 'n'), known));
  EXPECT_LT(error.message.size(), 1024u);
  EXPECT_LT(error.details.size(), 4096u);
}

TEST(ToRpcError, NeverSaysUnknown) {
  EXPECT_EQ(ToRpcError(absl::UnknownError("?")).code, 13);
}

TEST(Clip, CutsBetweenCharacters) {
  EXPECT_EQ(Clip("abc", 3), "abc");
  EXPECT_EQ(Clip("abcdef", 5), "ab...");
  // Two-byte characters: the cut would fall into the second.
  EXPECT_EQ(Clip("\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4", 6), "\xC3\xA4...");
}

TEST(Nearest, IsNearOrNothing) {
  const std::vector<std::string> names = {"pair_layout", "base", "rotary_dim"};
  EXPECT_EQ(Nearest("pair_layuot", names), "pair_layout");
  EXPECT_EQ(Nearest("bases", names), "base");
  EXPECT_EQ(Nearest("completely_different", names), "");
}

}  // namespace
}  // namespace attnd::server
