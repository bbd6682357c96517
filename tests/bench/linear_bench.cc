#include "tests/bench/linear_bench.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/gemm.h"
#include "kernels/linear.h"
#include "tests/bench/workload.h"

namespace attnd::bench {
namespace {

constexpr int64_t kDim = 64, kSecond = 1'000'000'000;
constexpr int kRounds = 7;

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
  std::abort();
}

void OrDie(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::abort();
}

template <typename T>
absl::Span<const char> Bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()),
          values.size() * sizeof(T)};
}

template <typename F>
double Seconds(F&& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2,
                   values.end());
  return values[values.size() / 2];
}

// The family of workload.h by that name; "plain" has no encoding.
EncodingSpec SpecOf(const std::string& family) {
  for (const Case& which : Families(static_cast<int>(kDim))) {
    if (which.name == family) return which.encoding;
  }
  return {};
}

// One family at one length: as many sequences as make 65536 rows, so that short
// ones come from memory like long ones instead of staying in a cache.
class LinearRun {
 public:
  LinearRun(const std::string& family, int64_t length)
      : sequences_(std::max<int64_t>(1, 65536 / length)),
        tensors_(
            {.batch = sequences_, .heads = 1, .length = length, .dim = kDim}) {
    const Shape4 shape{sequences_, 1, length, kDim};
    const auto tensor = [&](const std::vector<float>& values) {
      return OrDie(
          TensorRef::Make(Bytes(values), DType::kF32, Layout::kBHLD, shape));
    };
    LinearProblem problem;
    AttentionProblem& p = problem.attention;
    p.query = tensor(tensors_.query);
    p.key = tensor(tensors_.key);
    p.value = tensor(tensors_.value);
    p.query_time = p.key_time =
        OrDie(TimeAxis::Make(TimeAxis::Kind::kTicks, Bytes(tensors_.wide_times),
                             sequences_, length, true));
    p.scale = 0.125f;
    const EncodingSpec spec = SpecOf(family);
    if (spec.uses_time()) {
      p.encoder = OrDie(Encoder::Compile(
          spec,
          {.head_dim = kDim, .query_heads = 1, .kv_heads = 1, .length = length},
          {.tick_ns = 1, .unit_ns = kSecond}));
    }
    plan_ = std::make_unique<LinearPlan>(OrDie(LinearPlan::Make(problem)));
    workspace_ = OrDie(LinearWorkspace::Create());
    gemm_ = OrDie(TileGemm::Create());
    output_.resize(plan_->output_elements());
    for (auto* buffer : {&logits_, &sums_, &delta_}) {
      buffer->Reserve(kDim * kDim);
      std::fill_n(buffer->data(), kDim * kDim, 0.0f);
    }
  }

  void Once() {
    OrDie(RunLinear(*plan_, *workspace_,
                    {.output = absl::MakeSpan(output_), .halves = {}}));
  }

  // The four products of every chunk over the real tensors, nothing else. What
  // the packed keys hold makes no difference to their time.
  void Products() {
    const float* q = tensors_.query.data();
    const float* k = tensors_.key.data();
    const float* v = tensors_.value.data();
    const int64_t rows = sequences_ * tensors_.size.length;
    for (int64_t c = 0; c + 64 <= rows; c += 64) {
      const int64_t at = c * kDim;
      OrDie(gemm_->WeightValue(64, kDim, kDim, q + at, sums_.data(), false,
                               output_.data() + at));
      OrDie(gemm_->QueryKey(64, 64, kDim, q + at, k + at, logits_.data()));
      OrDie(gemm_->WeightValue(64, 64, kDim, logits_.data(), v + at, true,
                               output_.data() + at));
      OrDie(gemm_->WeightValue(kDim, 64, kDim, k + at, v + at, false,
                               delta_.data()));
    }
  }

  int64_t sequences() const { return sequences_; }

 private:
  const int64_t sequences_;
  Tensors tensors_;
  std::unique_ptr<LinearPlan> plan_;
  std::unique_ptr<LinearWorkspace> workspace_;
  std::unique_ptr<TileGemm> gemm_;
  std::vector<float> output_;
  AlignedBuffer logits_, sums_, delta_;
};

struct Measured {
  double seconds = 0, share = 0;
};

Measured Measure(const std::string& family, int64_t length) {
  LinearRun run(family, length);
  run.Once();
  run.Products();
  std::vector<double> seconds, share;
  for (int round = 0; round < kRounds; ++round) {
    const double products = Seconds([&] { run.Products(); });
    const double whole = Seconds([&] { run.Once(); });
    seconds.push_back(whole / static_cast<double>(run.sequences()));
    share.push_back(products / whole);
  }
  return {Median(seconds), Median(share)};
}

const Measured& Result(const std::string& family, int64_t length) {
  static std::map<std::pair<std::string, int64_t>, Measured> all;
  const auto key = std::make_pair(family, length);
  if (!all.contains(key)) all[key] = Measure(family, length);
  return all[key];
}

double SoftmaxSeconds(int64_t length) {
  const Tensors tensors(
      {.batch = 1, .heads = 1, .length = length, .dim = kDim});
  Run run(tensors, Cases()[1]);
  const auto workspace = OrDie(Workspace::Create());
  run.Once(*workspace);
  const int repeats = std::max<int>(1, static_cast<int>(8192 / length));
  std::vector<double> seconds;
  for (int round = 0; round < kRounds; ++round) {
    seconds.push_back(Seconds([&] {
                        for (int i = 0; i < repeats; ++i) run.Once(*workspace);
                      }) /
                      repeats);
  }
  return Median(seconds);
}

void Crossover(benchmark::State& state) {
  int64_t faster_from = 0;
  for (auto _ : state) {
    for (int64_t length = 8192; length >= 32; length /= 2) {
      const double linear = Measure("decay", length).seconds;
      const double softmax = SoftmaxSeconds(length);
      std::fprintf(stderr,
                   "L %5ld: linear (decay) %8.1f us, softmax (causal) "
                   "%8.1f us\n",
                   static_cast<long>(length), 1e6 * linear, 1e6 * softmax);
      if (linear >= softmax) break;
      faster_from = length;
    }
  }
  std::fprintf(stderr, "crossover: linear is faster from L = %ld on\n",
               static_cast<long>(faster_from));
  state.counters["length"] = static_cast<double>(faster_from);
}

}  // namespace

void RegisterLinear() {
  for (const char* name : {"plain", "decay", "damped", "complex_jordan2"}) {
    const std::string family = name;
    for (int64_t length = 4096; length <= 262144; length *= 2) {
      benchmark::RegisterBenchmark(
          absl::StrCat("linear/f32/", family, "/L", length, "_D", kDim,
                       "_chunk64")
              .c_str(),
          [family, length](benchmark::State& state) {
            const Measured& m = Result(family, length);
            for (auto _ : state) {
              state.SetIterationTime(m.seconds);
            }
            state.counters["product_share"] = m.share;
            state.counters["gflops"] =
                512.0 * static_cast<double>(length * kDim) / m.seconds / 1e9;
            if (length == 4096) return;
            state.counters["doubling_ratio"] =
                m.seconds / Result(family, length / 2).seconds;
          })
          ->UseManualTime()
          ->Iterations(1)
          ->Unit(benchmark::kMillisecond);
    }
  }
  benchmark::RegisterBenchmark("linear/f32/crossover/D64", Crossover)
      ->Iterations(1)
      ->Unit(benchmark::kMillisecond);
}

}  // namespace attnd::bench
