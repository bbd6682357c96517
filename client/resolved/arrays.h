// Tensors of a request as doubles, addressed by what their axes mean.
#ifndef ATTND_CLIENT_RESOLVED_ARRAYS_H_
#define ATTND_CLIENT_RESOLVED_ARRAYS_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "attnd/v1/tensor.pb.h"

namespace attnd::client::resolved {

// [batch, heads, rows, columns], whatever the layout on the wire. Axes of
// extent 1 serve every index (bias tensors).
class Array {
 public:
  Array() = default;
  // Four axes, or three of [batch, heads, rows] with one column. Element types
  // and layouts as v1::Tensor has them.
  static absl::StatusOr<Array> Make(const v1::Tensor& tensor,
                                    const char* field);

  bool empty() const { return values_.empty(); }
  int64_t batch() const { return shape_[0]; }
  int64_t heads() const { return shape_[1]; }
  int64_t rows() const { return shape_[2]; }
  int64_t columns() const { return shape_[3]; }

  absl::Span<const double> Row(int64_t b, int64_t h, int64_t i) const {
    const auto within = [&](int axis, int64_t index) {
      return shape_[axis] == 1 ? 0 : index;
    };
    const int64_t row =
        (within(0, b) * shape_[1] + within(1, h)) * shape_[2] + within(2, i);
    return absl::MakeConstSpan(values_).subspan(row * shape_[3], shape_[3]);
  }
  // Lets `map` change every row.
  void MapRows(absl::FunctionRef<void(absl::Span<double> row)> map) {
    const int64_t columns = shape_[3];
    for (int64_t at = 0; at < static_cast<int64_t>(values_.size());
         at += columns) {
      map(absl::MakeSpan(values_).subspan(at, columns));
    }
  }
  double At(int64_t b, int64_t h, int64_t i, int64_t c) const {
    return Row(b, h, i)[shape_[3] == 1 ? 0 : c];
  }

 private:
  int64_t shape_[4] = {0, 0, 0, 0};
  std::vector<double> values_;
};

}  // namespace attnd::client::resolved

#endif  // ATTND_CLIENT_RESOLVED_ARRAYS_H_
