// The running sums of one head in the frame of its item.
#ifndef ATTND_KERNELS_LINEAR_SUMS_H_
#define ATTND_KERNELS_LINEAR_SUMS_H_

#include <cstdint>
#include <vector>

#include "kernels/linear_decays.h"
#include "kernels/tensor.h"

namespace attnd {

// S [dim, width] in double, and as floats for the products. In double because a
// chunk adds its share thousands of times, and decays multiply as often.
class LinearSums {
 public:
  // Zeros. dim and width are padded (gemm.h).
  void Reset(int64_t dim, int64_t width);

  double* exact() { return exact_.data(); }
  const double* exact() const { return exact_.data(); }
  // Rounded copy of exact().
  const float* rounded() const { return rounded_.data(); }
  void Round();

  // S = A(lags) S + A(lags of the part) delta, where late parts have
  // `late_lags` for the second term; lags per source. delta [dim, width] may
  // be null. Updates rounded().
  void Step(const LinearDecays& decays, const double* lags,
            const double* late_lags, const std::vector<uint8_t>& late,
            const float* delta);

  // Makes a column NaN: a value of it was not finite.
  void Spoil(int64_t column);

  int64_t bytes() const {
    return static_cast<int64_t>(exact_.capacity() * sizeof(double)) +
           rounded_.capacity() * static_cast<int64_t>(sizeof(float));
  }

 private:
  void StepSmalls(const LinearDecays& decays, const double* lags,
                  const double* late_lags, const std::vector<uint8_t>& late,
                  const float* delta);

  int64_t dim_ = 0, width_ = 0;
  std::vector<double> exact_;
  std::vector<double> powers_;  // of chains, for one step
  AlignedBuffer rounded_;
};

}  // namespace attnd

#endif  // ATTND_KERNELS_LINEAR_SUMS_H_
