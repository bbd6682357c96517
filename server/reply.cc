#include "server/reply.h"

#include <optional>
#include <string>

#include "absl/types/span.h"
#include "proto/wire.h"
#include "server/status.h"
#include "server/uninitialized.h"

namespace attnd::server {
namespace {

// Room in a reply for everything but tensor data.
constexpr int64_t kReplyOverheadBytes = 1024;

// A reply tensor of `elements` f32; the shape is given in BHLD order.
absl::Span<float> AddTensor(int64_t elements, v1::Layout layout,
                            absl::Span<const int64_t> shape,
                            v1::Tensor& tensor) {
  tensor.set_dtype(v1::DTYPE_F32);
  tensor.mutable_shape()->Add(shape.begin(), shape.end());
  if (shape.size() == 4) {
    tensor.set_layout(layout);
    if (layout == v1::LAYOUT_BLHD) tensor.mutable_shape()->SwapElements(1, 2);
  }
  std::string& data = *tensor.mutable_data();
  ResizeUninitialized(data, static_cast<size_t>(elements) * sizeof(float));
  return absl::Span<float>(reinterpret_cast<float*>(data.data()),
                           static_cast<size_t>(elements));
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

OutputBuffers PrepareReply(const v1::AttendRequest& request,
                           const RequestSizes& s, const OutputSet& outputs,
                           const ReplySizes& reply_sizes,
                           v1::AttendResponse& reply) {
  const v1::Layout layout = request.query().layout() == v1::LAYOUT_BLHD
                                ? v1::LAYOUT_BLHD
                                : v1::LAYOUT_BHLD;
  OutputBuffers buffers;
  if (outputs.output) {
    buffers.output = AddTensor(reply_sizes.output, layout,
                               {s.batch, s.query_heads, s.queries, s.value_dim},
                               *reply.mutable_output());
  }
  if (outputs.lse) {
    buffers.lse =
        AddTensor(reply_sizes.lse, layout, {s.batch, s.query_heads, s.queries},
                  *reply.mutable_lse());
  }
  if (outputs.scores) {
    buffers.scores = AddTensor(reply_sizes.scores, v1::LAYOUT_BHLD,
                               {s.batch, s.query_heads, s.queries, s.keys},
                               *reply.mutable_scores());
  }
  if (outputs.weights) {
    buffers.weights = AddTensor(reply_sizes.weights, v1::LAYOUT_BHLD,
                                {s.batch, s.query_heads, s.queries, s.keys},
                                *reply.mutable_weights());
  }
  return buffers;
}

}  // namespace attnd::server
