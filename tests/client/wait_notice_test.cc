#include "client/attnctl/wait_notice.h"

#include <gtest/gtest.h>

#include <sstream>

#include "absl/synchronization/notification.h"

namespace attnd::client {
namespace {

// Tells when something is written.
class Told : public std::stringbuf {
 public:
  absl::Notification written;

 protected:
  int sync() override {
    written.Notify();
    return 0;
  }
};

TEST(WaitNotice, IsWrittenOnceWhenTheTimeIsOver) {
  Told told;
  std::ostream out(&told);
  {
    const WaitNotice notice(out, "waiting\n", absl::ZeroDuration());
    told.written.WaitForNotification();
  }
  EXPECT_EQ(told.str(), "waiting\n");
}

TEST(WaitNotice, IsNotWrittenWhenTheWaitIsShort) {
  std::ostringstream out;
  { const WaitNotice notice(out, "waiting\n", absl::Hours(1)); }
  EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace attnd::client
