#include "server/receiving.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/status.h"
#include "tests/server/fake_time.h"

namespace attnd::server {
namespace {

using ::attnd::testing::FakeTime;
using std::chrono::seconds;

constexpr int64_t kMiB = 1 << 20;

struct Call : Receiving::Receiver {
  void GiveUp(const absl::Status& why) override {
    EXPECT_FALSE(refusal.has_value()) << "given up twice";
    refusal = why;
  }
  std::optional<Reason> reason() const {
    return refusal ? ReasonOf(*refusal) : std::nullopt;
  }
  std::optional<absl::Status> refusal;
};

class ReceivingTest : public ::testing::Test {
 protected:
  std::shared_ptr<Call> Enter(const std::string& peer,
                              Instant until = Instant() + seconds(60)) {
    auto call = std::make_shared<Call>();
    EXPECT_TRUE(receiving_.Enter(call, peer, until).ok());
    return call;
  }
  std::vector<std::shared_ptr<Call>> EnterMany(const std::string& peer, int n) {
    std::vector<std::shared_ptr<Call>> calls;
    for (int i = 0; i < n; ++i) calls.push_back(Enter(peer));
    return calls;
  }
  static int GivenUp(const std::vector<std::shared_ptr<Call>>& calls) {
    int count = 0;
    for (const auto& call : calls) count += call->refusal.has_value();
    return count;
  }

  // As the system would tell, at its price.
  std::optional<int64_t> BytesOf(const std::string& peer) {
    ++looks_;
    const auto it = received_.find(peer);
    return it == received_.end() ? std::nullopt
                                 : std::optional<int64_t>(it->second);
  }
  Instant::duration cpu_time() const {
    return looks_ * std::chrono::nanoseconds(2500);
  }

  std::map<std::string, int64_t> received_;
  int64_t looks_ = 0;
  FakeTime time_;
  Receiving receiving_{{.bytes = 300 * kMiB, .message_bytes = 16 * kMiB},
                       [this](const std::string& p) { return BytesOf(p); },
                       &time_,
                       [this] { return cpu_time(); }};
};

TEST_F(ReceivingTest, WhatFitsArrives) {
  received_ = {{"a", 7000}, {"b", 0}};
  const auto first = Enter("a"), second = Enter("b");
  received_ = {{"a", 7000 + 50 * kMiB}, {"b", 25 * kMiB}};
  receiving_.Check(Instant());
  EXPECT_EQ(receiving_.load().bytes, 75 * kMiB)
      << "what came before does not count";
  EXPECT_EQ(receiving_.load().receivers, 2);
  EXPECT_TRUE(receiving_.Leave(*first, 50 * kMiB));
  EXPECT_TRUE(receiving_.Leave(*second, 25 * kMiB));
  receiving_.Check(Instant());
  EXPECT_EQ(receiving_.load().bytes, 0);
  EXPECT_EQ(receiving_.load().receivers, 0);
  EXPECT_FALSE(first->refusal.has_value());
}

TEST_F(ReceivingTest, WhoIsLateIsRefused) {
  const Instant start = Instant();
  const auto late = Enter("a", start + seconds(1));
  const auto slow = Enter("a", start + seconds(3));
  const auto stream = Enter("a", Instant::max());
  receiving_.Check(start + seconds(2));
  EXPECT_EQ(late->reason(), Reason::kHopeless);
  EXPECT_FALSE(receiving_.Leave(*late, 0));
  EXPECT_FALSE(slow->refusal.has_value());
  receiving_.Check(start + std::chrono::hours(1000));
  EXPECT_EQ(slow->reason(), Reason::kHopeless);
  EXPECT_FALSE(stream->refusal.has_value());
  EXPECT_TRUE(receiving_.Leave(*stream, 5));
}

TEST_F(ReceivingTest, WhoHoldsMostIsRefusedUntilThreeQuartersAreFree) {
  received_ = {{"hog", 0}, {"fat", 0}, {"good", 0}};
  const auto hog = EnterMany("hog", 10), fat = EnterMany("fat", 4);
  const auto good = Enter("good");
  received_ = {{"hog", 90 * kMiB}, {"fat", 60 * kMiB}, {"good", 3 * kMiB}};
  receiving_.Check(Instant());
  EXPECT_EQ(receiving_.load().bytes, 3 * kMiB);
  EXPECT_EQ(GivenUp(hog), 10);
  EXPECT_EQ(GivenUp(fat), 4);
  EXPECT_EQ(hog.front()->reason(), Reason::kQueueFull);
  EXPECT_FALSE(good->refusal.has_value());
  EXPECT_FALSE(receiving_.Leave(*hog.front(), 0));
}

TEST_F(ReceivingTest, WhoHoldsLessIsSparedWhereThatIsEnough) {
  received_ = {{"hog", 0}, {"fat", 0}};
  const auto hog = EnterMany("hog", 10), fat = EnterMany("fat", 4);
  received_ = {{"hog", 39 * kMiB}, {"fat", 37 * kMiB}};
  receiving_.Check(Instant());
  EXPECT_EQ(GivenUp(hog), 10);
  EXPECT_EQ(GivenUp(fat), 0);
}

TEST_F(ReceivingTest, WhatArrivedDoesNotCount) {
  received_["a"] = 0;
  const auto stream = Enter("a", Instant::max());
  int64_t wire = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto call = Enter("a");
    const int64_t bytes = (i % 7) * kMiB;
    // Frames of 16 KiB with headers of 9 bytes, and some 100 bytes of metadata.
    wire += bytes + bytes / 16384 * 9 + 100;
    received_["a"] = wire;
    if (i % 3 == 0) receiving_.Check(Instant());
    ASSERT_TRUE(receiving_.Leave(*call, bytes)) << i;
  }
  receiving_.Check(Instant());
  EXPECT_LE(receiving_.load().bytes, 1000 * 100);
  EXPECT_FALSE(stream->refusal.has_value());
}

TEST_F(ReceivingTest, CallsThatWereCancelledTakeNothingOfOthersWithThem) {
  received_["a"] = 0;
  const auto hog = Enter("a");
  received_["a"] = 60 * kMiB;
  receiving_.Check(Instant());
  for (int i = 0; i < 100; ++i) {
    const auto call = Enter("a");
    ASSERT_TRUE(receiving_.Leave(*call, 0));
  }
  received_["a"] = 101 * kMiB;
  receiving_.Check(Instant());
  EXPECT_TRUE(hog->refusal.has_value());
}

TEST_F(ReceivingTest, WhatCancelledCallsHadReceivedIsGone) {
  received_["a"] = 0;
  for (int i = 0; i < 10; ++i) {
    const auto call = Enter("a");
    received_["a"] += 70 * kMiB;
    receiving_.Check(Instant());
    ASSERT_EQ(receiving_.load().bytes, 70 * kMiB);
    ASSERT_TRUE(receiving_.Leave(*call, 0));
    receiving_.Check(Instant());
    ASSERT_EQ(receiving_.load().bytes, 0);
  }
}

TEST_F(ReceivingTest, ConnectionsNobodyCanCountEndByTimeOnly) {
  const auto call = Enter("unix:", Instant() + seconds(1));
  receiving_.Check(Instant());
  EXPECT_FALSE(call->refusal.has_value());
  EXPECT_EQ(receiving_.load().bytes, 0);
  receiving_.Check(Instant() + seconds(1));
  EXPECT_TRUE(call->refusal.has_value());
}

TEST_F(ReceivingTest, APeerThatComesAgainStartsAnew) {
  received_["a"] = 70 * kMiB;
  const auto before = Enter("a");
  receiving_.Check(Instant());
  // Another connection from the same port, while the call is not over yet.
  received_["a"] = 1000;
  const auto after = Enter("a");
  receiving_.Check(Instant());
  EXPECT_EQ(receiving_.load().bytes, 0);
  EXPECT_TRUE(receiving_.Leave(*before, 0));
  EXPECT_TRUE(receiving_.Leave(*after, 10));
}

TEST_F(ReceivingTest, DrainingGivesUpCallsAndLeavesStreams) {
  const auto call = Enter("a");
  const auto stream = Enter("a", Instant::max());
  receiving_.Drain();
  EXPECT_EQ(call->reason(), Reason::kDraining);
  EXPECT_FALSE(stream->refusal.has_value());
  EXPECT_TRUE(receiving_.Leave(*stream, 0));
  auto next = std::make_shared<Call>();
  EXPECT_EQ(ReasonOf(receiving_.Enter(next, "a", Instant() + seconds(1))),
            Reason::kDraining);
  EXPECT_TRUE(receiving_.Enter(next, "a", Instant::max()).ok());
  EXPECT_TRUE(receiving_.Leave(*next, 0));
}

TEST_F(ReceivingTest, OneMessageFitsHoweverSmallTheLimitIs) {
  Receiving small({.bytes = kMiB, .message_bytes = 16 * kMiB},
                  [this](const std::string& p) { return BytesOf(p); });
  const auto call = std::make_shared<Call>();
  ASSERT_TRUE(small.Enter(call, "a", Instant::max()).ok());
  received_["a"] = 17 * kMiB;
  small.Check(Instant());
  EXPECT_FALSE(call->refusal.has_value());
  received_["a"] = 19 * kMiB;
  small.Check(Instant());
  EXPECT_EQ(call->reason(), Reason::kQueueFull);
}

// Streams that say nothing, each on a connection of its own.
class SilentStreams : public ReceivingTest {
 protected:
  void Open(int count, Receiving& receiving) {
    for (int i = 0; i < count; ++i) {
      const std::string peer = absl::StrCat("silent", i);
      received_[peer] = 1000;
      streams_.push_back(std::make_shared<Call>());
      EXPECT_TRUE(receiving.Enter(streams_.back(), peer, Instant::max()).ok());
    }
    receiving.Check(Instant());
  }
  int ChecksUntilGivenUp(int stream) {
    int checks = 0;
    while (!streams_[stream]->refusal.has_value() && checks < 10000) {
      receiving_.Check(Instant());
      ++checks;
    }
    return checks;
  }
  std::vector<std::shared_ptr<Call>> streams_;
};

TEST_F(SilentStreams, CostNextToNothing) {
  Receiving large(
      {.bytes = 12000 * kMiB},
      [this](const std::string& p) { return BytesOf(p); }, &time_,
      [this] { return cpu_time(); });
  Open(600, large);
  const Instant::duration before = cpu_time();
  for (int i = 0; i < 1000; ++i) large.Check(Instant());
  EXPECT_LE(Seconds(cpu_time() - before),
            0.006 * 1000 * Seconds(Receiving::kPeriod));
}

TEST_F(SilentStreams, AFloodOverManyIsNoticedAtOnce) {
  Open(600, receiving_);
  for (int i = 0; i < 600; ++i) received_[absl::StrCat("silent", i)] += 200000;
  receiving_.Check(Instant());
  EXPECT_GT(GivenUp(streams_), 0);
}

TEST_F(SilentStreams, AFloodOverOneIsNoticedBeforeItFillsWhatIsFree) {
  Open(4000, receiving_);
  const double per_check =
      Receiving::kBytesPerSecond * Seconds(Receiving::kPeriod);
  for (int i = 0; i < 4000; i += 79) {
    received_[absl::StrCat("silent", i)] += 80 * kMiB;
    EXPECT_LE(ChecksUntilGivenUp(i) * per_check, 75 * kMiB + per_check);
  }
}

TEST_F(SilentStreams, AConnectionWithNewCallsIsLookedAtWhenTheyEnter) {
  Open(600, receiving_);
  for (int i = 0; i < 100; ++i) {
    received_["silent7"] += kMiB;
    receiving_.Check(Instant());
    const auto call = Enter("silent7");
    received_["silent7"] += kMiB;
    ASSERT_TRUE(receiving_.Leave(*call, 0));
    receiving_.Check(Instant());
  }
  EXPECT_TRUE(streams_[7]->refusal.has_value())
      << "what the stream holds was taken for that of the calls";
}

// With the thread that checks.
class ReceivingThread : public ReceivingTest {
 protected:
  struct Told : Receiving::Receiver {
    void GiveUp(const absl::Status&) override { told = true; }
    std::atomic<bool> told{false};
  };
  ReceivingThread() { receiving_.Start(); }
  ~ReceivingThread() override { receiving_.Stop(); }

  std::shared_ptr<Told> EnterFor(double seconds) {
    auto call = std::make_shared<Told>();
    EXPECT_TRUE(
        receiving_.Enter(call, "a", time_.Now() + FromSeconds(seconds)).ok());
    return call;
  }
  void AdvanceUntil(const std::function<bool()>& condition) {
    while (!condition()) {
      time_.Advance(0.01);
      std::this_thread::yield();
    }
  }
};

TEST_F(ReceivingThread, RestsWhileNobodyWaits) {
  const auto resting = [this] { return receiving_.load().resting; };
  for (int i = 0; i < 3; ++i) {
    AdvanceUntil(resting);
    const auto call = EnterFor(1000);
    EXPECT_FALSE(resting());
    EXPECT_TRUE(receiving_.Leave(*call, 10));
  }
}

TEST_F(ReceivingThread, ObeysDeadlines) {
  for (int i = 0; i < 3; ++i) {
    const auto call = EnterFor(1);
    time_.Advance(0.5);
    EXPECT_FALSE(call->told);
    AdvanceUntil([&] { return call->told.load(); });
  }
}

TEST(Receiving, EveryCallEndsOnceWhoeverComesFirst) {
  constexpr int kThreads = 4, kCalls = 500;
  std::atomic<int64_t> received{0};
  std::atomic<int> arrived{0}, given_up{0};
  struct Counted : Receiving::Receiver {
    explicit Counted(std::atomic<int>& count) : given_up(count) {}
    void GiveUp(const absl::Status&) override { ++given_up; }
    std::atomic<int>& given_up;
  };
  Receiving receiving({.bytes = 20 * kMiB},
                      [&](const std::string&) { return received.load(); });
  receiving.Start();
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kCalls; ++i) {
        const auto call = std::make_shared<Counted>(given_up);
        const std::string peer = t % 2 == 0 ? "even" : "odd";
        ASSERT_TRUE(receiving.Enter(call, peer, Instant::max()).ok());
        received += kMiB;
        if (i % 10 == 0) receiving.Check(std::chrono::steady_clock::now());
        arrived += receiving.Leave(*call, kMiB);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  receiving.Stop();
  EXPECT_EQ(arrived + given_up, kThreads * kCalls);
  EXPECT_EQ(receiving.load().receivers, 0);
}

}  // namespace
}  // namespace attnd::server
