#include "client/attnctl/wait_notice.h"

#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"

namespace attnd::client {

WaitNotice::WaitNotice(const TargetOptions& target)
    : WaitNotice(std::cerr,
                 absl::StrCat("attnctl: still waiting for ", target.target,
                              ", at most ", target.timeout,
                              " for each call (--timeout)\n"),
                 absl::Seconds(2)) {}

WaitNotice::WaitNotice(std::ostream& out, std::string text,
                       absl::Duration after)
    : thread_([this, &out, text = std::move(text), after] {
        std::unique_lock<std::mutex> lock(mutex_);
        const bool over = over_changed_.wait_for(
            lock, absl::ToChronoNanoseconds(after), [this] { return over_; });
        if (!over) out << text << std::flush;
      }) {}

WaitNotice::~WaitNotice() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    over_ = true;
  }
  over_changed_.notify_one();
  thread_.join();
}

}  // namespace attnd::client
