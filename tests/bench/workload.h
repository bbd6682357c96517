// Attention problems that the benchmark times, with the data they borrow.
#ifndef ATTND_TESTS_BENCH_WORKLOAD_H_
#define ATTND_TESTS_BENCH_WORKLOAD_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "kernels/plan.h"

namespace attnd::bench {

struct ProblemSize {
  int64_t batch = 1, heads = 1, length = 1, dim = 1;
  int64_t queries = 0;   // the last of the series; 0 = all
  int64_t kv_heads = 0;  // 0 = heads
  // "B4_H8_L512_D64".
  std::string Name() const;
};

// Seeded normal Q, K, V and irregular times in ns ticks, shared by all cases of
// a size.
struct Tensors {
  explicit Tensors(const ProblemSize& size);
  ProblemSize size;
  std::vector<float> query, key, value;
  std::vector<int64_t> times;  // [batch, length], exponential gaps of mean 1 s
  // [batch, length], gaps log-uniform from 1 ms to 1000 s.
  std::vector<int64_t> wide_times;
  // [batch, length, 2], `times` and another axis.
  std::vector<int64_t> two_axes;
  // [batch, heads, length], a learned clock near `times`, in s.
  std::vector<float> clock;
  // [batch, heads, length], log gates in [-0.1, 0].
  std::vector<float> gates;
};

// What a case adds to plain attention.
struct Case {
  std::string name;
  bool causal = false;
  EncodingSpec encoding;  // unit 1 s
  bool wide = false;      // on wide_times
  bool two_axes = false;
  bool clock = false;
  bool gates = false;
  double prune_tolerance = 0;
  std::optional<int64_t> past_ticks = {};  // window in time
  bool bf16 = false;                       // compute
  std::string baseline = "";               // empty = by mask and times
  // Case to compare with: the same mask and times without an encoding, or what
  // the case says.
  std::string Baseline() const {
    if (!baseline.empty()) return baseline;
    return !causal ? "plain" : wide ? "causal_wide" : "causal";
  }
};

// plain, causal, rope, alibi.
std::vector<Case> Cases();

// plain and rope computed in bf16, to compare with f32.
std::vector<Case> Bf16Cases();

// One case per family of encodings. Rates are log-spaced so that rate * span of
// 128 rows of wide_times runs from 1e-3 to 1e3 over the channels of a head.
std::vector<Case> Families(int dim);

// One case per family of biases, on wide_times.
std::vector<Case> BiasFamilies(int heads);

// What long histories allow: a window of 128 mean gaps, and ALiBi whose weights
// fall below e^-16.6, a rounding of f32, within 64 mean gaps, with and without
// a prune tolerance of as much.
std::vector<Case> LongHistories();

// A planned case on its tensors, ready to run on one thread.
class Run {
 public:
  Run(const Tensors& tensors, const Case& which);
  // Computes the output once; aborts on an error.
  void Once(Workspace& workspace);
  // One unit of it, from any thread; false when there is none of that number.
  bool OneUnit(int64_t unit, Workspace& workspace);
  // Products of the visible pairs: 2 (D + Dv) per pair and head.
  double visible_flops() const { return visible_flops_; }

 private:
  std::unique_ptr<Plan> plan_;
  std::vector<float> output_;
  double visible_flops_ = 0;
};

}  // namespace attnd::bench

#endif  // ATTND_TESTS_BENCH_WORKLOAD_H_
