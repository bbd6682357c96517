// A real attnd, for as long as a test needs it.
#ifndef ATTND_TESTS_CLIENT_ATTND_PROCESS_H_
#define ATTND_TESTS_CLIENT_ATTND_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <thread>

namespace attnd::client {

// Starts attnd of this build with a configuration file, waits until it listens,
// and kills it at the end if nobody has stopped it. A start that fails is a
// test failure and leaves target() empty.
class AttndProcess {
 public:
  explicit AttndProcess(const std::string& config_path);
  ~AttndProcess();
  AttndProcess(const AttndProcess&) = delete;
  AttndProcess& operator=(const AttndProcess&) = delete;

  // "127.0.0.1:port" of its gRPC endpoint.
  const std::string& target() const { return target_; }
  // "127.0.0.1:port" of its admin port.
  const std::string& admin() const { return admin_; }

  // SIGTERM; returns the exit code, or 128 + the signal that ended it.
  int Stop();

 private:
  int Wait();

  pid_t pid_ = 0;
  std::string target_;
  std::string admin_;
  std::thread log_reader_;
};

}  // namespace attnd::client

#endif  // ATTND_TESTS_CLIENT_ATTND_PROCESS_H_
