#include "server/admission.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "server/status.h"

namespace attnd::server {
namespace {

using std::chrono::milliseconds;

constexpr Instant kNow{std::chrono::hours(1)};

Instant In(double seconds) { return kNow + FromSeconds(seconds); }

class AdmissionTest : public ::testing::Test {
 protected:
  // Admits and expects success.
  Admission::Ticket Admit(double seconds, double deadline = 100) {
    absl::StatusOr<Admission::Ticket> ticket = admission_.Reserve(10);
    EXPECT_TRUE(ticket.ok()) << ticket.status();
    const absl::Status status =
        admission_.Admit(*ticket, seconds, 1000, kNow, In(deadline));
    EXPECT_TRUE(status.ok()) << status;
    return *std::move(ticket);
  }
  absl::Status TryAdmit(double seconds, double deadline = 100,
                        int64_t units = 1000) {
    absl::StatusOr<Admission::Ticket> ticket = admission_.Reserve(10);
    if (!ticket.ok()) return ticket.status();
    return admission_.Admit(*ticket, seconds, units, kNow, In(deadline));
  }

  Admission admission_{{.workers = 2,
                        .queue_worker_seconds = 2,
                        .bytes = 1000,
                        .waiting_requests = 5,
                        .request_worker_seconds = 60}};
};

TEST_F(AdmissionTest, GivesBackEverything) {
  {
    Admission::Ticket waiting = Admit(1);
    Admission::Ticket running = Admit(1);
    running.Started();
    running.Spend(0.25);
    const AdmissionLoad load = admission_.load();
    EXPECT_EQ(load.bytes, 20);
    EXPECT_EQ(load.waiting_requests, 1);
    EXPECT_DOUBLE_EQ(load.waiting_seconds, 1);
    EXPECT_DOUBLE_EQ(load.remaining_seconds, 1.75);
  }
  const AdmissionLoad load = admission_.load();
  EXPECT_EQ(load.bytes, 0);
  EXPECT_EQ(load.waiting_requests, 0);
  EXPECT_EQ(load.waiting_seconds, 0);
  EXPECT_EQ(load.remaining_seconds, 0);
}

TEST_F(AdmissionTest, MovedTicketsGiveBackOnce) {
  Admission::Ticket a = Admit(1);
  Admission::Ticket b = std::move(a);
  a = Admit(1);
  a = std::move(b);
  EXPECT_EQ(admission_.load().bytes, 10);
  a.Release();
  a.Release();
  EXPECT_EQ(admission_.load().bytes, 0);
}

TEST_F(AdmissionTest, FullOfWorkMeansUnavailableWithADelay) {
  std::vector<Admission::Ticket> tickets;
  for (int i = 0; i < 4; ++i) tickets.push_back(Admit(1));
  const absl::Status refused = TryAdmit(1);
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(refused), Reason::kQueueFull);
  const RpcError error = ToRpcError(refused);
  ASSERT_TRUE(error.retry_delay);
  EXPECT_GE(*error.retry_delay, milliseconds(20));
  EXPECT_LE(*error.retry_delay, milliseconds(5000));
  // What has started waits no more: there is room again.
  tickets[0].Started();
  EXPECT_TRUE(TryAdmit(1).ok());
}

TEST_F(AdmissionTest, ALargeRequestGetsInWhenNothingWaits) {
  Admission::Ticket large = Admit(50);
  EXPECT_EQ(TryAdmit(0.1).code(), absl::StatusCode::kUnavailable);
  large.Started();
  EXPECT_TRUE(TryAdmit(0.1).ok());
}

TEST_F(AdmissionTest, TooLargeForEverIsNotRetried) {
  absl::Status refused = TryAdmit(61);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(ToRpcError(refused).retry_delay);
  refused = admission_.Reserve(1001).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(refused.message().find("1001"), std::string::npos) << refused;
  EXPECT_NE(refused.message().find("1000"), std::string::npos) << refused;
}

TEST_F(AdmissionTest, BytesAreBounded) {
  const auto first = admission_.Reserve(600);
  ASSERT_TRUE(first.ok());
  const absl::Status refused = admission_.Reserve(401).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(ToRpcError(refused).retry_delay);
  EXPECT_TRUE(admission_.Reserve(400).ok());
}

TEST_F(AdmissionTest, RequestsAreBoundedWhateverTheyCost) {
  std::vector<Admission::Ticket> tickets;
  for (int i = 0; i < 5; ++i) tickets.push_back(Admit(1e-6));
  EXPECT_EQ(TryAdmit(1e-6).code(), absl::StatusCode::kUnavailable);
  tickets[2].Started();
  EXPECT_TRUE(TryAdmit(1e-6).ok());
}

TEST_F(AdmissionTest, HopelessDeadlinesAreRefusedOnArrival) {
  EXPECT_EQ(TryAdmit(1, 0.4).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ReasonOf(TryAdmit(1, 0.4)), Reason::kHopeless);
  // One unit cannot use two workers.
  EXPECT_EQ(TryAdmit(1, 0.9, 1).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(TryAdmit(1, 0.9, 2).ok());
  // 1 s of waiting, then 0.5 s of work.
  const Admission::Ticket queued = Admit(2, 1.2);
  EXPECT_EQ(TryAdmit(1, 1.4).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(TryAdmit(1, 1.6).ok());
}

TEST_F(AdmissionTest, NobodyIsAdmittedAtTheExpenseOfTheAdmitted) {
  const Admission::Ticket promised = Admit(2, 1.2);
  // Would be served first and push the other past its deadline.
  const absl::Status refused = TryAdmit(1, 1.0);
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable) << refused;
  EXPECT_TRUE(TryAdmit(0.2, 1.0).ok());
  EXPECT_TRUE(TryAdmit(1, 5.0).ok()) << "served after it";
}

TEST_F(AdmissionTest, WorkThatIsLateAlreadyBlocksNobody) {
  Admission::Ticket late = Admit(2, 1);
  late.Started();
  absl::StatusOr<Admission::Ticket> ticket = admission_.Reserve(1);
  EXPECT_TRUE(admission_
                  .Admit(*ticket, 0.1, 1, kNow + std::chrono::seconds(5),
                         kNow + std::chrono::seconds(20))
                  .ok());
}

TEST_F(AdmissionTest, PredictsTheWaitOfADeadline) {
  const Admission::Ticket early = Admit(1, 10);
  const Admission::Ticket late = Admit(2, 20);
  EXPECT_DOUBLE_EQ(admission_.PredictWait(In(5)), 0);
  EXPECT_DOUBLE_EQ(admission_.PredictWait(In(15)), 0.5);
  EXPECT_DOUBLE_EQ(admission_.PredictWait(In(25)), 1.5);
}

TEST_F(AdmissionTest, ClosedMeansDraining) {
  admission_.Close();
  const absl::Status refused = admission_.Reserve(1).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(refused), Reason::kDraining);
  EXPECT_TRUE(ToRpcError(refused).retry_delay);
}

}  // namespace
}  // namespace attnd::server
