// No memory of the size queries x keys unless scores are asked for: counts
// every allocation of this program.
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <numeric>
#include <vector>

#include "kernels/attention.h"
#include "kernels/linear.h"
#include "kernels/plan.h"
#include "tests/kernels/problem_builder.h"

namespace {

std::atomic<int64_t> live_bytes{0};
std::atomic<int64_t> peak_bytes{0};

void* Counted(void* p) {
  if (p == nullptr) throw std::bad_alloc();
  const int64_t live = live_bytes +=
      static_cast<int64_t>(malloc_usable_size(p));
  int64_t peak = peak_bytes;
  while (live > peak && !peak_bytes.compare_exchange_weak(peak, live)) {
  }
  return p;
}

void Uncount(void* p) {
  if (p == nullptr) return;
  live_bytes -= static_cast<int64_t>(malloc_usable_size(p));
  std::free(p);
}

void* AlignedAlloc(size_t size, std::align_val_t alignment) {
  const auto a = static_cast<size_t>(alignment);
  return std::aligned_alloc(a, (size + a - 1) / a * a);
}

}  // namespace

void* operator new(size_t size) { return Counted(std::malloc(size)); }
void* operator new[](size_t size) { return Counted(std::malloc(size)); }
void* operator new(size_t size, std::align_val_t alignment) {
  return Counted(AlignedAlloc(size, alignment));
}
void* operator new[](size_t size, std::align_val_t alignment) {
  return Counted(AlignedAlloc(size, alignment));
}
void operator delete(void* p) noexcept { Uncount(p); }
void operator delete[](void* p) noexcept { Uncount(p); }
void operator delete(void* p, size_t) noexcept { Uncount(p); }
void operator delete[](void* p, size_t) noexcept { Uncount(p); }
void operator delete(void* p, std::align_val_t) noexcept { Uncount(p); }
void operator delete[](void* p, std::align_val_t) noexcept { Uncount(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { Uncount(p); }
void operator delete[](void* p, size_t, std::align_val_t) noexcept {
  Uncount(p);
}

namespace attnd::testing {
namespace {

constexpr int64_t kRows = 16384;
constexpr int64_t kDim = 16;

// Encoded, causal and in a window, so that running it takes a moment and a plan
// has all its parts.
ProblemSpec LongProblem() {
  ProblemSpec spec;
  spec.queries = spec.keys = kRows;
  spec.dim = spec.value_dim = kDim;
  Random random(1);
  spec.Fill(random);
  spec.kind = TimeAxis::Kind::kTicks;
  spec.query_ticks.resize(kRows);
  std::iota(spec.query_ticks.begin(), spec.query_ticks.end(), 0);
  spec.key_ticks = spec.query_ticks;
  spec.encoding.emplace();
  spec.encoding->blocks = {RotaryBlock{}};
  spec.encoding->biases = {AlibiTerm{}};
  spec.causal = true;
  return spec;
}

OutputBuffers OutputOnly(std::vector<float>& output) {
  OutputBuffers out;
  out.output = absl::MakeSpan(output);
  return out;
}

// Largest resident set so far; counts what libraries take from malloc, too.
int64_t PeakResidentBytes() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

TEST(Memory, OutputAloneNeedsNothingOfTheSizeQueriesTimesKeys) {
  const auto owned = OwnedProblem::Build(LongProblem());
  ASSERT_TRUE(owned.ok()) << owned.status();
  std::vector<float> output(kRows * kDim);

  peak_bytes = live_bytes.load();
  const int64_t before = live_bytes, resident_before = PeakResidentBytes();
  const auto plan = Plan::Make(owned->problem());
  ASSERT_TRUE(plan.ok()) << plan.status();
  const int64_t plan_peak = peak_bytes - before;
  const int64_t plan_held = live_bytes - before;
  const auto workspace = Workspace::Create();
  ASSERT_TRUE(workspace.ok()) << workspace.status();
  ASSERT_TRUE(RunAll(*plan, **workspace, OutputOnly(output)).ok());
  const int64_t peak = peak_bytes - before;

  // A matrix of one byte per pair would be 268 MB.
  EXPECT_LT(plan_peak, 4 << 20);
  EXPECT_LT(peak, 24 << 20);
  if (!kSanitized) {
    EXPECT_LT(PeakResidentBytes() - resident_before, 64 << 20);
  }
  // What it says is what it takes; oneDNN's own memory is not part of it.
  EXPECT_LE(plan_held, plan->plan_bytes() + 4096);
  EXPECT_LE((*workspace)->scratch_bytes(), peak);
  // At least the packed keys; these values are multiplied where they lie.
  EXPECT_GE((*workspace)->scratch_bytes(), kRows * kDim * 4);
}

// A problem that is there to be run; aborts where it cannot be planned.
struct Planned {
  explicit Planned(const ProblemSpec& spec)
      : owned(*OwnedProblem::Build(spec)),
        plan(*Plan::Make(owned.problem())),
        workspace(*Workspace::Create()) {}

  const OwnedProblem owned;
  const Plan plan;
  const std::unique_ptr<Workspace> workspace;
};

// Scratch that one workspace needed for it, and what its plan predicts.
void ExpectPredicted(const ProblemSpec& spec) {
  const Planned run(spec);
  std::vector<float> output(run.plan.output_elements());
  ASSERT_TRUE(RunAll(run.plan, *run.workspace, OutputOnly(output)).ok());
  EXPECT_LE(run.workspace->scratch_bytes(), run.plan.workspace_bytes())
      << spec.Describe();
}

TEST(Memory, AWorkspaceHoldsNoMoreThanThePlanPredicts) {
  const DampedRotationBlock damped{.frequencies = {1}, .rates = {0.01}};
  for (const Block& block :
       {Block(RotaryBlock{.rotary_dim = 4}), Block(damped)}) {
    for (int64_t rows : {1, 65, 300, 1000, 4000}) {
      for (int64_t dim : {6, 64, 256}) {
        if (rows > 1000 && dim > 64) continue;
        ProblemSpec spec = LongProblem();
        spec.queries = spec.keys = rows;
        spec.dim = dim;
        spec.value_dim = dim == 256 ? 8 : dim;
        spec.query_ticks.resize(rows);
        spec.key_ticks.resize(rows);
        spec.encoding->blocks = {block};
        spec.causal = true;
        spec.bf16_compute = rows == 65 || rows == 1000;
        Random random(2);
        spec.Fill(random);
        ExpectPredicted(spec);
      }
    }
  }
}

// Per worker at most 8 MiB and the encoded keys and values.
TEST(Memory, AWorkerNeedsLittleMoreThanTheKeysAtLength65536) {
  constexpr int64_t kLength = kSanitized ? 8192 : 65536, kWide = 64;
  ProblemSpec spec = LongProblem();
  spec.queries = spec.keys = kLength;
  spec.dim = spec.value_dim = kWide;
  spec.query_ticks.resize(kLength);
  std::iota(spec.query_ticks.begin(), spec.query_ticks.end(), 0);
  spec.key_ticks = spec.query_ticks;
  // Memory is that of the whole; time is not.
  spec.past_ticks = 500;
  Random random(4);
  spec.Fill(random);
  const auto owned = OwnedProblem::Build(spec);
  ASSERT_TRUE(owned.ok()) << owned.status();
  const auto plan = Plan::Make(owned->problem());
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::vector<float> output(plan->output_elements());
  peak_bytes = live_bytes.load();
  const int64_t before = live_bytes;
  const auto workspace = Workspace::Create();
  ASSERT_TRUE(workspace.ok());
  ASSERT_TRUE(RunAll(*plan, **workspace, OutputOnly(output)).ok());
  EXPECT_LE(peak_bytes - before, (8 << 20) + 4 * kLength * 2 * kWide);
}

// What running a head of the linear kind takes at most at once, beside the
// plan.
int64_t LinearPeak(int64_t rows, bool bidirectional, int64_t* predicted) {
  ProblemSpec spec = LongProblem();
  spec.queries = spec.keys = rows;
  spec.dim = spec.value_dim = 64;
  spec.query_ticks.resize(rows);
  std::iota(spec.query_ticks.begin(), spec.query_ticks.end(), 0);
  spec.key_ticks = spec.query_ticks;
  // Turns, decays that grow over a chunk, and decays that may not.
  DampedRotationBlock block;
  for (int p = 0; p < 32; ++p) {
    block.frequencies.push_back(1.0 / (1 + p));
    block.rates.push_back(1e-4 * std::pow(1e5, p / 31.0));
  }
  spec.encoding->blocks = {block};
  spec.encoding->biases.clear();
  spec.encoding->absolute_lag = bidirectional;
  Random random(5);
  spec.Fill(random);
  const auto owned = OwnedProblem::Build(spec);
  EXPECT_TRUE(owned.ok()) << owned.status();
  LinearProblem problem;
  problem.attention = owned->problem();
  problem.options.bidirectional = bidirectional;
  const auto plan = LinearPlan::Make(problem);
  EXPECT_TRUE(plan.ok()) << plan.status();
  std::vector<float> output(plan->output_elements());
  const auto workspace = LinearWorkspace::Create();
  EXPECT_TRUE(workspace.ok());
  *predicted = plan->workspace_bytes() + plan->progress_bytes();
  peak_bytes = live_bytes.load();
  const int64_t before = live_bytes;
  EXPECT_TRUE(RunLinear(*plan, **workspace,
                        {.output = absl::MakeSpan(output), .halves = {}})
                  .ok());
  return peak_bytes - before;
}

TEST(Memory, TheLinearKindHoldsAChunkAndItsSumsWhateverTheLength) {
  int64_t predicted = 0;
  const int64_t shorter = LinearPeak(5000, false, &predicted);
  const int64_t longer =
      LinearPeak(kSanitized ? 10'000 : 100'000, false, &predicted);
  EXPECT_LE(longer, shorter + 1024);
  // The tables of the encoding and the objects of oneDNN that are ours.
  constexpr int64_t kFixed = 64 << 10;
  EXPECT_LE(longer, predicted + kFixed);
  // 64 rows of D and Dv a few times, D x Dv three times.
  EXPECT_LE(predicted, 4 * (64 * 20 * 128 + 4 * 64 * 80));
  // One number a row waits for the second pass.
  const int64_t both = LinearPeak(10'000, true, &predicted);
  EXPECT_LE(both, predicted + kFixed);
  EXPECT_LE(both, longer + 4 * 10'000 + kFixed);
  // Heads share the phases of all rows, or none keeps them.
  for (const int64_t rows : {2000, 4096}) {
    const int64_t peak = LinearPeak(rows, false, &predicted);
    EXPECT_LE(peak, predicted + kFixed) << rows;
  }
}

TEST(Memory, RunningAgainAllocatesNothing) {
  ProblemSpec spec = LongProblem();
  spec.queries = spec.keys = 500;
  spec.query_ticks.resize(500);
  spec.key_ticks.resize(500);
  Random random(3);
  spec.Fill(random);
  const Planned run(spec);
  std::vector<float> output(run.plan.output_elements());
  const OutputBuffers out = OutputOnly(output);
  ASSERT_TRUE(RunAll(run.plan, *run.workspace, out).ok());
  const int64_t held = live_bytes, scratch = run.workspace->scratch_bytes();
  for (int again = 0; again < 3; ++again) {
    ASSERT_TRUE(RunAll(run.plan, *run.workspace, out).ok());
  }
  EXPECT_EQ(live_bytes, held);
  EXPECT_EQ(run.workspace->scratch_bytes(), scratch);
}

}  // namespace
}  // namespace attnd::testing
