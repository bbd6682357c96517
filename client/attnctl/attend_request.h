// An AttendRequest from arrays in .npy files.
#ifndef ATTND_CLIENT_ATTNCTL_ATTEND_REQUEST_H_
#define ATTND_CLIENT_ATTNCTL_ATTEND_REQUEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "attnd/v1/attention.pb.h"
#include "client/npy.h"

namespace attnd::client {

struct AttendArguments {
  std::string query;
  std::string key;
  std::string value;
  std::string query_time;
  std::string key_time;
  std::string unit;
  bool bf16 = false;
  std::string layout = "bhld";
  std::string encoding;
  std::string causal;  // "", "time" or "index"
  bool strict = false;
  std::string past;
  std::string future;
  std::vector<int64_t> query_lengths;
  std::vector<int64_t> key_lengths;
  std::string two_sided;  // "", "refuse" or "absolute_lag"
  std::optional<double> scale;
  std::vector<std::string> outputs = {"output"};
};

// Four axes as `layout` says ([B,H,L,D]); [H,L,D] is one batch item, [L,D] one
// head as well. float64 is rounded to f32, integers are refused.
absl::StatusOr<v1::Tensor> TensorFromNpy(NpyArray array, v1::Layout layout);

// int64 or int32 counts of `unit`, datetime64 in its own unit (`unit` empty or
// the same; NaT refused), or float64 and float32 in "s" or "positions".
absl::StatusOr<v1::TimeAxis> TimeAxisFromNpy(const NpyArray& array,
                                             const std::string& unit);

// f32 -> '<f4', bf16 -> '<V2', f16 -> '<f2'.
absl::StatusOr<NpyArray> NpyFromTensor(const v1::Tensor& tensor);

// Reads the files and builds the request. Errors name the option or the file.
absl::StatusOr<v1::AttendRequest> MakeAttendRequest(
    const AttendArguments& arguments);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_ATTNCTL_ATTEND_REQUEST_H_
