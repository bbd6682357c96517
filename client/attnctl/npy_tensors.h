// Between .npy arrays and the arrays of a request.
#ifndef ATTND_CLIENT_ATTNCTL_NPY_TENSORS_H_
#define ATTND_CLIENT_ATTNCTL_NPY_TENSORS_H_

#include <string>

#include "absl/status/statusor.h"
#include "attnd/v1/tensor.pb.h"
#include "client/npy.h"

namespace attnd::client {

// Four axes as `layout` says ([B,H,L,D]); [H,L,D] is one batch item, [L,D] one
// head as well. float64 is rounded to f32, integers are refused.
absl::StatusOr<v1::Tensor> TensorFromNpy(NpyArray array, v1::Layout layout);

// int64 or int32 counts of `unit`, datetime64 in its own unit (`unit` empty or
// the same; NaT refused), or float64 and float32 in "s" or "positions".
absl::StatusOr<v1::TimeAxis> TimeAxisFromNpy(const NpyArray& array,
                                             const std::string& unit);

// f32 -> '<f4', bf16 -> '<V2', f16 -> '<f2'.
absl::StatusOr<NpyArray> NpyFromTensor(const v1::Tensor& tensor);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_ATTNCTL_NPY_TENSORS_H_
