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
  const auto sizes = MeasureReply(kSizes, kAll, DType::kF32, kNoLimit);
  ASSERT_TRUE(sizes.ok());
  ReplyTensors tensors;
  const OutputBuffers buffers =
      tensors.Allocate({}, kSizes, kAll, DType::kF32, *sizes);
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
  const auto sizes = MeasureReply(kSizes, lse, DType::kF32, kNoLimit);
  ReplyTensors tensors;
  const OutputBuffers buffers =
      tensors.Allocate({}, kSizes, lse, DType::kF32, *sizes);
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
  const auto sizes = MeasureReply(kSizes, {}, DType::kF32, kNoLimit);
  ReplyTensors tensors;
  const OutputBuffers buffers =
      tensors.Allocate(request, kSizes, {}, DType::kF32, *sizes);
  std::fill(buffers.output.begin(), buffers.output.end(), 1.0f);
  const v1::AttendResponse reply = Parse(tensors.Serialize({}));
  EXPECT_EQ(reply.output().layout(), v1::LAYOUT_BLHD);
  EXPECT_THAT(reply.output().shape(), ElementsAre(2, 7, 6, 5));
}

TEST(ReplyTensors, TopKeysAreOneMessageAndHalvesAreHalves) {
  const OutputSet outputs = {.output = true, .key_mass = true, .top_k = 50};
  v1::AttendRequest request;
  request.mutable_key_time();
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const auto sizes = MeasureReply(kSizes, outputs, dtype, kNoLimit);
    ASSERT_TRUE(sizes.ok());
    ReplyTensors tensors;
    const OutputBuffers buffers =
        tensors.Allocate(request, kSizes, outputs, dtype, *sizes);
    EXPECT_TRUE(buffers.output.empty());
    std::iota(buffers.halves.begin(), buffers.halves.end(), uint16_t{1});
    std::iota(buffers.top_rows.begin(), buffers.top_rows.end(), int64_t{-3});
    std::iota(buffers.top_weights.begin(), buffers.top_weights.end(), 0.5f);
    std::iota(buffers.top_times.begin(), buffers.top_times.end(), int64_t{9});
    std::fill(buffers.key_mass.begin(), buffers.key_mass.end(), 2.0f);
    for (uint64_t sum : buffers.key_sums) EXPECT_EQ(sum, 0u);
    const v1::AttendResponse reply = Parse(tensors.Serialize({}));
    EXPECT_EQ(reply.output().dtype(),
              dtype == DType::kBF16 ? v1::DTYPE_BF16 : v1::DTYPE_F16);
    EXPECT_EQ(FromBytes<uint16_t>(reply.output().data()).back(), 2 * 6 * 7 * 5);
    EXPECT_EQ(reply.top_k().k(), 50);
    EXPECT_EQ(FromBytes<int64_t>(reply.top_k().indices()).back(),
              2 * 6 * 7 * 50 - 4);
    EXPECT_THAT(reply.top_k().weights().shape(), ElementsAre(2, 6, 7, 50));
    EXPECT_EQ(FromBytes<float>(reply.top_k().weights().data())[3], 3.5f);
    EXPECT_EQ(FromBytes<int64_t>(reply.top_k().times())[1], 10);
    EXPECT_THAT(reply.key_mass().shape(), ElementsAre(2, 6, 40));
    EXPECT_LE(static_cast<int64_t>(reply.ByteSizeLong()), sizes->bytes);
  }
}

TEST(ReplyTensors, MayBeEmpty) {
  RequestSizes empty = kSizes;
  empty.queries = 0;
  const auto sizes = MeasureReply(empty, kAll, DType::kF32, kNoLimit);
  ReplyTensors tensors;
  tensors.Allocate({}, empty, kAll, DType::kF32, *sizes);
  const v1::AttendResponse reply = Parse(tensors.Serialize({}));
  EXPECT_THAT(reply.output().shape(), ElementsAre(2, 6, 0, 5));
  EXPECT_TRUE(reply.output().data().empty());
}

TEST(MeasureReply, RefusesWhatCannotBeSent) {
  const auto sizes = MeasureReply(kSizes, kAll, DType::kF32, 1000);
  EXPECT_EQ(sizes.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(ToRpcError(sizes.status()).retry_delay);
  RequestSizes huge = kSizes;
  huge.queries = huge.keys = int64_t{1} << 31;
  EXPECT_EQ(MeasureReply(huge, kAll, DType::kF32, kNoLimit).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace attnd::server
