#include "tests/kernels/unit_order.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/attention.h"
#include "tests/kernels/answer.h"

namespace attnd::testing {

void ExpectTheSameBytesInAnyOrder(const ProblemSpec& spec,
                                  const OutputSet& outputs, size_t least_units,
                                  Random& random) {
  const auto owned = OwnedProblem::Build(spec);
  ASSERT_TRUE(owned.ok()) << owned.status();
  AttentionProblem problem = owned->problem();
  problem.outputs = outputs;
  const auto plan = Plan::Make(problem);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_GE(plan->units().size(), least_units);
  Answer in_order = UnwrittenAnswer(*plan);
  ASSERT_TRUE(RunAll(*plan, ThisThreadsWorkspace(), BuffersOf(in_order)).ok());

  const auto first = Workspace::Create(), second = Workspace::Create();
  ASSERT_TRUE(first.ok() && second.ok());
  std::vector<int64_t> order(plan->units().size());
  std::iota(order.begin(), order.end(), 0);
  for (int trial = 0; trial < 3; ++trial) {
    for (size_t i = order.size(); i-- > 1;) {
      std::swap(order[i], order[random.Integer(0, static_cast<int64_t>(i))]);
    }
    Answer shuffled = UnwrittenAnswer(*plan);
    for (int64_t unit : order) {
      Workspace& workspace = random.Coin() ? **first : **second;
      ASSERT_TRUE(RunUnit(*plan, unit, workspace, BuffersOf(shuffled)).ok());
    }
    FillEmptyRows(*plan, BuffersOf(shuffled));
    FinishKeyMass(*plan, BuffersOf(shuffled));
    EXPECT_EQ(CompareBits(in_order, shuffled), "");
  }
  EXPECT_LE((*first)->scratch_bytes(), plan->workspace_bytes());
  EXPECT_LE((*second)->scratch_bytes(), plan->workspace_bytes());
}

}  // namespace attnd::testing
