#include "server/stream_reply.h"

#include <utility>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/wire_format_lite.h"
#include "server/status.h"

namespace attnd::server {

using google::protobuf::internal::WireFormatLite;

ReplyPieces StreamReply(const std::string& request_id, Outcome& outcome) {
  v1::AttendStreamResponse head;
  head.set_request_id(request_id);
  if (!outcome.status.ok()) {
    head.set_status(ToRpcError(outcome.status).details);
    ReplyPieces reply(1);
    reply.front().text = head.SerializeAsString();
    return reply;
  }
  size_t bytes = 0;
  for (const ReplyPiece& piece : outcome.reply) {
    bytes += piece.text.size() + piece.data_bytes;
  }
  std::string text = head.SerializeAsString();
  {
    google::protobuf::io::StringOutputStream stream(&text);
    google::protobuf::io::CodedOutputStream out(&stream);
    out.WriteTag(
        WireFormatLite::MakeTag(v1::AttendStreamResponse::kResponseFieldNumber,
                                WireFormatLite::WIRETYPE_LENGTH_DELIMITED));
    out.WriteVarint32(static_cast<uint32_t>(bytes));
  }
  ReplyPieces reply = std::move(outcome.reply);
  reply.front().text.insert(0, text);
  return reply;
}

}  // namespace attnd::server
