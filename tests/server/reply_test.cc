#include "server/reply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "server/status.h"
#include "tests/server/requests.h"

namespace attnd::server {
namespace {

using ::attnd::testing::FromBytes;
using ::testing::ElementsAre;

constexpr RequestSizes kSizes = {.batch = 2,
                                 .query_heads = 6,
                                 .kv_heads = 3,
                                 .queries = 7,
                                 .keys = 40,
                                 .dim = 4,
                                 .value_dim = 5};
constexpr OutputSet kAll = {
    .output = true, .lse = true, .scores = true, .weights = true};
constexpr int64_t kNoLimit = int64_t{1} << 40;

// Parses the pieces as a client would.
v1::AttendResponse Parse(const std::vector<ReplyPiece>& pieces) {
  std::string bytes;
  for (const ReplyPiece& piece : pieces) {
    bytes += piece.text;
    if (piece.data_bytes > 0) {
      bytes.append(reinterpret_cast<const char*>(piece.data.data()),
                   piece.data_bytes);
    }
  }
  v1::AttendResponse reply;
  EXPECT_TRUE(reply.ParseFromString(bytes));
  return reply;
}

TEST(ReplyTensors, ArriveWithTheHeadAndTheirShapes) {
  const auto sizes = MeasureReply(kSizes, kAll, kNoLimit);
  ASSERT_TRUE(sizes.ok());
  ReplyTensors tensors;
  const OutputBuffers buffers = tensors.Allocate({}, kSizes, kAll, *sizes);
  float next = 0;
  for (absl::Span<float> buffer :
       {buffers.output, buffers.lse, buffers.scores, buffers.weights}) {
    for (float& x : buffer) x = next++;
  }
  v1::AttendResponse head;
  head.set_request_id("id");
  head.mutable_stats()->set_flops(7);
  const auto pieces = tensors.Serialize(head);
  EXPECT_GE(pieces.size(), 3u) << "large tensors are pieces of their own";
  const v1::AttendResponse reply = Parse(pieces);
  EXPECT_EQ(reply.request_id(), "id");
  EXPECT_EQ(reply.stats().flops(), 7);
  EXPECT_THAT(reply.output().shape(), ElementsAre(2, 6, 7, 5));
  EXPECT_THAT(reply.lse().shape(), ElementsAre(2, 6, 7));
  EXPECT_THAT(reply.scores().shape(), ElementsAre(2, 6, 7, 40));
  next = 0;
  for (const v1::Tensor* tensor :
       {&reply.output(), &reply.lse(), &reply.scores(), &reply.weights()}) {
    EXPECT_EQ(tensor->dtype(), v1::DTYPE_F32);
    for (float x : FromBytes<float>(tensor->data())) EXPECT_EQ(x, next++);
  }
  EXPECT_EQ(next, 2 * 6 * 7 * (5 + 1 + 40 + 40));
  EXPECT_LE(static_cast<int64_t>(reply.ByteSizeLong()), sizes->bytes);
}

TEST(ReplyTensors, OnlyThoseAskedFor) {
  const OutputSet lse = {.output = false, .lse = true};
  const auto sizes = MeasureReply(kSizes, lse, kNoLimit);
  ReplyTensors tensors;
  const OutputBuffers buffers = tensors.Allocate({}, kSizes, lse, *sizes);
  EXPECT_TRUE(buffers.output.empty());
  EXPECT_EQ(buffers.lse.size(), 2u * 6 * 7);
  std::fill(buffers.lse.begin(), buffers.lse.end(), 1.0f);
  const v1::AttendResponse reply = Parse(tensors.Serialize({}));
  EXPECT_FALSE(reply.has_output());
  EXPECT_TRUE(reply.has_lse());
}

TEST(ReplyTensors, FollowTheQuerysLayout) {
  v1::AttendRequest request;
  request.mutable_query()->set_layout(v1::LAYOUT_BLHD);
  const auto sizes = MeasureReply(kSizes, {}, kNoLimit);
  ReplyTensors tensors;
  const OutputBuffers buffers = tensors.Allocate(request, kSizes, {}, *sizes);
  std::fill(buffers.output.begin(), buffers.output.end(), 1.0f);
  const v1::AttendResponse reply = Parse(tensors.Serialize({}));
  EXPECT_EQ(reply.output().layout(), v1::LAYOUT_BLHD);
  EXPECT_THAT(reply.output().shape(), ElementsAre(2, 7, 6, 5));
}

TEST(ReplyTensors, MayBeEmpty) {
  RequestSizes empty = kSizes;
  empty.queries = 0;
  const auto sizes = MeasureReply(empty, kAll, kNoLimit);
  ReplyTensors tensors;
  tensors.Allocate({}, empty, kAll, *sizes);
  const v1::AttendResponse reply = Parse(tensors.Serialize({}));
  EXPECT_THAT(reply.output().shape(), ElementsAre(2, 6, 0, 5));
  EXPECT_TRUE(reply.output().data().empty());
}

TEST(MeasureReply, RefusesWhatCannotBeSent) {
  const auto sizes = MeasureReply(kSizes, kAll, 1000);
  EXPECT_EQ(sizes.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(ToRpcError(sizes.status()).retry_delay);
  RequestSizes huge = kSizes;
  huge.queries = huge.keys = int64_t{1} << 31;
  EXPECT_EQ(MeasureReply(huge, kAll, kNoLimit).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace attnd::server
