// The answer to one message of a stream, on the wire.
#ifndef ATTND_SERVER_STREAM_REPLY_H_
#define ATTND_SERVER_STREAM_REPLY_H_

#include <string>

#include "server/attend_work.h"
#include "server/reply.h"

namespace attnd::server {

// A serialized AttendStreamResponse: the reply's tensors stay where they are.
// Takes the reply out of the outcome.
ReplyPieces StreamReply(const std::string& request_id, Outcome& outcome);

}  // namespace attnd::server

#endif  // ATTND_SERVER_STREAM_REPLY_H_
