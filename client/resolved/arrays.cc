#include "client/resolved/arrays.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/request.h"

namespace attnd::client::resolved {

absl::StatusOr<Array> Array::Make(const v1::Tensor& tensor, const char* field) {
  if (tensor.shape_size() != 3 && tensor.shape_size() != 4) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": ", tensor.shape_size(), " axes"));
  }
  const absl::StatusOr<std::vector<float>> floats = ToFloats(tensor);
  if (!floats.ok()) return floats.status();
  Array array;
  std::fill(array.shape_, array.shape_ + 4, 1);
  std::copy(tensor.shape().begin(), tensor.shape().end(), array.shape_);
  array.values_.assign(floats->begin(), floats->end());
  if (tensor.shape_size() == 3 || tensor.layout() != v1::LAYOUT_BLHD) {
    return array;
  }
  std::swap(array.shape_[1], array.shape_[2]);
  const auto [batch, heads, rows, columns] = array.shape_;
  auto to = array.values_.begin();
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < rows; ++i, to += columns) {
        std::copy_n(floats->begin() + ((b * rows + i) * heads + h) * columns,
                    columns, to);
      }
    }
  }
  return array;
}

}  // namespace attnd::client::resolved
