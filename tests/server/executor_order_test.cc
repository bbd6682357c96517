// Whose turn it is: deadlines, priorities, tenants.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <vector>

#include "tests/server/executor_test.h"

namespace attnd::server {
namespace {

// Writes its number down. For one worker: no lock.
TestJob::Unit Note(int number, std::vector<int>& order) {
  return [number, &order](int64_t, const std::atomic<bool>&) {
    order.push_back(number);
    return absl::OkStatus();
  };
}

TEST_F(ExecutorTest, ServesTheEarliestDeadlineFirst) {
  Make(1);
  Gate gate;
  const auto blocker = Occupy(gate);
  std::vector<int> order;
  TestJob late(Note(3, order)), early(Note(1, order)), middle(Note(2, order)),
      equal(Note(4, order));
  executor_->Submit(late, 1, In(30));
  executor_->Submit(early, 1, In(10));
  executor_->Submit(middle, 1, In(20));
  executor_->Submit(equal, 1, In(30));
  gate.Open();
  for (TestJob* job : {&late, &early, &middle, &equal}) job->Wait();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 4}));
}

TEST_F(ExecutorTest, WithinATenantPrioritiesComeFirst) {
  Make(1);
  Gate gate;
  const auto blocker = Occupy(gate);
  std::vector<int> order;
  TestJob low(Note(3, order)), normal(Note(2, order)), high(Note(1, order));
  executor_->Submit(low, 1, In(1), {.priority = -1});
  executor_->Submit(normal, 1, In(20));
  executor_->Submit(high, 1, In(30), {.priority = 5});
  gate.Open();
  for (TestJob* job : {&low, &normal, &high}) job->Wait();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

// Units of 10 ms each, all waiting from the start.
TEST_F(ExecutorTest, TenantsShareByWeight) {
  Make(1);
  Gate gate;
  const auto blocker = Occupy(gate);
  int units[3] = {};
  std::vector<std::unique_ptr<TestJob>> jobs;
  for (int tenant = 1; tenant <= 2; ++tenant) {
    jobs.push_back(std::make_unique<TestJob>(
        [&, tenant](int64_t, const std::atomic<bool>&) {
          time_.Advance(0.01);
          ++units[tenant];
          // Both have work until one has done 60 units.
          if (units[1] + units[2] == 80) {
            EXPECT_NEAR(units[1], 60, 12);
          }
          return absl::OkStatus();
        }));
    executor_->Submit(*jobs.back(), 100, In(1e6),
                      {.tenant = tenant,
                       .weight = tenant == 1 ? 3.0 : 1.0,
                       .seconds_per_unit = 0.01});
  }
  gate.Open();
  for (auto& job : jobs) EXPECT_TRUE(job->Wait().status.ok());
}

// One tenant has very much to do; who comes now and then is served at once.
TEST_F(ExecutorTest, AModestTenantDoesNotQueueBehindAGreedyOne) {
  Make(1);
  std::atomic<int> greedy_units{0};
  std::atomic<int> seen{-1};
  TestJob modest([&](int64_t, const std::atomic<bool>&) {
    seen = greedy_units.load();
    return absl::OkStatus();
  });
  TestJob greedy([&](int64_t unit, const std::atomic<bool>&) {
    time_.Advance(0.01);
    ++greedy_units;
    if (unit == 50) {
      executor_->Submit(modest, 1, In(1e6),
                        {.tenant = 2, .seconds_per_unit = 0.01});
    }
    return absl::OkStatus();
  });
  executor_->Submit(greedy, 200, In(10),
                    {.tenant = 1, .seconds_per_unit = 0.01});
  EXPECT_TRUE(modest.Wait().status.ok());
  EXPECT_TRUE(greedy.Wait().status.ok());
  EXPECT_EQ(seen, 51);
}

TEST_F(ExecutorTest, AnUrgentJobOvertakesBetweenUnits) {
  Make(1);
  std::vector<int> order;
  Gate gate;
  std::promise<void> running;
  TestJob large([&](int64_t unit, const std::atomic<bool>&) {
    order.push_back(static_cast<int>(unit));
    if (unit == 0) {
      running.set_value();
      gate.Wait();
    }
    return absl::OkStatus();
  });
  TestJob urgent([&](int64_t, const std::atomic<bool>&) {
    order.push_back(-1);
    return absl::OkStatus();
  });
  executor_->Submit(large, 3, In(100));
  running.get_future().wait();
  executor_->Submit(urgent, 1, In(1));
  gate.Open();
  large.Wait();
  urgent.Wait();
  EXPECT_EQ(order, (std::vector<int>{0, -1, 1, 2}));
}

}  // namespace
}  // namespace attnd::server
