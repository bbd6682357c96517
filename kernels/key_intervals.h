// From the rules of a mask to the interval of keys that each query sees.
#ifndef ATTND_KERNELS_KEY_INTERVALS_H_
#define ATTND_KERNELS_KEY_INTERVALS_H_

#include "kernels/visibility.h"

namespace attnd {

// Fills begin, end, prefix, gap_end and row_limit of an item whose orders and
// times are set. Linear in its rows, unless windows in keys ask for more.
void FindIntervals(const MaskSpec& mask, const ItemRows& rows,
                   ItemGeometry& item);

}  // namespace attnd

#endif  // ATTND_KERNELS_KEY_INTERVALS_H_
