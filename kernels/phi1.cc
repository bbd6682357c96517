#include "kernels/phi1.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/matrix_exp.h"

namespace attnd {
namespace {

using Complex = std::complex<double>;

}  // namespace

// From z phi1 = e^z - 1: z f_r = e^z / r! - f_{r-1}; near 0 by the series
// sum_k C(k+r, r) z^k / (k+r+1)!, where the recurrence would cancel.
void Phi1Derivatives(Complex z, int order, Complex* f) {
  if (std::abs(z) < 1.0) {
    for (int r = 0; r < order; ++r) {
      double factorial = 1;  // (r + 1)!
      for (int i = 2; i <= r + 1; ++i) factorial *= i;
      Complex term = 1.0 / factorial, sum = term;
      for (int k = 1; k < 30; ++k) {
        term *= z * (static_cast<double>(k + r) /
                     (static_cast<double>(k) * (k + r + 1)));
        sum += term;
      }
      f[r] = sum;
    }
    return;
  }
  const Complex e = std::exp(z);
  double factorial = 1;
  f[0] = (e - 1.0) / z;
  for (int r = 1; r < order; ++r) {
    factorial *= r;
    f[r] = (e / factorial - f[r - 1]) / z;
  }
}

void AverageRow(const HeadEncoder& head, const double* lags, const double* row,
                int64_t dim, double* out) {
  std::copy(row, row + dim, out);
  for (const HeadEncoder::Spectral& s : head.spectrum()) {
    const auto order = static_cast<int>(s.re.size());
    double angle = 0;
    for (const auto& [source, omega] : s.turns) angle += omega * lags[source];
    const double lag = lags[s.source];
    Complex f[kMaxJets];
    Phi1Derivatives({-s.rate * lag, -angle}, order, f);
    double power = 1;
    for (int i = 1; i < order; ++i) f[i] *= (power *= s.coupling * lag);
    for (int r = 0; r < order; ++r) {
      Complex y = 0;
      for (int i = 0; r + i < order; ++i) {
        y += f[i] *
             Complex(row[s.re[r + i]], s.im.empty() ? 0.0 : row[s.im[r + i]]);
      }
      out[s.re[r]] = y.real();
      if (!s.im.empty()) out[s.im[r]] = y.imag();
    }
  }
  for (const HeadEncoder::Small& small : head.smalls()) {
    const std::vector<double> phi =
        MatrixPhi1(small.matrix, small.size, lags[small.source]);
    for (int r = 0; r < small.size; ++r) {
      double sum = 0;
      for (int c = 0; c < small.size; ++c) {
        sum += phi[r * small.size + c] * row[small.first + c];
      }
      out[small.first + r] = sum;
    }
  }
}

}  // namespace attnd
