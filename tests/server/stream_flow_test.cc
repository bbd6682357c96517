#include "server/stream_flow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

namespace attnd::server {
namespace {

using ::testing::ElementsAre;

ReplyPieces Reply(const std::string& text) {
  ReplyPieces pieces(1);
  pieces.front().text = text;
  return pieces;
}

// Notes what the flow wants; the test answers for gRPC.
class Wire : public StreamFlow::Wire {
 public:
  void Read() override { ++reads; }
  void Write(ReplyPieces reply) override {
    written.push_back(reply.front().text);
  }
  void End(StreamEnd how) override {
    EXPECT_FALSE(end.has_value()) << "ended twice";
    end = how;
  }
  int reads = 0;
  std::vector<std::string> written;
  std::optional<StreamEnd> end;
};

class StreamFlowTest : public ::testing::Test {
 protected:
  Wire wire_;
  StreamFlow flow_{wire_, 2};
};

TEST_F(StreamFlowTest, ReadsNoMoreThanMayBeOpen) {
  flow_.Begin();
  EXPECT_EQ(wire_.reads, 1);
  EXPECT_TRUE(flow_.Arrived("a"));
  EXPECT_EQ(wire_.reads, 2);
  EXPECT_TRUE(flow_.Arrived("b"));
  EXPECT_EQ(wire_.reads, 2);
  const std::string a = "a";
  flow_.Answer(&a, Reply("A"));
  EXPECT_EQ(wire_.reads, 2) << "an answer that is not written is still open";
  flow_.Written(true);
  EXPECT_EQ(wire_.reads, 3);
}

TEST_F(StreamFlowTest, WritesOneAnswerAtATimeInTheOrderGiven) {
  flow_.Begin();
  const std::string a = "a", b = "b";
  flow_.Arrived(a);
  flow_.Arrived(b);
  flow_.Answer(&b, Reply("B"));
  flow_.Answer(&a, Reply("A"));
  EXPECT_THAT(wire_.written, ElementsAre("B"));
  flow_.Written(true);
  EXPECT_THAT(wire_.written, ElementsAre("B", "A"));
}

TEST_F(StreamFlowTest, HalfCloseEndsAfterTheLastAnswer) {
  flow_.Begin();
  const std::string a = "a";
  flow_.Arrived(a);
  flow_.ReadEnded();
  EXPECT_FALSE(wire_.end);
  flow_.Answer(&a, Reply("A"));
  EXPECT_FALSE(wire_.end);
  flow_.Written(true);
  EXPECT_EQ(wire_.end, StreamEnd::kComplete);
}

TEST_F(StreamFlowTest, DrainAnswersWhatIsOpenAndReadsNoMore) {
  flow_.Begin();
  const std::string a = "a";
  flow_.Arrived(a);
  flow_.Drain();
  const int reads = wire_.reads;
  EXPECT_FALSE(wire_.end);
  flow_.Answer(&a, Reply("A"));
  flow_.Written(true);
  EXPECT_THAT(wire_.written, ElementsAre("A"));
  EXPECT_EQ(wire_.reads, reads);
  EXPECT_EQ(wire_.end, StreamEnd::kDraining);
  flow_.ReadEnded();  // the read that was under way
}

TEST_F(StreamFlowTest, CancellationDropsAnswersAndWaitsForTheWork) {
  flow_.Begin();
  const std::string a = "a", b = "b";
  flow_.Arrived(a);
  flow_.Arrived(b);
  flow_.Answer(&a, Reply("A"));
  flow_.Cancelled();
  EXPECT_FALSE(wire_.end);
  flow_.Written(false);
  EXPECT_FALSE(wire_.end);
  flow_.Answer(&b, Reply("B"));
  EXPECT_EQ(wire_.end, StreamEnd::kCancelled);
  EXPECT_THAT(wire_.written, ElementsAre("A"));
}

TEST_F(StreamFlowTest, AFailedWriteIsACancellation) {
  flow_.Begin();
  const std::string a = "a";
  flow_.Arrived(a);
  flow_.Answer(&a, Reply("A"));
  flow_.Written(false);
  EXPECT_EQ(wire_.end, StreamEnd::kCancelled);
}

TEST_F(StreamFlowTest, AnIdIsTakenUntilItsAnswer) {
  flow_.Begin();
  const std::string a = "a";
  EXPECT_TRUE(flow_.Arrived(a));
  EXPECT_FALSE(flow_.Arrived(a));
  flow_.Answer(nullptr, Reply("refused"));
  flow_.Written(true);
  EXPECT_FALSE(flow_.Arrived(a));
  flow_.Answer(&a, Reply("A"));
  flow_.Answer(nullptr, Reply("refused"));
  flow_.Written(true);
  flow_.Written(true);
  EXPECT_TRUE(flow_.Arrived(a));
}

TEST_F(StreamFlowTest, ADrainedRegistryDrainsWhoComes) {
  StreamRegistry registry;
  Wire early_wire, late_wire;
  auto early = std::make_shared<StreamFlow>(early_wire, 2);
  early->Begin();
  registry.Enter(early);
  EXPECT_EQ(registry.size(), 1);
  registry.Drain();
  EXPECT_EQ(early_wire.end, StreamEnd::kDraining);
  auto late = std::make_shared<StreamFlow>(late_wire, 2);
  registry.Enter(late);
  EXPECT_FALSE(late_wire.end) << "it has not begun";
  late->Begin();
  EXPECT_EQ(late_wire.end, StreamEnd::kDraining);
  EXPECT_EQ(late_wire.reads, 0);
  registry.Leave(early);
  registry.Leave(late);
  EXPECT_EQ(registry.size(), 0);
}

// A transport whose reads and writes complete on threads of their own, and
// workers that answer in any order: every message gets one answer, then the
// end comes, and nothing is touched after it.
class ThreadedWire : public StreamFlow::Wire {
 public:
  explicit ThreadedWire(int messages) : messages_(messages) {}
  ~ThreadedWire() override {
    for (std::thread& thread : threads_) thread.join();
  }

  void Run(StreamFlow& flow) {
    flow_ = &flow;
    flow.Begin();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_; });
  }
  int written() const { return written_; }
  int arrived() const { return arrived_; }

  void Read() override {
    Start([this] {
      if (arrived_ == messages_) return flow_->ReadEnded();
      const std::string id = absl::StrCat(arrived_++);
      EXPECT_TRUE(flow_->Arrived(id));
      Start([this, id] { flow_->Answer(&id, Reply(id)); });
    });
  }
  void Write(ReplyPieces) override {
    ++written_;
    Start([this] { flow_->Written(true); });
  }
  void End(StreamEnd) override {
    std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

 private:
  template <typename Function>
  void Start(Function function) {
    std::lock_guard lock(mutex_);
    threads_.emplace_back(function);
  }

  const int messages_;
  StreamFlow* flow_ = nullptr;
  std::atomic<int> arrived_{0}, written_{0};
  std::mutex mutex_;  // guards the two below
  bool ended_ = false;
  std::vector<std::thread> threads_;
  std::condition_variable changed_;
};

TEST(StreamFlowThreads, EveryMessageIsAnsweredOnce) {
  ThreadedWire wire(200);
  StreamFlow flow(wire, 7);
  wire.Run(flow);
  EXPECT_EQ(wire.arrived(), 200);
  EXPECT_EQ(wire.written(), 200);
}

}  // namespace
}  // namespace attnd::server
