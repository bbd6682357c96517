#include <algorithm>
#include <cmath>
#include <complex>
#include <vector>

#include "kernels/matrix_exp.h"
#include "kernels/pair_logits.h"
#include "kernels/phi1.h"

namespace attnd {
namespace {

using Complex = std::complex<double>;

double SpectralLogit(const HeadEncoder::Spectral& s, bool absolute,
                     const float* q, const float* k, int64_t k_width,
                     const double* lag, int64_t lag_stride) {
  const auto order = static_cast<int>(s.re.size());
  double d = lag[s.source * lag_stride];
  if (absolute) d = std::fabs(d);
  double angle = 0;
  for (const auto& [source, omega] : s.turns) {
    angle += omega * lag[source * lag_stride];
  }
  Complex f[kMaxJets];
  Phi1Derivatives({-s.rate * d, -angle}, order, f);
  double power = 1;
  for (int i = 1; i < order; ++i) f[i] *= (power *= s.coupling * d);
  double sum = 0;
  for (int r = 0; r < order; ++r) {
    Complex y = 0;
    for (int i = 0; r + i < order; ++i) {
      const double im = s.im.empty() ? 0.0 : double{k[s.im[r + i] * k_width]};
      y += f[i] * Complex{k[s.re[r + i] * k_width], im};
    }
    sum += q[s.re[r]] * y.real();
    if (!s.im.empty()) sum += q[s.im[r]] * y.imag();
  }
  return sum;
}

// phi1(M) is the upper right block of exp [[M, I], [0, 0]].
double SmallLogit(const HeadEncoder::Small& small, bool absolute, double lag,
                  const float* q, const float* k, int64_t k_width) {
  const bool mirrored = absolute && lag < 0;
  const std::vector<double>& matrix = mirrored ? small.mirrored : small.matrix;
  if (mirrored) lag = -lag;
  const int n = small.size;
  std::vector<double> wide(4 * static_cast<size_t>(n) * n, 0.0);
  for (int r = 0; r < n; ++r) {
    for (int c = 0; c < n; ++c) {
      wide[r * 2 * n + c] = lag * matrix[r * n + c];
    }
    wide[r * 2 * n + n + r] = 1;
  }
  const std::vector<double> exp = MatrixExp(wide, 2 * n, 1);
  double sum = 0;
  for (int r = 0; r < n; ++r) {
    for (int c = 0; c < n; ++c) {
      sum += q[small.first + r] * exp[r * 2 * n + n + c] *
             k[(small.first + c) * k_width];
    }
  }
  return sum;
}

}  // namespace

void AveragedLogits(const Encoder& encoder, const HeadEncoder& head,
                    const float* q, const float* k, int64_t k_width,
                    const double* lag, float* logits) {
  const bool absolute = encoder.absolute_lag();
  for (int j = 0; j < kKeyGroup; ++j) {
    double sum = 0;
    for (const HeadEncoder::Spectral& s : head.spectrum()) {
      sum += SpectralLogit(s, absolute, q, k + j, k_width, lag + j, kKeyGroup);
    }
    for (const HeadEncoder::Small& small : head.smalls()) {
      sum += SmallLogit(small, absolute, lag[small.source * kKeyGroup + j], q,
                        k + j, k_width);
    }
    logits[j] = static_cast<float>(sum);
  }
}

}  // namespace attnd
