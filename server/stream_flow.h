// The order of events on one stream of independent requests: when to read the
// next message, what to write, and when the stream is over.
//
// Knows neither gRPC nor requests.
#ifndef ATTND_SERVER_STREAM_FLOW_H_
#define ATTND_SERVER_STREAM_FLOW_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "server/reply.h"

namespace attnd::server {

// How a stream ends.
enum class StreamEnd {
  kComplete,   // the caller sent no more and has every answer
  kDraining,   // the server stops; what is unanswered may be sent elsewhere
  kCancelled,  // the caller left, or the connection broke
};

// Thread-safe. At most `limit` messages are open, that is read and not yet
// answered on the wire, so a caller who does not read answers is not read from
// either. Answers leave in the order in which they are given.
class StreamFlow {
 public:
  // What the flow decides; called without locks held, from within the calls
  // below, one at a time.
  class Wire {
   public:
    virtual ~Wire() = default;
    // Must lead to one call of Arrived, or of ReadEnded.
    virtual void Read() = 0;
    // Must lead to one call of Written.
    virtual void Write(ReplyPieces reply) = 0;
    // Once, when nothing is open and no write is under way; a read may be. The
    // flow is not touched afterwards, so it may be destroyed.
    virtual void End(StreamEnd end) = 0;
  };

  StreamFlow(Wire& wire, int64_t limit) : wire_(wire), limit_(limit) {}

  // Call first; begins to read.
  void Begin();
  // The message that was read is open from now on, until its Answer is on the
  // wire. False, with the message open nevertheless, when one of that id is.
  bool Arrived(const std::string& id);
  // There is nothing more to read.
  void ReadEnded();
  // Exactly once per message; `held_id` as Arrived took it, null if it said
  // false.
  void Answer(const std::string* held_id, ReplyPieces reply);
  void Written(bool ok);
  // The caller left, or cannot be written to: answers are dropped, the end
  // comes when all were given.
  void Cancelled();
  // Read nothing more; end when what is open is answered.
  void Drain();

 private:
  using Lock = std::unique_lock<std::mutex>;
  void Advance(Lock& lock);

  Wire& wire_;
  const int64_t limit_;

  std::mutex mutex_;  // guards all below
  std::set<std::string> ids_;
  std::deque<ReplyPieces> answers_;
  int64_t open_ = 0;
  bool begun_ = false;
  bool reading_ = false, writing_ = false;
  bool read_ended_ = false, draining_ = false, cancelled_ = false;
  // Some thread is in Advance, and will see what others change.
  bool advancing_ = false;
  bool ended_ = false;
};

// The streams of a server. Thread-safe.
class StreamRegistry {
 public:
  // Drains it at once if the registry is drained.
  void Enter(const std::shared_ptr<StreamFlow>& flow);
  void Leave(const std::shared_ptr<StreamFlow>& flow);
  // Drains those that are in, and those that come.
  void Drain();
  int64_t size() const;

 private:
  mutable std::mutex mutex_;  // guards the two below
  std::set<std::shared_ptr<StreamFlow>> flows_;
  bool draining_ = false;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_STREAM_FLOW_H_
