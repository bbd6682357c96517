// Attention problems that the benchmark times, with the data they borrow.
#ifndef ATTND_TESTS_BENCH_WORKLOAD_H_
#define ATTND_TESTS_BENCH_WORKLOAD_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "kernels/plan.h"

namespace attnd::bench {

struct ProblemSize {
  int64_t batch = 1, heads = 1, length = 1, dim = 1;
  // "B4_H8_L512_D64".
  std::string Name() const;
};

// Seeded normal Q, K, V and irregular times (exponential gaps of mean 1 s in ns
// ticks), shared by all cases of a size.
struct Tensors {
  explicit Tensors(const ProblemSize& size);
  ProblemSize size;
  std::vector<float> query, key, value;
  std::vector<int64_t> times;  // [batch, length]
};

// What a case adds to plain attention.
struct Case {
  std::string name;
  bool causal = false;
  EncodingSpec encoding;  // unit 1 s
};

// plain, causal, rope, alibi.
std::vector<Case> Cases();

// A planned case on its tensors, ready to run on one thread.
class Run {
 public:
  Run(const Tensors& tensors, const Case& which);
  // Computes the output once; aborts on an error.
  void Once(Workspace& workspace);
  // Products of the visible pairs: 2 (D + Dv) per pair and head.
  double visible_flops() const { return visible_flops_; }

 private:
  std::unique_ptr<Plan> plan_;
  std::vector<float> output_;
  double visible_flops_ = 0;
};

}  // namespace attnd::bench

#endif  // ATTND_TESTS_BENCH_WORKLOAD_H_
