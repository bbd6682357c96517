// Benchmarks of the linear kind.
#ifndef ATTND_TESTS_BENCH_LINEAR_BENCH_H_
#define ATTND_TESTS_BENCH_LINEAR_BENCH_H_

namespace attnd::bench {

// Names: linear/<dtype>/<family>/L<l>_D<d>_chunk<c>, one head, one thread.
// Counters:
//   product_share   time of the bare products of the same chunks / time
//   gflops          those products per second, 1e9
//   doubling_ratio  time / time at half the length
// and linear/f32/crossover/D<d>, whose counter `length` is the shortest
// sequence (a power of two) from which on the linear kind is faster than the
// softmax under causality; it is printed as well.
void RegisterLinear();

}  // namespace attnd::bench

#endif  // ATTND_TESTS_BENCH_LINEAR_BENCH_H_
