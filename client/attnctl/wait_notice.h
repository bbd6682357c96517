// Tells whoever waits that there is a wait.
#ifndef ATTND_CLIENT_ATTNCTL_WAIT_NOTICE_H_
#define ATTND_CLIENT_ATTNCTL_WAIT_NOTICE_H_

#include <condition_variable>
#include <mutex>
#include <ostream>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "client/attnctl/target_options.h"

namespace attnd::client {

// Writes one line when it still exists after a time. The calls of attnctl fail
// at once where a connection is refused; a server that is silent, or far away
// behind a firewall, would leave the terminal silent too.
class WaitNotice {
 public:
  // "attnctl: still waiting for HOST:PORT, ..." on standard error after two
  // seconds.
  explicit WaitNotice(const TargetOptions& target);
  WaitNotice(std::ostream& out, std::string text, absl::Duration after);
  ~WaitNotice();
  WaitNotice(const WaitNotice&) = delete;
  WaitNotice& operator=(const WaitNotice&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable over_changed_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace attnd::client

#endif  // ATTND_CLIENT_ATTNCTL_WAIT_NOTICE_H_
