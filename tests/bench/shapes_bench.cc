#include "tests/bench/shapes_bench.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels/gemm.h"
#include "kernels/rotation.h"
#include "tests/bench/workload.h"

namespace attnd::bench {
namespace {

constexpr int kSamples = 3;
constexpr int kRepeats = 4;

template <typename F>
double Seconds(F&& run) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kRepeats; ++i) run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
             .count() /
         kRepeats;
}

// Best time of `a` / best time of `b`.
template <typename A, typename B>
double Ratio(A&& a, B&& b) {
  a();
  b();
  double best_a = 1e9, best_b = 1e9;
  for (int sample = 0; sample < kSamples; ++sample) {
    best_a = std::min(best_a, Seconds(a));
    best_b = std::min(best_b, Seconds(b));
  }
  return best_a / best_b;
}

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  if (!value.ok()) std::abort();
  return *std::move(value);
}

void OneQuery(benchmark::State& state) {
  const ProblemSize size{.heads = 8, .length = 32768, .dim = 64, .queries = 1};
  const Tensors tensors(size);
  Run run(tensors, Cases()[0]);
  const auto workspace = OrDie(Workspace::Create());
  const auto read = [&] {
    for (const std::vector<float>* values : {&tensors.key, &tensors.value}) {
      benchmark::DoNotOptimize(
          FiniteValues(values->data(), static_cast<int64_t>(values->size())));
    }
  };
  const auto once = [&] { run.Once(*workspace); };
  for (auto _ : state) once();
  state.counters["read_share"] = Ratio(read, once);
}

// Products of the shapes that the kernel uses, over keys that are packed
// already: all query heads of a group against each stretch of keys.
class GroupedProducts {
 public:
  explicit GroupedProducts(const Tensors& tensors)
      : tensors_(tensors), gemm_(OrDie(TileGemm::Create())) {
    const ProblemSize& s = tensors.size;
    logits_.Reserve(s.queries * kMaxTileKeys);
    output_.Reserve(s.queries * s.dim);
  }

  void Once() {
    const ProblemSize& s = tensors_.size;
    const int64_t group = s.heads / s.kv_heads;
    for (int64_t h = 0; h < s.heads; ++h) {
      const int64_t kv = h / group * s.length * s.dim;
      const float* query = tensors_.query.data() + h * s.queries * s.dim;
      for (int64_t key = 0; key < s.length; key += kMaxTileKeys) {
        const int64_t at = kv + key * s.dim;
        const bool first = key == 0;
        if (!gemm_
                 ->QueryKey(static_cast<int>(s.queries), kMaxTileKeys, s.dim,
                            query, tensors_.key.data() + at, logits_.data())
                 .ok() ||
            !gemm_
                 ->WeightValue(static_cast<int>(s.queries), kMaxTileKeys, s.dim,
                               logits_.data(), tensors_.value.data() + at,
                               !first, output_.data())
                 .ok()) {
          std::abort();
        }
      }
    }
  }

 private:
  const Tensors& tensors_;
  std::unique_ptr<TileGemm> gemm_;
  AlignedBuffer logits_, output_;
};

void Grouped(benchmark::State& state) {
  const ProblemSize size{
      .heads = 32, .length = 4096, .dim = 64, .queries = 16, .kv_heads = 4};
  const Tensors tensors(size);
  Run run(tensors, Cases()[0]);
  const auto workspace = OrDie(Workspace::Create());
  GroupedProducts products(tensors);
  const auto once = [&] { run.Once(*workspace); };
  for (auto _ : state) once();
  state.counters["product_ratio"] = Ratio(once, [&] { products.Once(); });
}

// A worker of its own thread, as a server has them; runs units on demand.
class Worker {
 public:
  Worker() : thread_([this] { Loop(); }) {}
  ~Worker() {
    Give(nullptr, nullptr);
    thread_.join();
  }
  // Takes units of `run` from `next` until none is left.
  void Give(Run* run, std::atomic<int64_t>* next) {
    const std::lock_guard lock(mutex_);
    run_ = run;
    next_ = next;
    busy_ = true;
    changed_.notify_all();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !busy_; });
  }

 private:
  void Loop() {
    const auto workspace = OrDie(Workspace::Create());
    while (true) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return busy_; });
      if (run_ == nullptr) return;
      lock.unlock();
      while (run_->OneUnit((*next_)++, *workspace)) {
      }
      lock.lock();
      busy_ = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Run* run_ = nullptr;
  std::atomic<int64_t>* next_ = nullptr;
  bool busy_ = false;
  std::thread thread_;  // last: its loop uses the others
};

void TwoWorkers(benchmark::State& state) {
  const ProblemSize size{.batch = 4, .heads = 8, .length = 512, .dim = 64};
  const Tensors tensors(size);
  Run run(tensors, Cases()[0]);
  Worker workers[2];
  const auto with = [&](int count) {
    std::atomic<int64_t> next{0};
    for (int w = 0; w < count; ++w) workers[w].Give(&run, &next);
    for (int w = 0; w < count; ++w) workers[w].Wait();
  };
  for (auto _ : state) with(2);
  state.counters["speedup"] = Ratio([&] { with(1); }, [&] { with(2); });
}

// What the first call of a shape takes longer than the next ones: its
// primitives are built then. Head dimensions that no other case has.
void FirstCall(benchmark::State& state) {
  const auto workspace = OrDie(Workspace::Create());
  double worst = 0;
  for (auto _ : state) {
    for (const int64_t dim : {24, 40, 72, 112, 144, 200, 256}) {
      for (const int64_t length : {40, 150, 700}) {
        const Tensors tensors({.length = length, .dim = dim});
        Run run(tensors, Cases()[1]);
        const auto once = [&] {
          const auto start = std::chrono::steady_clock::now();
          run.Once(*workspace);
          return std::chrono::duration<double>(
                     std::chrono::steady_clock::now() - start)
              .count();
        };
        const double first = once();
        worst = std::max(worst, first - std::min({once(), once(), once()}));
      }
    }
  }
  state.counters["worst_ms_over_warm"] = worst * 1e3;
}

}  // namespace

void RegisterShapes() {
  const auto add = [](const char* name, void (*run)(benchmark::State&)) {
    benchmark::RegisterBenchmark(name, run)
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime();
  };
  add("attend/f32/one_query/B1_H8_L32768_D64", OneQuery);
  add("attend/f32/grouped/B1_H32_KV4_Q16_L4096_D64", Grouped);
  add("attend/f32/two_workers/B4_H8_L512_D64", TwoWorkers);
  benchmark::RegisterBenchmark("attend/f32/first_call", FirstCall)
      ->Iterations(1)
      ->Unit(benchmark::kMillisecond);
}

}  // namespace attnd::bench
