// Where the rows of a problem stand on the absolute axis.
#ifndef ATTND_KERNELS_ABSOLUTE_ROWS_H_
#define ATTND_KERNELS_ABSOLUTE_ROWS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/absolute_time.h"
#include "kernels/plan.h"

namespace attnd {

// Time of a row of the tensors, which belongs to the item, as sent, along one
// coordinate; without times its position, as visibility.h counts them. `index`
// is the row in the item.
AbsoluteTime QueryPlace(const AttentionProblem& problem, int64_t item,
                        int64_t row, int coordinate = 0);
AbsoluteTime KeyPlace(const AttentionProblem& problem, int64_t item,
                      int64_t row, int coordinate = 0);

// The same of the i-th query and the j-th key in the item's (time, index)
// order, as events: `index` counts valid rows in that order, so that neither
// padding nor the order in which rows are sent changes it.
AbsoluteTime QueryEvent(const AttentionProblem& problem, int64_t number,
                        const ItemGeometry& item, int64_t i);
AbsoluteTime KeyEvent(const AttentionProblem& problem, int64_t number,
                      const ItemGeometry& item, int64_t j);

// INVALID_ARGUMENT when an absolute part is not defined at some valid row.
absl::Status CheckAbsoluteRows(const AttentionProblem& problem,
                               const Encoder& encoder, const ItemGeometry& item,
                               int64_t number);

}  // namespace attnd

#endif  // ATTND_KERNELS_ABSOLUTE_ROWS_H_
