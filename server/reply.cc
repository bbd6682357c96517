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

// Tag and length of a length-delimited field of `bytes` bytes.
void AppendLength(int field, size_t bytes, std::string& text) {
  google::protobuf::io::StringOutputStream stream(&text);
  google::protobuf::io::CodedOutputStream out(&stream);
  out.WriteTag(static_cast<uint32_t>(field) << 3 | 2);
  out.WriteVarint32(static_cast<uint32_t>(bytes));
}

// A serialized Tensor up to its data. The shape is given in BHLD order.
std::string TensorHead(v1::DType dtype, v1::Layout layout,
                       absl::Span<const int64_t> shape, size_t bytes) {
  v1::Tensor tensor;
  tensor.set_dtype(dtype);
  tensor.mutable_shape()->Add(shape.begin(), shape.end());
  if (shape.size() == 4) {
    tensor.set_layout(layout);
    if (layout == v1::LAYOUT_BLHD) tensor.mutable_shape()->SwapElements(1, 2);
  }
  std::string head = tensor.SerializeAsString();
  if (bytes > 0) AppendLength(v1::Tensor::kDataFieldNumber, bytes, head);
  return head;
}

}  // namespace

absl::StatusOr<ReplySizes> MeasureReply(const RequestSizes& s,
                                        const OutputSet& outputs,
                                        DType output_dtype, int64_t limit) {
  // Rows fit: the query tensor with as many exists or was counted.
  const int64_t rows = s.batch * s.query_heads * s.queries;
  const auto per_row = [&](bool wanted, int64_t columns) {
    return wanted ? wire::CheckedMultiply(rows, columns) : 0;
  };
  const std::optional<int64_t> output = per_row(outputs.output, s.value_dim);
  const std::optional<int64_t> lse = per_row(outputs.lse, 1);
  const std::optional<int64_t> scores = per_row(outputs.scores, s.keys);
  const std::optional<int64_t> weights = per_row(outputs.weights, s.keys);
  const std::optional<int64_t> entropy = per_row(outputs.entropy, 1);
  const std::optional<int64_t> top = per_row(outputs.top_k > 0, outputs.top_k);
  const std::optional<int64_t> mass =
      outputs.key_mass ? wire::CheckedMultiply(s.batch * s.query_heads, s.keys)
                       : 0;
  double bytes = kReplyOverheadBytes;
  const auto add = [&bytes](const std::optional<int64_t>& elements,
                            int64_t element_bytes) {
    bytes += static_cast<double>(element_bytes) *
             static_cast<double>(elements.value_or(INT64_MAX));
  };
  add(output, ElementBytes(output_dtype));
  for (const auto& elements : {lse, scores, weights, entropy, mass}) {
    add(elements, 4);
  }
  add(top, 8 + 4 + 8);
  if (bytes > static_cast<double>(limit)) {
    return RefuseSize("the reply with the outputs asked for", bytes,
                      "limits.message_bytes", static_cast<double>(limit),
                      "bytes");
  }
  return ReplySizes{.output = *output,
                    .lse = *lse,
                    .scores = *scores,
                    .weights = *weights,
                    .entropy = *entropy,
                    .key_mass = *mass,
                    .top = *top,
                    .bytes = static_cast<int64_t>(bytes)};
}

template <typename T>
absl::Span<T> ReplyTensors::Take(Part& part, int64_t elements) {
  part.bytes = static_cast<size_t>(elements) * sizeof(T);
  const auto floats = static_cast<int64_t>((part.bytes + 3) / sizeof(float));
  return absl::Span<T>(reinterpret_cast<T*>(part.data.Reserve(floats)),
                       static_cast<size_t>(elements));
}

// The shape is given in BHLD order.
template <typename T>
absl::Span<T> ReplyTensors::AddTensor(int field, v1::DType dtype,
                                      v1::Layout layout,
                                      absl::Span<const int64_t> shape,
                                      int64_t elements) {
  Entry& entry = entries_.emplace_back();
  entry.field = field;
  Part& part = entry.parts.emplace_back();
  const absl::Span<T> values = Take<T>(part, elements);
  part.head = TensorHead(dtype, layout, shape, part.bytes);
  return values;
}

void ReplyTensors::AddTopKeys(const RequestSizes& s, int64_t top_k, bool times,
                              int64_t elements, OutputBuffers& buffers) {
  Entry& entry = entries_.emplace_back();
  entry.field = v1::AttendResponse::kTopKFieldNumber;
  entry.parts.resize(times ? 3 : 2);
  Part& rows = entry.parts[0];
  buffers.top_rows = Take<int64_t>(rows, elements);
  v1::TopK head;
  head.set_k(static_cast<int32_t>(top_k));
  rows.head = head.SerializeAsString();
  AppendLength(v1::TopK::kIndicesFieldNumber, rows.bytes, rows.head);

  Part& weights = entry.parts[1];
  buffers.top_weights = Take<float>(weights, elements);
  const std::string tensor =
      TensorHead(v1::DTYPE_F32, v1::LAYOUT_BHLD,
                 {s.batch, s.query_heads, s.queries, top_k}, weights.bytes);
  AppendLength(v1::TopK::kWeightsFieldNumber, tensor.size() + weights.bytes,
               weights.head);
  weights.head += tensor;
  if (!times) return;
  Part& time = entry.parts[2];
  buffers.top_times = Take<int64_t>(time, elements);
  AppendLength(v1::TopK::kTimesFieldNumber, time.bytes, time.head);
}

OutputBuffers ReplyTensors::Allocate(const v1::AttendRequest& request,
                                     const RequestSizes& s,
                                     const OutputSet& outputs,
                                     DType output_dtype,
                                     const ReplySizes& reply_sizes) {
  using v1::AttendResponse;
  const v1::Layout layout = request.query().layout() == v1::LAYOUT_BLHD
                                ? v1::LAYOUT_BLHD
                                : v1::LAYOUT_BHLD;
  const auto floats = [&](int field, absl::Span<const int64_t> shape,
                          int64_t elements) {
    return AddTensor<float>(field, v1::DTYPE_F32, v1::LAYOUT_BHLD, shape,
                            elements);
  };
  const int64_t rows[] = {s.batch, s.query_heads, s.queries};
  const int64_t pairs[] = {s.batch, s.query_heads, s.queries, s.keys};
  const int64_t keys[] = {s.batch, s.query_heads, s.keys};
  const int64_t values[] = {s.batch, s.query_heads, s.queries, s.value_dim};
  OutputBuffers buffers;
  if (outputs.output && output_dtype == DType::kF32) {
    buffers.output =
        AddTensor<float>(AttendResponse::kOutputFieldNumber, v1::DTYPE_F32,
                         layout, values, reply_sizes.output);
  } else if (outputs.output) {
    buffers.halves = AddTensor<uint16_t>(
        AttendResponse::kOutputFieldNumber,
        output_dtype == DType::kBF16 ? v1::DTYPE_BF16 : v1::DTYPE_F16, layout,
        values, reply_sizes.output);
  }
  if (outputs.lse) {
    buffers.lse =
        floats(AttendResponse::kLseFieldNumber, rows, reply_sizes.lse);
  }
  if (outputs.scores) {
    buffers.scores =
        floats(AttendResponse::kScoresFieldNumber, pairs, reply_sizes.scores);
  }
  if (outputs.weights) {
    buffers.weights =
        floats(AttendResponse::kWeightsFieldNumber, pairs, reply_sizes.weights);
  }
  if (outputs.top_k > 0) {
    AddTopKeys(s, outputs.top_k, request.has_key_time(), reply_sizes.top,
               buffers);
  }
  if (outputs.key_mass) {
    buffers.key_mass =
        floats(AttendResponse::kKeyMassFieldNumber, keys, reply_sizes.key_mass);
    key_sums_.assign(static_cast<size_t>(reply_sizes.key_mass), 0);
    buffers.key_sums = absl::MakeSpan(key_sums_);
  }
  if (outputs.entropy) {
    buffers.entropy =
        floats(AttendResponse::kEntropyFieldNumber, rows, reply_sizes.entropy);
  }
  return buffers;
}

ReplyPieces ReplyTensors::Serialize(const v1::AttendResponse& head) {
  ReplyPieces pieces(1);
  pieces.back().text = head.SerializeAsString();
  for (Entry& entry : entries_) {
    size_t bytes = 0;
    for (const Part& part : entry.parts) bytes += part.head.size() + part.bytes;
    AppendLength(entry.field, bytes, pieces.back().text);
    for (Part& part : entry.parts) {
      pieces.back().text += part.head;
      if (part.bytes <= kCopiedBytes) {
        pieces.back().text.append(
            reinterpret_cast<const char*>(part.data.data()), part.bytes);
        continue;
      }
      pieces.back().data = std::move(part.data);
      pieces.back().data_bytes = part.bytes;
      pieces.emplace_back();
    }
  }
  entries_.clear();
  return pieces;
}

}  // namespace attnd::server
