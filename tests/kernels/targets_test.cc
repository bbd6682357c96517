// Every instruction set that this machine can run, not only its best: one
// program serves them all.
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "tests/kernels/answer.h"
#include "tests/kernels/problem_builder.h"
#include "tests/kernels/random_problem.h"

namespace attnd::testing {
namespace {

// Restricts dispatch to one target while it lives.
class OneTarget {
 public:
  explicit OneTarget(int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().DeInit();
  }
  ~OneTarget() {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().DeInit();
  }
};

TEST(Targets, EachKeepsTheContract) {
  std::set<std::string> names;
  for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
    const OneTarget one(target);
    names.insert(InstructionSet());
    for (uint64_t seed = 1; seed <= (kSanitized ? 20 : 80); ++seed) {
      const ProblemSpec spec =
          RandomProblem(seed, {.pairs = 8'000, .max_rows = 150});
      ASSERT_EQ(Judge(spec), "") << "on " << InstructionSet();
    }
    const ProblemSpec large = RandomProblem(3, {.pairs = 100'000});
    ASSERT_EQ(Judge(large), "") << "on " << InstructionSet();
  }
  EXPECT_GE(names.size(), 2u) << "dispatch did not follow";
}

TEST(Targets, EachIsInvariantUnderAShiftOfTime) {
  for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
    const OneTarget one(target);
    for (uint64_t seed = 1; seed <= 40; ++seed) {
      ProblemSpec spec = RandomProblem(seed, {.pairs = 8'000, .max_rows = 150});
      if (spec.kind != TimeAxis::Kind::kTicks) continue;
      const Answer answer = RunSpec(spec);
      for (auto* times : {&spec.query_ticks, &spec.key_ticks}) {
        for (int64_t& t : *times) t += 1'234'567'890'123'456'789;
      }
      ASSERT_EQ(CompareBits(answer, RunSpec(spec)), "")
          << InstructionSet() << "\n"
          << spec.Describe();
    }
  }
}

}  // namespace
}  // namespace attnd::testing
