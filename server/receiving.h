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

  // `limit` bytes of unfinished messages. Beyond half of it, because giving up
  // takes time while more comes, the connections that hold most lose all
  // receivers (no fewer, because gRPC's buffers are shared by the calls of a
  // connection), until three quarters are free.
  Receiving(int64_t limit, BytesOf bytes_of)
      : limit_(limit), bytes_of_(std::move(bytes_of)) {}
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

  // Gives up what is late or too much.
  void Check(Instant now);
  // Checks every kPeriod on a thread of its own, until Stop.
  void Start();
  void Stop();

  struct Load {
    int64_t receivers = 0;
    int64_t bytes = 0;  // at the last check
  };
  Load load() const;

  static constexpr std::chrono::milliseconds kPeriod{10};

 private:
  struct Connection {
    int64_t received = 0;  // at the last check
    int64_t settled = 0;   // of that: before the first receiver, or let go of
    std::list<std::shared_ptr<Receiver>> receivers;  // youngest last
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
  void Measure();
  void TakeIf(absl::FunctionRef<bool(const Receiver&)> condition,
              const absl::Status& refusal, std::vector<GivenUp>& given_up);
  void TakeExcess(std::vector<GivenUp>& given_up);
  int64_t Held() const;

  const int64_t limit_;
  const BytesOf bytes_of_;

  mutable std::mutex mutex_;  // guards all below but the thread
  // With receivers, or left by the last one since the last check.
  Connections connections_;
  int64_t receivers_ = 0;
  int64_t bytes_ = 0;
  bool draining_ = false;
  bool stopping_ = false;
  std::condition_variable wake_;
  std::thread thread_;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_RECEIVING_H_
