// Lags of rows or columns along the sources of a head, in units.
#ifndef ATTND_KERNELS_SOURCE_LAGS_H_
#define ATTND_KERNELS_SOURCE_LAGS_H_

#include <cstdint>
#include <vector>

#include "kernels/tensor.h"

namespace attnd {

// In f32 for the loops over chains, which decay, and in double for small
// blocks, which may turn: a turn by a rounded lag is off by 6e-8 of all it has
// turned (rule N2).
class SourceLags {
 public:
  // Room for `count` lags; the old ones are lost.
  void Reserve(int64_t count) {
    rounded_.Reserve(count);
    exact_.resize(static_cast<size_t>(count));
  }
  void Set(int64_t i, double lag) {
    rounded_.data()[i] = static_cast<float>(lag);
    exact_[i] = lag;
  }
  const float* rounded() const { return rounded_.data(); }
  double exact(int64_t i) const { return exact_[i]; }

  int64_t scratch_bytes() const {
    return static_cast<int64_t>(sizeof(float) * rounded_.capacity() +
                                sizeof(double) * exact_.capacity());
  }

 private:
  AlignedBuffer rounded_;
  std::vector<double> exact_;
};

}  // namespace attnd

#endif  // ATTND_KERNELS_SOURCE_LAGS_H_
