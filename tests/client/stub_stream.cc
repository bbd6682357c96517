#include "tests/client/stub_stream.h"

#include <chrono>
#include <memory>

namespace attnd::client {

StubStream::StubStream(Answer answer) : answer_(std::move(answer)) {
  StartRead(&request_);
}

void StubStream::OnReadDone(bool ok) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!ok) {
    reads_over_ = true;
    WriteOrFinish();
    return;
  }
  ++waiting_;
  lock.unlock();
  auto answer = std::make_unique<v1::AttendStreamResponse>();
  const absl::Duration delay = answer_(request_.request(), answer.get());
  auto* alarm = new grpc::Alarm;
  alarm->Set(
      std::chrono::system_clock::now() + absl::ToChronoMicroseconds(delay),
      [this, alarm, answer = answer.release()](bool) {
        Ready(answer);
        delete answer;
        delete alarm;
      });
  StartRead(&request_);
}

void StubStream::Ready(v1::AttendStreamResponse* answer) {
  std::lock_guard<std::mutex> lock(mutex_);
  --waiting_;
  ready_.push_back(std::move(*answer));
  WriteOrFinish();
}

void StubStream::OnWriteDone(bool ok) {
  std::lock_guard<std::mutex> lock(mutex_);
  writing_ = false;
  ready_.pop_front();
  if (!ok) ready_.clear();
  WriteOrFinish();
}

void StubStream::WriteOrFinish() {
  if (writing_ || finished_) return;
  if (!ready_.empty()) {
    writing_ = true;
    StartWrite(&ready_.front());
  } else if (reads_over_ && waiting_ == 0) {
    finished_ = true;
    Finish(grpc::Status::OK);
  }
}

}  // namespace attnd::client
