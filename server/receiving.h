// Calls whose message is on its way in: how long it may take, and how much of
// all of them together the server holds.
//
// gRPC gathers a whole message before any code sees a byte of it, and its
// ResourceQuota ends calls only after the memory is used, whosever they are.
// What a connection holds of unfinished messages is seen from outside: the
// bytes its socket received since nothing was unfinished, less the messages
// that arrived.
#ifndef ATTND_SERVER_RECEIVING_H_
#define ATTND_SERVER_RECEIVING_H_

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "server/time_source.h"

namespace attnd::server {

// Thread-safe.
class Receiving {
 public:
  // A call that waits for a message.
  class Receiver {
   public:
    virtual ~Receiver() = default;
    // Instead of the message; on any thread, without locks held.
    virtual void GiveUp(const absl::Status& refusal) = 0;

   private:
    friend class Receiving;
    Instant until_;
    std::string peer_;
    std::list<std::shared_ptr<Receiver>>::iterator place_;
    // By its connection, before it came.
    int64_t received_before_ = 0;
    bool entered_ = false;
  };

  // Bytes that the connection of this peer, as gRPC names it, received since
  // it was opened; nullopt if nobody knows.
  using BytesOf = std::function<std::optional<int64_t>(const std::string&)>;
  // The processor time of the calling thread.
  using CpuTime = std::function<Instant::duration()>;

  struct Limits {
    int64_t bytes = 0;          // of unfinished messages
    int64_t message_bytes = 0;  // of one message
  };
  // Beyond this the connections that hold most lose all receivers (no fewer,
  // because gRPC's buffers are shared by the calls of a connection), until half
  // of it is free. It is a quarter of `limits.bytes`, because gRPC needs 22 KiB
  // for a call and half as much again as what came, and giving up takes time
  // while more comes; but never less than one message with its frames.
  static int64_t MostHeld(const Limits& limits) {
    return std::max(limits.bytes / 4, limits.message_bytes / 8 * 9);
  }

  // `time` is borrowed; null = the steady clock.
  Receiving(const Limits& limits, BytesOf bytes_of, TimeSource* time = nullptr,
            CpuTime cpu_time = ThreadCpuTime);
  ~Receiving() { Stop(); }
  Receiving(const Receiving&) = delete;
  Receiving& operator=(const Receiving&) = delete;

  // Waits for the message of a call until `until`; Instant::max() for a stream,
  // which may be silent for ever and ends in ways of its own when the server
  // does. A refusal, with the receiver not in, once the server drains. Held
  // until Leave, or the end of GiveUp; in between only pointed to is enough.
  absl::Status Enter(std::shared_ptr<Receiver> receiver, std::string peer,
                     Instant until);
  // The message arrived, or cannot any more (0 bytes). False if the receiver
  // was given up: GiveUp has been called, or will be.
  bool Leave(Receiver& receiver, int64_t bytes);

  // Gives up all but streams, and those that come.
  void Drain();

  // Gives up what is late or too much. To ask the system about a connection is
  // what costs, and most are silent: while little is held, a kLittle-th of
  // MostHeld, it looks at as many in turn as kLookTime allows, but at each
  // again before it could fill what is free; else at all. Those that calls come
  // on are looked at as these enter.
  void Check(Instant now);
  // Checks every kPeriod on a thread of its own, until Stop; it rests until a
  // receiver enters where there is none.
  void Start();
  void Stop();

  struct Load {
    int64_t receivers = 0;
    int64_t bytes = 0;     // as far as it looked
    bool resting = false;  // the thread
  };
  Load load() const;

  static constexpr std::chrono::milliseconds kPeriod{10};
  // Half a percent of a core; 100 wake-ups a second cost about as much.
  static constexpr std::chrono::microseconds kLookTime{50};
  static constexpr int64_t kLittle = 16;
  // More than one connection was seen to bring over loopback.
  static constexpr double kBytesPerSecond = 2e9;

 private:
  static Instant::duration ThreadCpuTime();
  void Run();

  struct Connection {
    int64_t received = 0;  // at the last look
    int64_t check = 0;     // whose turn was the last look
    int64_t settled = 0;   // of that: before the first receiver, or let go of
    std::list<std::shared_ptr<Receiver>> receivers;  // youngest last
    int64_t counted = 0;                             // of it in held_
    bool left = false;                               // in left_
    int64_t held() const { return std::max<int64_t>(0, received - settled); }
    int64_t Share(const Receiver& receiver) const;
  };
  using Connections = std::map<std::string, Connection>;
  struct GivenUp {
    std::shared_ptr<Receiver> receiver;
    absl::Status refusal;
  };
  // All with the lock.
  std::shared_ptr<Receiver> Remove(Connection& connection, Receiver& receiver,
                                   int64_t bytes);
  void Look(const std::string& peer, Connection& connection);
  size_t LooksDue() const;
  void LookAround();
  void TakeLate(Instant now, std::vector<GivenUp>& given_up);
  void TakeIf(absl::FunctionRef<bool(const Receiver&)> condition,
              const absl::Status& refusal, std::vector<GivenUp>& given_up);
  void TakeExcess(std::vector<GivenUp>& given_up);
  void Count(Connection& connection);

  const int64_t limit_, most_;
  const BytesOf bytes_of_;
  const CpuTime cpu_time_;
  SteadyTimeSource steady_;
  TimeSource& time_;

  mutable std::mutex mutex_;  // guards all below but the thread
  // With receivers, or left by the last one since the last check.
  Connections connections_;
  std::vector<std::string> left_;  // peers of those left
  int64_t receivers_ = 0;
  // Of connections with receivers: without, one is done with what it holds.
  // Kept up to date, because a walk over silent connections costs too much.
  int64_t held_ = 0;
  int64_t check_ = 0;                  // number of the last check
  std::string last_looked_;            // peer of the connection
  double look_seconds_ = 2.5e-6;       // of one look, lately
  Instant earliest_ = Instant::max();  // no receiver is late before
  bool draining_ = false;
  bool resting_ = false;
  bool stopping_ = false;
  std::condition_variable wake_;
  std::thread thread_;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_RECEIVING_H_
