// The stub's side of one AttendStream call.
#ifndef ATTND_TESTS_CLIENT_STUB_STREAM_H_
#define ATTND_TESTS_CLIENT_STUB_STREAM_H_

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <deque>
#include <functional>
#include <mutex>
#include <utility>

#include "absl/time/time.h"
#include "attnd/v1/attention.pb.h"

namespace attnd::client {

// Answers every request after a delay of its own; the stream ends when the
// client has, and all answers are written.
class StubStream final
    : public grpc::ServerBidiReactor<v1::AttendStreamRequest,
                                     v1::AttendStreamResponse> {
 public:
  // Fills in the answer and says how long to wait with it.
  using Answer = std::function<absl::Duration(const v1::AttendRequest&,
                                              v1::AttendStreamResponse*)>;
  explicit StubStream(Answer answer);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone() override { delete this; }

 private:
  void Ready(v1::AttendStreamResponse* answer);
  void WriteOrFinish();

  Answer answer_;
  v1::AttendStreamRequest request_;
  std::mutex mutex_;
  std::deque<v1::AttendStreamResponse> ready_;
  int waiting_ = 0;
  bool writing_ = false;
  bool reads_over_ = false;
  bool finished_ = false;
};

}  // namespace attnd::client

#endif  // ATTND_TESTS_CLIENT_STUB_STREAM_H_
