#include "client/load/stream_messages.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <utility>

#include "attnd/rpc/v1/error_details.pb.h"
#include "attnd/v1/attention.pb.h"
#include "client/status_from_wire.h"

namespace attnd::client {
namespace {

using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;
using Wire = google::protobuf::internal::WireFormatLite;

constexpr uint32_t Tag(int field) {
  return static_cast<uint32_t>(field) << 3 | Wire::WIRETYPE_LENGTH_DELIMITED;
}

// Tag and length in front of `bytes` bytes.
std::string Head(int field, size_t bytes) {
  uint8_t head[16];
  uint8_t* end = CodedOutputStream::WriteTagToArray(Tag(field), head);
  end = CodedOutputStream::WriteVarint64ToArray(bytes, end);
  return std::string(reinterpret_cast<char*>(head), end - head);
}

}  // namespace

grpc::ByteBuffer StreamRequest(const std::vector<grpc::Slice>& request,
                               absl::string_view request_id) {
  const std::string id =
      Head(v1::AttendRequest::kRequestIdFieldNumber, request_id.size())
          .append(request_id.data(), request_id.size());
  size_t bytes = id.size();
  for (const grpc::Slice& slice : request) bytes += slice.size();
  std::vector<grpc::Slice> slices;
  slices.reserve(request.size() + 2);
  slices.emplace_back(
      Head(v1::AttendStreamRequest::kRequestFieldNumber, bytes));
  slices.insert(slices.end(), request.begin(), request.end());
  slices.emplace_back(id);
  return grpc::ByteBuffer(slices.data(), slices.size());
}

absl::StatusOr<StreamAnswer> ReadStreamAnswer(grpc::ByteBuffer* bytes) {
  grpc::ProtoBufferReader reader(bytes);
  CodedInputStream in(&reader);
  StreamAnswer answer;
  while (const uint32_t tag = in.ReadTag()) {
    bool good = true;
    if (tag == Tag(v1::AttendStreamResponse::kRequestIdFieldNumber)) {
      good = Wire::ReadString(&in, &answer.request_id);
    } else if (tag == Tag(v1::AttendStreamResponse::kStatusFieldNumber)) {
      std::string details;
      rpc::v1::Status status;
      good = Wire::ReadString(&in, &details) && status.ParseFromString(details);
      answer.status = StatusFromWire(status.code(), status.message(), details);
    } else {
      good = Wire::SkipField(&in, tag);
    }
    if (!good) return absl::InternalError("an answer that is no protobuf");
  }
  return answer;
}

grpc::ByteBuffer UnwrapStreamAnswer(grpc::ByteBuffer* bytes) {
  v1::AttendStreamResponse answer;
  grpc::ProtoBufferReader reader(bytes);
  if (!answer.ParseFromZeroCopyStream(&reader)) return {};
  grpc::Slice slice(answer.response().SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace attnd::client
