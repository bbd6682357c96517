// Feature maps of the linear kind.
#ifndef ATTND_KERNELS_FEATURE_MAP_H_
#define ATTND_KERNELS_FEATURE_MAP_H_

#include <cstdint>

#include "kernels/linear_problem.h"

namespace attnd {

// row[c] = phi(row[c]) within 4e-7 relative; a row with a non-finite element
// becomes all NaN. [dim] floats.
void ApplyFeatureMap(LinearOptions::FeatureMap map, float* row, int64_t dim);

}  // namespace attnd

#endif  // ATTND_KERNELS_FEATURE_MAP_H_
