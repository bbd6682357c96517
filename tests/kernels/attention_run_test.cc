// How units run: cancellation, float mode, empty axes, odd buffers.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "kernels/attention.h"
#include "tests/kernels/answer.h"
#include "tests/kernels/problem_builder.h"
#include "tests/kernels/random_problem.h"

namespace attnd::testing {
namespace {

ProblemSpec SmallProblem() {
  ProblemSpec spec;
  spec.batch = 2;
  spec.query_heads = spec.kv_heads = 2;
  spec.queries = 5;
  spec.keys = 7;
  spec.dim = spec.value_dim = 3;
  Random random(1);
  spec.Fill(random);
  return spec;
}

TEST(RunUnit, ReturnsCancelledWhenTheFlagIsSet) {
  const auto owned = OwnedProblem::Build(SmallProblem());
  ASSERT_TRUE(owned.ok());
  const auto plan = Plan::Make(owned->problem());
  ASSERT_TRUE(plan.ok());
  ASSERT_FALSE(plan->units().empty());
  Answer answer = UnwrittenAnswer(*plan);
  std::atomic<bool> cancelled{true};
  const absl::Status status =
      RunUnit(*plan, 0, ThisThreadsWorkspace(), BuffersOf(answer), &cancelled);
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  cancelled = false;
  EXPECT_TRUE(
      RunUnit(*plan, 0, ThisThreadsWorkspace(), BuffersOf(answer), &cancelled)
          .ok());
}

TEST(RunUnit, AWorkspaceWorksOnAfterACancellation) {
  const ProblemSpec spec = SmallProblem();
  const auto owned = OwnedProblem::Build(spec);
  ASSERT_TRUE(owned.ok());
  const auto plan = Plan::Make(owned->problem());
  ASSERT_TRUE(plan.ok());
  const auto workspace = Workspace::Create();
  ASSERT_TRUE(workspace.ok());
  Answer answer = UnwrittenAnswer(*plan);
  const std::atomic<bool> cancelled{true};
  EXPECT_FALSE(
      RunUnit(*plan, 0, **workspace, BuffersOf(answer), &cancelled).ok());
  ASSERT_TRUE(RunAll(*plan, **workspace, BuffersOf(answer)).ok());
  EXPECT_EQ(CompareBits(answer, RunSpec(spec, {.output = true})), "");
}

TEST(RunUnit, LeavesTheCallersFloatModeAsItWas) {
  RunSpec(SmallProblem());
  volatile float tiny = 1e-40f;
  EXPECT_GT(tiny * 1.0f, 0.0f) << "denormals are flushed after RunAll";
}

TEST(RunUnit, FlushesSubnormalWeights) {
  // exp(-100) is subnormal in f32.
  ProblemSpec spec;
  spec.dim = spec.value_dim = 1;
  spec.keys = 2;
  spec.query = {1};
  spec.key = {0, -100};
  spec.value = {0, 1};
  const Answer answer = RunSpec(spec);
  EXPECT_EQ(answer.output[0], 0);
  EXPECT_EQ(answer.weights[1], 0);
}

TEST(RunUnit, WorkersOfTheirOwnThreadsGiveTheSameBytes) {
  ProblemSpec spec = SmallProblem();
  spec.queries = spec.keys = 300;
  Random random(2);
  spec.Fill(random);
  const Answer expected = RunSpec(spec, {.output = true});
  const auto owned = OwnedProblem::Build(spec);
  ASSERT_TRUE(owned.ok());
  const auto plan = Plan::Make(owned->problem());
  ASSERT_TRUE(plan.ok());
  Answer answer = UnwrittenAnswer(*plan);
  const OutputBuffers out = BuffersOf(answer);
  std::atomic<int64_t> next{0};
  std::atomic<int> failures{0};
  const auto work = [&] {
    const auto workspace = Workspace::Create();
    const auto units = static_cast<int64_t>(plan->units().size());
    for (int64_t unit; (unit = next++) < units;) {
      if (!RunUnit(*plan, unit, **workspace, out).ok()) ++failures;
    }
  };
  std::vector<std::thread> workers(3);
  for (std::thread& worker : workers) worker = std::thread(work);
  for (std::thread& worker : workers) worker.join();
  FillEmptyRows(*plan, out);
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(CompareBits(answer, expected), "");
}

TEST(RunUnit, EmptyAxesGiveEmptyOrZeroAnswers) {
  for (int axis = 0; axis < 4; ++axis) {
    ProblemSpec spec = SmallProblem();
    if (axis == 0) spec.batch = 0;
    if (axis == 1) spec.queries = 0;
    if (axis == 2) spec.keys = 0;
    if (axis == 3) spec.value_dim = 0;
    Random random(3);
    spec.Fill(random);
    for (Layout layout : {Layout::kBHLD, Layout::kBLHD}) {
      spec.SetLayouts(layout);
      EXPECT_EQ(Judge(spec), "") << "axis " << axis;
    }
    const Answer answer = RunSpec(spec);
    EXPECT_EQ(static_cast<int64_t>(answer.output.size()),
              spec.batch * 2 * spec.queries * spec.value_dim);
    EXPECT_EQ(static_cast<int64_t>(answer.lse.size()),
              spec.batch * 2 * spec.queries);
  }
  EXPECT_EQ(Judge(SmallProblem()), "") << "a good problem right after";
}

TEST(RunUnit, WritesNothingBesideItsBuffersAtAnyAlignmentOfFour) {
  ProblemSpec spec = SmallProblem();
  spec.queries = 130;
  spec.keys = 70;
  Random random(4);
  spec.Fill(random);
  const Answer expected = RunSpec(spec);
  const auto owned = OwnedProblem::Build(spec);
  ASSERT_TRUE(owned.ok());
  AttentionProblem problem = owned->problem();
  problem.outputs = kAllOutputs;
  const auto plan = Plan::Make(problem);
  ASSERT_TRUE(plan.ok());
  constexpr float kGuard = -7.5f;
  std::vector<float> buffers[4];
  absl::Span<float> spans[4];
  const int64_t sizes[4] = {plan->output_elements(), plan->lse_elements(),
                            plan->score_elements(), plan->score_elements()};
  for (int b = 0; b < 4; ++b) {
    buffers[b].assign(sizes[b] + 3 + 16, kGuard);
    spans[b] = absl::MakeSpan(buffers[b]).subspan(3 - b % 3, sizes[b]);
  }
  OutputBuffers out;
  out.output = spans[0];
  out.lse = spans[1];
  out.scores = spans[2];
  out.weights = spans[3];
  ASSERT_TRUE(RunAll(*plan, ThisThreadsWorkspace(), out).ok());
  for (int b = 0; b < 4; ++b) {
    const float* begin = buffers[b].data();
    for (const float* p = begin; p < begin + buffers[b].size(); ++p) {
      if (p >= spans[b].begin() && p < spans[b].end()) continue;
      EXPECT_EQ(*p, kGuard) << "buffer " << b;
    }
  }
  const auto copy = [](absl::Span<float> s) {
    return std::vector<float>(s.begin(), s.end());
  };
  EXPECT_EQ(CompareBits({copy(spans[0]), copy(spans[1]), copy(spans[2]),
                         copy(spans[3])},
                        expected),
            "");
}

TEST(RunUnit, ManyDifferentShapesOnOneWorkspaceStayRight) {
  // More primitives than a workspace keeps.
  const auto workspace = Workspace::Create();
  ASSERT_TRUE(workspace.ok());
  Random random(5);
  for (int64_t dim = 1; dim <= 400; dim += 16) {
    ProblemSpec spec;
    spec.seed = dim;
    spec.queries = random.Integer(1, 140);
    spec.keys = random.Integer(1, 300);
    spec.dim = dim;
    spec.value_dim = 401 - dim;
    spec.Fill(random);
    spec.scale = 0.1f;
    const auto owned = OwnedProblem::Build(spec);
    ASSERT_TRUE(owned.ok());
    const auto plan = Plan::Make(owned->problem());
    ASSERT_TRUE(plan.ok());
    Answer answer = UnwrittenAnswer(*plan);
    ASSERT_TRUE(RunAll(*plan, **workspace, BuffersOf(answer)).ok());
    EXPECT_EQ(Compare(spec, answer, Reference(spec)), "") << spec.Describe();
  }
}

TEST(InstructionSet, HasAName) {
  EXPECT_FALSE(std::string(InstructionSet()).empty());
}

}  // namespace
}  // namespace attnd::testing
