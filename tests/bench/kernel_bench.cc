// Times the kernel against the matrix products it cannot avoid.
//
// Names: attend/<dtype>/<case>/B<b>_H<h>_L<l>_D<d>, one thread. Counters:
//   gflops          products of the visible pairs per second, 1e9
//   floor_ratio     time / time of the bare products (floor.h)
//   floor_gflops    rate of those
//   plain_ratio     time / time of `plain`
//   encoding_ratio  time / time of the same mask without an encoding
//   bf16_speedup    of bf16 compute: time of the same case in f32 / time
// Ratios are medians over rounds in which all cases of a size and the floor run
// one after the other, so that what disturbs one disturbs all.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/bench/floor.h"
#include "tests/bench/linear_bench.h"
#include "tests/bench/shapes_bench.h"
#include "tests/bench/workload.h"

namespace attnd::bench {
namespace {

constexpr int kRounds = 11;
constexpr double kMinSample = 0.02;  // seconds per measurement of a round

double Now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2,
                   values.end());
  return values[values.size() / 2];
}

// Seconds per call, repeated until a sample is long enough to time.
template <typename F>
double Seconds(F&& run, int64_t repeats) {
  const double start = Now();
  for (int64_t i = 0; i < repeats; ++i) run();
  return (Now() - start) / static_cast<double>(repeats);
}

template <typename F>
int64_t Repeats(F&& run) {
  run();
  const double once = Seconds(run, 1);
  return std::max<int64_t>(1, static_cast<int64_t>(kMinSample / once));
}

// Every size has the plain cases; the families run where their figures stand.
std::vector<Case> CasesOf(const ProblemSize& size) {
  std::vector<Case> cases = Cases();
  if (size.length >= 8192) {
    for (Case& which : LongHistories()) cases.push_back(std::move(which));
    return cases;
  }
  for (Case& which : Bf16Cases()) cases.push_back(std::move(which));
  if (size.dim == 64 && size.length >= 512) {
    // Beyond 2048 biases alone change: what heads prepare for each other no
    // longer fits.
    for (Case& which : Families(static_cast<int>(size.dim))) {
      if (size.length > 2048 && which.name != "causal_wide") continue;
      cases.push_back(std::move(which));
    }
    for (Case& which : BiasFamilies(static_cast<int>(size.heads))) {
      cases.push_back(std::move(which));
    }
  }
  return cases;
}

// All cases of one size, measured together.
struct Measured {
  explicit Measured(const ProblemSize& size) : tensors(size) {}

  Tensors tensors;
  std::unique_ptr<Workspace> workspace;
  std::map<std::string, std::unique_ptr<Run>> runs;
  std::map<std::string, std::vector<double>> seconds;  // per case, per round
  std::vector<double> floor;
  double floor_flops = 0;

  double Ratio(const std::string& a, const std::vector<double>& b) const {
    std::vector<double> ratios;
    for (size_t i = 0; i < b.size(); ++i) {
      ratios.push_back(seconds.at(a)[i] / b[i]);
    }
    return Median(ratios);
  }
};

std::unique_ptr<Measured> Measure(const ProblemSize& size) {
  auto m = std::make_unique<Measured>(size);
  Floor floor(m->tensors);
  auto workspace = Workspace::Create();
  if (!workspace.ok()) std::abort();
  m->workspace = *std::move(workspace);
  m->floor_flops = floor.flops();
  std::map<std::string, int64_t> repeats;
  for (const Case& which : CasesOf(size)) {
    auto run = std::make_unique<Run>(m->tensors, which);
    repeats[which.name] = Repeats([&] { run->Once(*m->workspace); });
    m->runs[which.name] = std::move(run);
  }
  const int64_t floor_repeats = Repeats([&] { floor.Once(); });
  for (int round = 0; round < kRounds; ++round) {
    m->floor.push_back(Seconds([&] { floor.Once(); }, floor_repeats));
    for (const Case& which : CasesOf(size)) {
      Run& run = *m->runs[which.name];
      m->seconds[which.name].push_back(
          Seconds([&] { run.Once(*m->workspace); }, repeats[which.name]));
    }
  }
  std::fprintf(stderr, "floor of %s: tiles %s\n", size.Name().c_str(),
               floor.shape().c_str());
  return m;
}

void Report(benchmark::State& state, const Measured& m, const Case& which) {
  Run& run = *m.runs.at(which.name);
  for (auto _ : state) run.Once(*m.workspace);
  const double seconds = Median(m.seconds.at(which.name));
  state.counters["gflops"] = run.visible_flops() / seconds / 1e9;
  state.counters["floor_ratio"] = m.Ratio(which.name, m.floor);
  state.counters["floor_gflops"] = m.floor_flops / Median(m.floor) / 1e9;
  state.counters["plain_ratio"] = m.Ratio(which.name, m.seconds.at("plain"));
  if (which.bf16) {
    state.counters["bf16_speedup"] =
        m.Ratio(which.Baseline(), m.seconds.at(which.name));
    return;
  }
  state.counters["encoding_ratio"] =
      m.Ratio(which.name, m.seconds.at(which.Baseline()));
}

void Register() {
  // Measured when the first case of a size runs, then kept for the others.
  static std::map<std::string, std::unique_ptr<Measured>> all;
  for (const ProblemSize& size : std::vector<ProblemSize>{
           {.batch = 64, .heads = 4, .length = 32, .dim = 32},
           {.batch = 16, .heads = 8, .length = 128, .dim = 64},
           {.batch = 4, .heads = 8, .length = 512, .dim = 64},
           {.batch = 1, .heads = 8, .length = 2048, .dim = 64},
           {.batch = 1, .heads = 8, .length = 4096, .dim = 64},
           {.batch = 1, .heads = 8, .length = 8192, .dim = 64},
           {.batch = 1, .heads = 8, .length = 4096, .dim = 128}}) {
    for (const Case& which : CasesOf(size)) {
      const std::string name =
          absl::StrCat("attend/f32/", which.name, "/", size.Name());
      benchmark::RegisterBenchmark(name.c_str(), [size, which](
                                                     benchmark::State& state) {
        const std::string key = size.Name();
        if (!all.contains(key)) {
          all.emplace(key, Measure(size));
        }
        Report(state, *all.at(key), which);
      })->Unit(benchmark::kMillisecond);
    }
  }
}

}  // namespace
}  // namespace attnd::bench

int main(int argc, char** argv) {
  attnd::bench::Register();
  attnd::bench::RegisterShapes();
  attnd::bench::RegisterLinear();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::AddCustomContext("instruction_set", attnd::InstructionSet());
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
