// phi1(z) = (e^z - 1) / z and its derivatives: what averaged encodings and held
// keys are made of.
#ifndef ATTND_KERNELS_PHI1_H_
#define ATTND_KERNELS_PHI1_H_

#include <complex>

#include "kernels/encoder.h"

namespace attnd {

// f[r] = phi1^(r)(z) / r!, r < order (1 to 4).
void Phi1Derivatives(std::complex<double> z, int order,
                     std::complex<double>* f);

// out = phi1(DX) row for a row in encoded order without any rotation, lags D in
// units, one per source, >= 0 where decays follow them. [dim] each.
void AverageRow(const HeadEncoder& head, const double* lags, const double* row,
                int64_t dim, double* out);

}  // namespace attnd

#endif  // ATTND_KERNELS_PHI1_H_
