#include "server/reply.h"

#include <optional>
#include <utility>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "proto/wire.h"
#include "server/status.h"

namespace attnd::server {
namespace {

// Room in a reply for everything but tensor data.
constexpr int64_t kReplyOverheadBytes = 1024;

// Smaller tensors go into the text: a slice of their own costs more.
constexpr size_t kCopiedBytes = 4096;

// The tag of a length-delimited field.
constexpr uint32_t Tag(int field) {
  return static_cast<uint32_t>(field) << 3 | 2;
}

}  // namespace

absl::StatusOr<ReplySizes> MeasureReply(const RequestSizes& s,
                                        const OutputSet& outputs,
                                        int64_t limit) {
  // Rows fit: the query tensor with as many exists or was counted.
  const int64_t rows = s.batch * s.query_heads * s.queries;
  const auto per_row = [&](bool wanted, int64_t columns) {
    return wanted ? wire::CheckedMultiply(rows, columns) : 0;
  };
  const std::optional<int64_t> output = per_row(outputs.output, s.value_dim);
  const std::optional<int64_t> lse = per_row(outputs.lse, 1);
  const std::optional<int64_t> scores = per_row(outputs.scores, s.keys);
  const std::optional<int64_t> weights = per_row(outputs.weights, s.keys);
  double bytes = kReplyOverheadBytes;
  for (const auto& elements : {output, lse, scores, weights}) {
    bytes += 4.0 * static_cast<double>(elements.value_or(INT64_MAX));
  }
  if (bytes > static_cast<double>(limit)) {
    return RefuseSize("the reply with the outputs asked for", bytes,
                      "limits.message_bytes", static_cast<double>(limit),
                      "bytes");
  }
  return ReplySizes{.output = *output,
                    .lse = *lse,
                    .scores = *scores,
                    .weights = *weights,
                    .bytes = static_cast<int64_t>(bytes)};
}

// The shape is given in BHLD order.
absl::Span<float> ReplyTensors::Add(int field, int64_t elements,
                                    v1::Layout layout,
                                    absl::Span<const int64_t> shape) {
  Entry& entry = entries_.emplace_back();
  entry.field = field;
  entry.bytes = static_cast<size_t>(elements) * sizeof(float);
  entry.head.set_dtype(v1::DTYPE_F32);
  entry.head.mutable_shape()->Add(shape.begin(), shape.end());
  if (shape.size() == 4) {
    entry.head.set_layout(layout);
    if (layout == v1::LAYOUT_BLHD) {
      entry.head.mutable_shape()->SwapElements(1, 2);
    }
  }
  return absl::Span<float>(entry.data.Reserve(elements),
                           static_cast<size_t>(elements));
}

OutputBuffers ReplyTensors::Allocate(const v1::AttendRequest& request,
                                     const RequestSizes& s,
                                     const OutputSet& outputs,
                                     const ReplySizes& reply_sizes) {
  const v1::Layout layout = request.query().layout() == v1::LAYOUT_BLHD
                                ? v1::LAYOUT_BLHD
                                : v1::LAYOUT_BHLD;
  OutputBuffers buffers;
  if (outputs.output) {
    buffers.output =
        Add(v1::AttendResponse::kOutputFieldNumber, reply_sizes.output, layout,
            {s.batch, s.query_heads, s.queries, s.value_dim});
  }
  if (outputs.lse) {
    buffers.lse = Add(v1::AttendResponse::kLseFieldNumber, reply_sizes.lse,
                      layout, {s.batch, s.query_heads, s.queries});
  }
  if (outputs.scores) {
    buffers.scores =
        Add(v1::AttendResponse::kScoresFieldNumber, reply_sizes.scores,
            v1::LAYOUT_BHLD, {s.batch, s.query_heads, s.queries, s.keys});
  }
  if (outputs.weights) {
    buffers.weights =
        Add(v1::AttendResponse::kWeightsFieldNumber, reply_sizes.weights,
            v1::LAYOUT_BHLD, {s.batch, s.query_heads, s.queries, s.keys});
  }
  return buffers;
}

ReplyPieces ReplyTensors::Serialize(const v1::AttendResponse& head) {
  using google::protobuf::io::CodedOutputStream;
  ReplyPieces pieces(1);
  pieces.back().text = head.SerializeAsString();
  for (Entry& entry : entries_) {
    const auto bytes = static_cast<uint32_t>(entry.bytes);
    const size_t data_field =
        bytes == 0 ? 0 : 1 + CodedOutputStream::VarintSize32(bytes) + bytes;
    {
      google::protobuf::io::StringOutputStream text(&pieces.back().text);
      CodedOutputStream out(&text);
      out.WriteTag(Tag(entry.field));
      out.WriteVarint32(
          static_cast<uint32_t>(entry.head.ByteSizeLong() + data_field));
      entry.head.SerializeToCodedStream(&out);
      if (bytes > 0) {
        out.WriteTag(Tag(v1::Tensor::kDataFieldNumber));
        out.WriteVarint32(bytes);
        if (bytes <= kCopiedBytes) {
          out.WriteRaw(entry.data.data(), static_cast<int>(bytes));
        }
      }
    }
    if (bytes > kCopiedBytes) {
      pieces.back().data = std::move(entry.data);
      pieces.back().data_bytes = bytes;
      pieces.emplace_back();
    }
  }
  entries_.clear();
  return pieces;
}

}  // namespace attnd::server
