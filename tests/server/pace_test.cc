#include "server/pace.h"

#include <gtest/gtest.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

namespace attnd::server {
namespace {

using Clock = std::chrono::steady_clock;

double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * now.tv_nsec;
}

// A problem of one query and one key; what runs never looks at it.
class PaceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto tensor = TensorRef::Make(
        absl::Span<const char>(reinterpret_cast<const char*>(values_.data()),
                               values_.size() * sizeof(float)),
        DType::kF32, Layout::kBHLD,
        {.batch = 1, .heads = 1, .rows = 1, .cols = 4});
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    AttentionProblem problem;
    problem.query = problem.key = problem.value = *tensor;
    auto plan = Plan::Make(problem);
    ASSERT_TRUE(plan.ok()) << plan.status();
    plan_ = std::make_unique<Plan>(*std::move(plan));
    auto workspace = Workspace::Create();
    ASSERT_TRUE(workspace.ok()) << workspace.status();
    workspace_ = *std::move(workspace);
  }

  // Uses the processor for about 2 ms and notes how long it really was.
  RunUnitFunction Busy() {
    return [this](const Plan&, int64_t, Workspace&, const OutputBuffers&,
                  const std::atomic<bool>*, UnitStats*) {
      const double start = ThreadSeconds();
      while (ThreadSeconds() < start + 2e-3) {
      }
      used_seconds_ = ThreadSeconds() - start;
      return result_;
    };
  }

  std::vector<float> values_ = {1, 2, 3, 4};
  std::unique_ptr<Plan> plan_;
  std::unique_ptr<Workspace> workspace_;
  std::atomic<bool> stop_{false};
  absl::Status result_;
  double used_seconds_ = 0;
};

TEST_F(PaceTest, AUnitTakesTheFactorTimesItsProcessorTime) {
  const auto start = Clock::now();
  const double start_cpu = ThreadSeconds();
  EXPECT_TRUE(
      Paced(Busy(), 20)(*plan_, 0, *workspace_, {}, &stop_, nullptr).ok());
  const std::chrono::duration<double> took = Clock::now() - start;
  EXPECT_GE(took.count(), 20 * used_seconds_);
  // The rest of the time it leaves the processor alone.
  EXPECT_LT(ThreadSeconds() - start_cpu, 0.25 * 20 * used_seconds_);
}

TEST_F(PaceTest, AStoppedUnitDoesNotIdle) {
  stop_ = true;
  // 2 ms times the factor would be an hour.
  Paced(Busy(), 2e6)(*plan_, 0, *workspace_, {}, &stop_, nullptr).IgnoreError();
}

TEST_F(PaceTest, KeepsTheStatusOfTheUnit) {
  result_ = absl::InternalError("broken");
  EXPECT_EQ(Paced(Busy(), 1)(*plan_, 0, *workspace_, {}, &stop_, nullptr),
            result_);
}

TEST(PacedCosts, EveryPredictionIsTheFactorTimesTheOther) {
  const CostModel plain({.seconds_per_request = 3e-6,
                         .seconds_per_unit = 5e-6,
                         .seconds_per_flop = 1e-11,
                         .seconds_per_pair = 3e-10,
                         .seconds_per_block = 2e-6,
                         .seconds_per_row = 4e-8,
                         .seconds_per_byte = 2e-10,
                         .seconds_per_reply_byte = 1e-10,
                         .seconds_per_encoded = 1e-9,
                         .seconds_per_biased = 1e-10,
                         .seconds_per_element = 1e-9});
  const CostModel paced = Paced(plain, 8);
  const Work work = {.requests = 1,
                     .units = 11,
                     .flops = 7e8,
                     .pairs = 3e5,
                     .blocks = 80,
                     .rows = 2e3,
                     .bytes = 2e6,
                     .reply_bytes = 1e6,
                     .encoded = 6e4,
                     .biased = 3e5,
                     .elements = 5e4};
  EXPECT_DOUBLE_EQ(paced.Predict(work), 8 * plain.Predict(work));
  EXPECT_DOUBLE_EQ(8 * paced.flops_per_second(), plain.flops_per_second());
}

}  // namespace
}  // namespace attnd::server
