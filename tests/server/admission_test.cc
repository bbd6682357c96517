#include "server/admission.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <utility>
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
    const absl::Status status = admission_.Admit(
        *ticket, {.seconds = seconds, .units = 1000, .deadline = In(deadline)},
        kNow);
    EXPECT_TRUE(status.ok()) << status;
    return *std::move(ticket);
  }
  absl::Status TryAdmit(double seconds, double deadline = 100,
                        int64_t units = 1000) {
    absl::StatusOr<Admission::Ticket> ticket = admission_.Reserve(10);
    if (!ticket.ok()) return ticket.status();
    return admission_.Admit(
        *ticket, {.seconds = seconds, .units = units, .deadline = In(deadline)},
        kNow);
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

TEST_F(AdmissionTest, AReplyStaysChargedAfterTheWork) {
  {
    Admission::Ticket ticket = Admit(1);
    ticket.Started();
    ticket.KeepBytes(3);
    const AdmissionLoad load = admission_.load();
    EXPECT_EQ(load.bytes, 3);
    EXPECT_EQ(load.waiting_requests, 0);
    EXPECT_EQ(load.remaining_seconds, 0);
  }
  EXPECT_EQ(admission_.load().bytes, 0);
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
  EXPECT_TRUE(TryAdmit(1, 1.7).ok());
}

// Under overload every request is admitted at the last moment that allows it;
// without a margin half of them would be late.
TEST_F(AdmissionTest, ATenthOfTheTimeIsLeftForWhatNobodyPredicts) {
  EXPECT_EQ(TryAdmit(1, 0.54).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(TryAdmit(1, 0.56).ok());
}

TEST_F(AdmissionTest, NobodyIsAdmittedAtTheExpenseOfTheAdmitted) {
  const Admission::Ticket promised = Admit(2, 1.2);
  // Would be served first and push the other past its deadline.
  const absl::Status refused = TryAdmit(1, 1.0);
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable) << refused;
  EXPECT_TRUE(TryAdmit(0.1, 1.0).ok());
  EXPECT_TRUE(TryAdmit(1, 5.0).ok()) << "served after it";
}

TEST_F(AdmissionTest, WorkThatIsLateAlreadyBlocksNobody) {
  Admission::Ticket late = Admit(2, 1.2);
  late.Started();
  absl::StatusOr<Admission::Ticket> ticket = admission_.Reserve(1);
  EXPECT_TRUE(admission_
                  .Admit(*ticket, {.seconds = 0.1, .deadline = In(20)},
                         kNow + std::chrono::seconds(5))
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

TEST_F(AdmissionTest, PrioritiesComeBeforeDeadlines) {
  const auto admit = [&](double seconds, double deadline, int priority) {
    auto ticket = admission_.Reserve(10);
    const absl::Status status = admission_.Admit(*ticket,
                                                 {.seconds = seconds,
                                                  .units = 1000,
                                                  .deadline = In(deadline),
                                                  .priority = priority},
                                                 kNow);
    return std::pair(*std::move(ticket), status);
  };
  const auto early = admit(2, 5, 0);
  ASSERT_TRUE(early.second.ok());
  // Behind the first, 1 s of waiting; before it with a higher priority.
  EXPECT_EQ(admit(0.4, 1.0, 0).second.code(), absl::StatusCode::kOk);
  EXPECT_EQ(admit(0.4, 1.0, -1).second.code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(admit(0.4, 1.0, 1).second.ok());
}

// Two tenants of equal weight beside the default one, whom nobody uses.
class FairAdmissionTest : public ::testing::Test {
 protected:
  absl::StatusOr<Admission::Ticket> Try(const Tenant& tenant, double seconds,
                                        double deadline = 100, double now = 0) {
    auto ticket = admission_.Reserve(100, tenant);
    if (!ticket.ok()) return ticket;
    const absl::Status status = admission_.Admit(
        *ticket, {.seconds = seconds, .deadline = In(deadline)}, In(now));
    if (!status.ok()) return status;
    return ticket;
  }

  const Tenant greedy_{.id = 1, .name = "greedy", .share = 0.5};
  const Tenant modest_{.id = 2, .name = "modest", .share = 0.5};
  Admission admission_{{.workers = 1,
                        .queue_worker_seconds = 4,
                        .bytes = 10000,
                        .waiting_requests = 40,
                        .request_worker_seconds = 60}};
};

TEST_F(FairAdmissionTest, AGreedyTenantCannotFillTheQueueForOthers) {
  std::vector<Admission::Ticket> tickets;
  while (true) {
    auto ticket = Try(greedy_, 0.5);
    if (!ticket.ok()) {
      EXPECT_EQ(ReasonOf(ticket.status()), Reason::kQueueFull);
      break;
    }
    tickets.push_back(*std::move(ticket));
    ASSERT_LT(tickets.size(), 100u);
  }
  EXPECT_DOUBLE_EQ(admission_.load().waiting_seconds, 2) << "half of 4 s";
  // Its share is half of the other half.
  for (int i = 0; i < 2; ++i) {
    auto ticket = Try(modest_, 0.5);
    ASSERT_TRUE(ticket.ok()) << ticket.status();
    tickets.push_back(*std::move(ticket));
  }
  EXPECT_FALSE(Try(modest_, 0.5).ok());
}

TEST_F(FairAdmissionTest, OneRequestBeyondItsShareMayWaitAtATime) {
  const auto large = Try(modest_, 50);
  ASSERT_TRUE(large.ok()) << large.status();
  EXPECT_EQ(ReasonOf(Try(greedy_, 50).status()), Reason::kQueueFull);
  // It takes nobody's place.
  EXPECT_TRUE(Try(greedy_, 1).ok());
}

// However tenants and sizes mix: what waits is bounded, but for the one request
// that is larger than its share; and who stays within its share of the half
// that is kept for it gets in.
TEST_F(FairAdmissionTest, TheBoundHoldsForAnyMixOfTenants) {
  admission_.SetLimits({.workers = 1,
                        .queue_worker_seconds = 4,
                        .bytes = 1 << 30,
                        .waiting_requests = 1 << 20,
                        .request_worker_seconds = 1e6});
  for (int seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<Tenant> tenants;
    const int count = 2 + seed % 4;
    for (int i = 0; i < count; ++i) {
      tenants.push_back({.id = i, .name = "t", .share = 1.0 / count});
    }
    struct Waiting {
      Admission::Ticket ticket;
      int tenant;
      double seconds;
    };
    std::vector<Waiting> waiting;
    for (int i = 0; i < 500; ++i) {
      if (!waiting.empty() && random() % 3 == 0) {
        std::swap(waiting[random() % waiting.size()], waiting.back());
        waiting.back().ticket.Started();
        waiting.pop_back();
      }
      const int tenant = static_cast<int>(random() % count);
      const double seconds = std::exponential_distribution<double>(
          random() % 4 == 0 ? 0.2 : 5)(random);
      double own = seconds;
      for (const Waiting& each : waiting) {
        if (each.tenant == tenant) own += each.seconds;
      }
      auto ticket = Try(tenants[tenant], seconds, 1e6);
      if (own <= 4.0 / 2 / count) {
        EXPECT_TRUE(ticket.ok()) << ticket.status();
      }
      if (ticket.ok()) waiting.push_back({*std::move(ticket), tenant, seconds});
      double all = 0, largest = 0;
      for (const Waiting& each : waiting) {
        all += each.seconds;
        largest = std::max(largest, each.seconds);
      }
      ASSERT_NEAR(admission_.load().waiting_seconds, all, 1e-9);
      ASSERT_LE(all - largest, 4 + 1e-9);
    }
  }
}

TEST_F(FairAdmissionTest, BytesAndPlacesAreLeftForOthers) {
  std::vector<Admission::Ticket> tickets;
  for (auto ticket = Try(greedy_, 1e-6); ticket.ok();
       ticket = Try(greedy_, 1e-6)) {
    tickets.push_back(*std::move(ticket));
  }
  EXPECT_EQ(tickets.size(), 20u) << "half of the places";
  for (int i = 0; i < 10; ++i) {
    auto ticket = Try(modest_, 1e-6);
    ASSERT_TRUE(ticket.ok()) << ticket.status();
    tickets.push_back(*std::move(ticket));
  }
  EXPECT_FALSE(Try(modest_, 1e-6).ok());
  tickets.clear();
  EXPECT_TRUE(admission_.Reserve(10000, greedy_).ok())
      << "alone it may take all";
}

TEST_F(FairAdmissionTest, WaitsFollowTheWeights) {
  const auto large = Try(greedy_, 3, 3.4);
  ASSERT_TRUE(large.ok());
  // The modest one need not wait for the other's 3 s.
  EXPECT_TRUE(Try(modest_, 0.5, 1.2).ok());
  EXPECT_FALSE(Try(greedy_, 0.5, 3.5).ok());
  const auto own = Try(modest_, 0.5);
  ASSERT_TRUE(own.ok());
  // Its own half second, and as much of the other's.
  EXPECT_DOUBLE_EQ(admission_.PredictWait(In(200), modest_), 1);
  EXPECT_DOUBLE_EQ(admission_.PredictWait(In(200), greedy_), 3.5);
}

TEST_F(FairAdmissionTest, QuotasRefuseWithADelayAndFillAgain) {
  const Tenant limited = {
      .id = 3, .name = "limited", .share = 0.5, .quota = 0.5};
  std::vector<Admission::Ticket> tickets;
  double used = 0;
  absl::Status refused;
  while (refused.ok()) {
    auto ticket = Try(limited, 0.2);
    refused = ticket.status();
    if (!ticket.ok()) break;
    tickets.push_back(*std::move(ticket));
    used += 0.2;
    ASSERT_LT(used, 10);
  }
  // One second of the quota, and the request that went beyond it.
  EXPECT_NEAR(used, 0.6, 1e-9);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(refused), Reason::kQuota);
  EXPECT_EQ(ToRpcError(refused).retry_delay, milliseconds(200));
  EXPECT_TRUE(
      refused.GetPayload("type.googleapis.com/google.rpc.QuotaFailure"));
  EXPECT_FALSE(Try(limited, 0.2, 100, 0.19).ok());
  EXPECT_TRUE(Try(limited, 0.2, 100, 0.25).ok());
  EXPECT_TRUE(Try(modest_, 0.2).ok());
}

}  // namespace
}  // namespace attnd::server
