#include "server/receiving.h"

#include <pthread.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/status.h"

namespace attnd::server {
namespace {

constexpr std::chrono::milliseconds kRetryDelay(500);

// A message with the headers of its frames, 9 bytes for each 16 KiB.
int64_t OnTheWire(int64_t message_bytes) {
  return message_bytes + message_bytes / 16384 * 9;
}

absl::Status RefuseLate() {
  return Refuse(Reason::kHopeless,
                "the call's message did not arrive within "
                "limits.deadline_seconds; send faster, or less");
}

absl::Status RefuseExcess(int64_t held, int64_t limit) {
  return Refuse(
      Reason::kQueueFull,
      absl::StrCat("the server is full of messages that have not arrived "
                   "completely, ",
                   held,
                   " bytes of this connection's "
                   "(limits.receive_bytes is ",
                   limit,
                   "); send the message again later, or fewer at a time"),
      kRetryDelay);
}

}  // namespace

Instant::duration Receiving::ThreadCpuTime() {
  timespec t = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

Receiving::Receiving(const Limits& limits, BytesOf bytes_of, TimeSource* time,
                     CpuTime cpu_time)
    : limit_(limits.bytes),
      most_(MostHeld(limits)),
      bytes_of_(std::move(bytes_of)),
      cpu_time_(std::move(cpu_time)),
      time_(time != nullptr ? *time : steady_) {}

// What a receiver holds at most: streams share a connection evenly, and none
// got more than what came since it is there.
int64_t Receiving::Connection::Share(const Receiver& receiver) const {
  return std::max<int64_t>(
      0, std::min(held() / static_cast<int64_t>(receivers.size()),
                  received - receiver.received_before_));
}

absl::Status Receiving::Enter(std::shared_ptr<Receiver> receiver,
                              std::string peer, Instant until) {
  receiver->until_ = until;
  receiver->peer_ = std::move(peer);
  std::lock_guard lock(mutex_);
  if (draining_ && until != Instant::max()) return RefuseDraining();
  const auto [it, fresh] = connections_.try_emplace(receiver->peer_);
  Connection& connection = it->second;
  if (fresh || connection.check != check_) Look(it->first, connection);
  if (fresh) connection.settled = connection.received;
  earliest_ = std::min(earliest_, until);
  receiver->received_before_ = connection.received;
  receiver->entered_ = true;
  auto& all = connection.receivers;
  const auto place = all.insert(all.end(), std::move(receiver));
  (*place)->place_ = place;
  ++receivers_;
  Count(connection);
  if (std::exchange(resting_, false)) wake_.notify_one();
  return absl::OkStatus();
}

bool Receiving::Leave(Receiver& receiver, int64_t bytes) {
  std::shared_ptr<Receiver> removed;  // outlives the lock
  std::lock_guard lock(mutex_);
  if (!receiver.entered_) return false;
  Connection& connection = connections_.find(receiver.peer_)->second;
  if (bytes == 0) Look(receiver.peer_, connection);
  removed = Remove(connection, receiver,
                   bytes > 0 ? OnTheWire(bytes) : connection.Share(receiver));
  return true;
}

std::shared_ptr<Receiving::Receiver> Receiving::Remove(Connection& connection,
                                                       Receiver& receiver,
                                                       int64_t bytes) {
  connection.settled += bytes;
  receiver.entered_ = false;
  --receivers_;
  std::shared_ptr<Receiver> removed = std::move(*receiver.place_);
  connection.receivers.erase(receiver.place_);
  if (connection.receivers.empty() && !std::exchange(connection.left, true)) {
    left_.push_back(receiver.peer_);
  }
  Count(connection);
  return removed;
}

void Receiving::Drain() {
  std::vector<GivenUp> given_up;
  {
    std::lock_guard lock(mutex_);
    draining_ = true;
    TakeIf([](const Receiver& r) { return r.until_ != Instant::max(); },
           RefuseDraining(), given_up);
  }
  for (const GivenUp& each : given_up) each.receiver->GiveUp(each.refusal);
}

void Receiving::Check(Instant now) {
  std::vector<GivenUp> given_up;
  {
    std::lock_guard lock(mutex_);
    ++check_;
    for (const std::string& peer : std::exchange(left_, {})) {
      const auto it = connections_.find(peer);
      it->second.left = false;
      if (it->second.receivers.empty()) connections_.erase(it);
    }
    LookAround();
    if (now >= earliest_) TakeLate(now, given_up);
    TakeExcess(given_up);
  }
  for (const GivenUp& each : given_up) each.receiver->GiveUp(each.refusal);
}

void Receiving::Look(const std::string& peer, Connection& connection) {
  connection.received = bytes_of_(peer).value_or(connection.received);
  connection.check = check_;
  Count(connection);
}

void Receiving::Count(Connection& connection) {
  const int64_t now = connection.receivers.empty() ? 0 : connection.held();
  held_ += now - connection.counted;
  connection.counted = now;
}

size_t Receiving::LooksDue() const {
  if (held_ > most_ / kLittle) return connections_.size();
  const auto all = static_cast<double>(connections_.size());
  const double affordable = Seconds(kLookTime) / look_seconds_;
  const auto free = static_cast<double>(std::max<int64_t>(1, most_ - held_));
  const double needed = all * Seconds(kPeriod) * kBytesPerSecond / free;
  return static_cast<size_t>(
      std::min(all, std::ceil(std::max(affordable, needed))));
}

void Receiving::LookAround() {
  const size_t looks = LooksDue(), all = connections_.size();
  if (looks == 0) return;
  const Instant::duration start = cpu_time_();
  auto it = connections_.upper_bound(last_looked_);
  for (size_t i = 0; i < looks; ++i, ++it) {
    if (it == connections_.end()) it = connections_.begin();
    Look(it->first, it->second);
    if (i + 1 == looks) last_looked_ = it->first;
  }
  const double each = Seconds(cpu_time_() - start) / static_cast<double>(looks);
  look_seconds_ = std::max(1e-8, look_seconds_ + (each - look_seconds_) / 8);
  if (looks == all || held_ <= most_ / kLittle) return;
  for (auto& [peer, connection] : connections_) Look(peer, connection);
}

void Receiving::TakeLate(Instant now, std::vector<GivenUp>& given_up) {
  Instant next = Instant::max();
  const auto late = [&](const Receiver& receiver) {
    if (receiver.until_ <= now) return true;
    next = std::min(next, receiver.until_);
    return false;
  };
  TakeIf(late, RefuseLate(), given_up);
  earliest_ = next;
}

void Receiving::TakeIf(absl::FunctionRef<bool(const Receiver&)> condition,
                       const absl::Status& refusal,
                       std::vector<GivenUp>& given_up) {
  for (auto& [peer, connection] : connections_) {
    for (auto it = connection.receivers.begin();
         it != connection.receivers.end();) {
      Receiver& receiver = **it++;
      if (!condition(receiver)) continue;
      given_up.push_back(
          {Remove(connection, receiver, connection.Share(receiver)), refusal});
    }
  }
}

void Receiving::TakeExcess(std::vector<GivenUp>& given_up) {
  int64_t sum = held_;
  if (sum <= most_) return;
  std::vector<Connection*> most;
  for (auto& [peer, connection] : connections_) most.push_back(&connection);
  std::sort(most.begin(), most.end(), [](const auto* a, const auto* b) {
    return a->counted > b->counted;
  });
  for (Connection* connection : most) {
    if (sum <= most_ / 2) return;
    const absl::Status refusal = RefuseExcess(connection->counted, limit_);
    sum -= connection->counted;
    while (!connection->receivers.empty()) {
      given_up.push_back(
          {Remove(*connection, *connection->receivers.back(), 0), refusal});
    }
  }
}

void Receiving::Start() {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "attnd-receive");
    Run();
  });
}

void Receiving::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    resting_ = connections_.empty();
    wake_.wait(lock, [this] { return stopping_ || !resting_; });
    const Instant next = time_.Now() + kPeriod;
    while (!stopping_ && time_.Now() < next) {
      time_.WaitUntil(wake_, lock, next);
    }
    if (stopping_) return;
    lock.unlock();
    Check(time_.Now());
    lock.lock();
  }
}

void Receiving::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Receiving::Load Receiving::load() const {
  std::lock_guard lock(mutex_);
  return {.receivers = receivers_, .bytes = held_, .resting = resting_};
}

}  // namespace attnd::server
