#include "server/receiving.h"

#include <pthread.h>

#include <algorithm>
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

absl::Status RefuseDraining() {
  return Refuse(Reason::kDraining, "the server is shutting down",
                std::chrono::milliseconds(100));
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
  if (fresh) {
    connection.received = bytes_of_(receiver->peer_).value_or(0);
    connection.settled = connection.received;
  }
  receiver->received_before_ = connection.received;
  receiver->entered_ = true;
  auto& all = connection.receivers;
  const auto place = all.insert(all.end(), std::move(receiver));
  (*place)->place_ = place;
  ++receivers_;
  return absl::OkStatus();
}

bool Receiving::Leave(Receiver& receiver, int64_t bytes) {
  std::shared_ptr<Receiver> removed;  // outlives the lock
  std::lock_guard lock(mutex_);
  if (!receiver.entered_) return false;
  Connection& connection = connections_.find(receiver.peer_)->second;
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
    Measure();
    TakeIf([&](const Receiver& r) { return r.until_ <= now; }, RefuseLate(),
           given_up);
    TakeExcess(given_up);
    bytes_ = Held();
  }
  for (const GivenUp& each : given_up) each.receiver->GiveUp(each.refusal);
}

void Receiving::Measure() {
  std::erase_if(connections_,
                [](const auto& each) { return each.second.receivers.empty(); });
  for (auto& [peer, connection] : connections_) {
    connection.received = bytes_of_(peer).value_or(connection.received);
  }
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
  int64_t sum = Held();
  if (sum <= limit_ / 2) return;
  std::vector<Connection*> most;
  for (auto& [peer, connection] : connections_) most.push_back(&connection);
  std::sort(most.begin(), most.end(),
            [](const auto* a, const auto* b) { return a->held() > b->held(); });
  for (Connection* connection : most) {
    if (sum <= limit_ / 4) return;
    const absl::Status refusal = RefuseExcess(connection->held(), limit_);
    sum -= connection->held();
    while (!connection->receivers.empty()) {
      given_up.push_back(
          {Remove(*connection, *connection->receivers.back(), 0), refusal});
    }
  }
}

int64_t Receiving::Held() const {
  int64_t sum = 0;
  for (const auto& [peer, connection] : connections_) {
    // Without receivers it is done with what it holds.
    if (!connection.receivers.empty()) sum += connection.held();
  }
  return sum;
}

void Receiving::Start() {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "attnd-receive");
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, kPeriod, [this] { return stopping_; })) {
      lock.unlock();
      Check(std::chrono::steady_clock::now());
      lock.lock();
    }
  });
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
  return {.receivers = receivers_, .bytes = bytes_};
}

}  // namespace attnd::server
