#include "server/stream_flow.h"

#include <utility>

namespace attnd::server {

void StreamFlow::Begin() {
  Lock lock(mutex_);
  begun_ = true;
  Advance(lock);
}

bool StreamFlow::Arrived(const std::string& id) {
  Lock lock(mutex_);
  reading_ = false;
  ++open_;
  const bool unique = ids_.insert(id).second;
  Advance(lock);
  return unique;
}

void StreamFlow::ReadEnded() {
  Lock lock(mutex_);
  reading_ = false;
  read_ended_ = true;
  Advance(lock);
}

void StreamFlow::Answer(const std::string* held_id, ReplyPieces reply) {
  Lock lock(mutex_);
  if (held_id != nullptr) ids_.erase(*held_id);
  if (cancelled_) {
    --open_;
  } else {
    answers_.push_back(std::move(reply));
  }
  Advance(lock);
}

void StreamFlow::Written(bool ok) {
  Lock lock(mutex_);
  writing_ = false;
  --open_;
  if (!ok) cancelled_ = true;
  Advance(lock);
}

void StreamFlow::Cancelled() {
  Lock lock(mutex_);
  cancelled_ = true;
  Advance(lock);
}

void StreamFlow::Drain() {
  Lock lock(mutex_);
  draining_ = true;
  Advance(lock);
}

// Called with the lock, which it may release at its end: then the flow may be
// gone already.
void StreamFlow::Advance(Lock& lock) {
  if (advancing_ || ended_ || !begun_) return;
  advancing_ = true;
  while (true) {
    if (cancelled_) {
      open_ -= static_cast<int64_t>(answers_.size());
      answers_.clear();
    }
    if (!writing_ && !answers_.empty()) {
      writing_ = true;
      ReplyPieces reply = std::move(answers_.front());
      answers_.pop_front();
      lock.unlock();
      wire_.Write(std::move(reply));
      lock.lock();
    } else if (!reading_ && !read_ended_ && !draining_ && !cancelled_ &&
               open_ < limit_) {
      reading_ = true;
      lock.unlock();
      wire_.Read();
      lock.lock();
    } else {
      break;
    }
  }
  advancing_ = false;
  if (open_ > 0 || writing_) return;
  if (!cancelled_ && !draining_ && !read_ended_) return;
  ended_ = true;
  const StreamEnd end = cancelled_    ? StreamEnd::kCancelled
                        : read_ended_ ? StreamEnd::kComplete
                                      : StreamEnd::kDraining;
  lock.unlock();
  wire_.End(end);
}

void StreamRegistry::Enter(const std::shared_ptr<StreamFlow>& flow) {
  bool draining;
  {
    std::lock_guard lock(mutex_);
    flows_.insert(flow);
    draining = draining_;
  }
  if (draining) flow->Drain();
}

void StreamRegistry::Leave(const std::shared_ptr<StreamFlow>& flow) {
  std::lock_guard lock(mutex_);
  flows_.erase(flow);
}

void StreamRegistry::Drain() {
  std::set<std::shared_ptr<StreamFlow>> flows;
  {
    std::lock_guard lock(mutex_);
    draining_ = true;
    flows = flows_;
  }
  // Without the lock: a flow may end, and leave, from within.
  for (const auto& flow : flows) flow->Drain();
}

int64_t StreamRegistry::size() const {
  std::lock_guard lock(mutex_);
  return static_cast<int64_t>(flows_.size());
}

}  // namespace attnd::server
