// The floor of attention: its two matrix products and nothing else.
#ifndef ATTND_TESTS_BENCH_FLOOR_H_
#define ATTND_TESTS_BENCH_FLOOR_H_

#include <memory>

#include "tests/bench/workload.h"

namespace attnd::bench {

// Bare oneDNN calls S = Q K^T and O = P V over the real tensors of a size, tile
// by tile, primitives built before. Tile shapes {64,128,256,512} x
// {128,256,512,1024} and two ways to read K (in place, or packed before the
// clock starts) are tried at construction; the fastest is kept.
class Floor {
 public:
  explicit Floor(const Tensors& tensors);
  ~Floor();
  // All products once.
  void Once();
  // 4 B H L^2 D.
  double flops() const;
  // "128x512 packed".
  const std::string& shape() const { return shape_; }

 private:
  struct Products;
  std::unique_ptr<Products> Make(int64_t rows, int64_t keys, bool packed);
  void Run(Products& products, int64_t heads);

  const Tensors& tensors_;
  std::unique_ptr<Products> best_;
  std::string shape_;
};

}  // namespace attnd::bench

#endif  // ATTND_TESTS_BENCH_FLOOR_H_
