// Drives a conductor by the real clock over a transport.
#ifndef ATTND_CLIENT_LOAD_RUNNER_H_
#define ATTND_CLIENT_LOAD_RUNNER_H_

#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <vector>

#include "client/load/conductor.h"
#include "client/load/transport.h"

namespace attnd::client {

// Sees the books while a run goes on.
class Observer {
 public:
  virtual ~Observer() = default;
  // Called about twice a second, between two attempts: be quick.
  virtual void Observe(const Conductor& conductor, int64_t now_ns) = 0;
  // Called after it; sending goes on meanwhile, so this may block.
  virtual void Show() = 0;
};

struct RunOptions {
  Observer* observer = nullptr;
  // Set from anywhere, it ends the run early.
  const std::atomic<bool>* stop = nullptr;
  // Bytes of answers to keep for verification; more are counted, not kept.
  int64_t kept_bytes = int64_t{256} << 20;
};

struct KeptAnswer {
  int request;
  grpc::ByteBuffer answer;
};

struct RunOutcome {
  LoadResult result;
  std::vector<KeptAnswer> kept;
  // Answers that were chosen for verification when there was no room.
  int64_t not_kept = 0;
};

// Runs to the end. One thread sends what is due and sleeps in between; another
// takes the ends, and sends what they allow. The transport is left with nothing
// in flight, and may be used again.
RunOutcome RunLoad(ConductorOptions options, Transport& transport,
                   const RunOptions& run = {});

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_RUNNER_H_
