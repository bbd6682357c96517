// An AttendRequest from arrays in .npy files.
#ifndef ATTND_CLIENT_ATTNCTL_ATTEND_REQUEST_H_
#define ATTND_CLIENT_ATTNCTL_ATTEND_REQUEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "attnd/v1/attention.pb.h"

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
  std::optional<int64_t> past_keys;
  std::optional<int64_t> future_keys;
  int64_t prefix = 0;
  std::vector<std::string> key_ranges;  // "BEGIN:END"
  std::vector<int64_t> query_lengths;
  std::vector<int64_t> key_lengths;
  std::vector<int64_t> query_offsets;
  std::vector<int64_t> key_offsets;
  std::string key_validity;
  std::string value_mask;
  std::vector<float> sinks;
  std::string bias;
  std::string two_sided;  // "", "refuse" or "absolute_lag"
  std::optional<double> scale;
  std::optional<double> softcap;
  std::vector<std::string> outputs = {"output"};
  std::string output_dtype;  // "", "f32", "bf16" or "f16"
  std::string compute;       // "", "f32" or "bf16"
  int32_t top_k = 0;
};

// "key_mass"; empty for an output that attnctl does not know.
const char* OutputName(v1::Output output);

// Reads the files and builds the request. Errors name the option or the file.
absl::StatusOr<v1::AttendRequest> MakeAttendRequest(
    const AttendArguments& arguments);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_ATTNCTL_ATTEND_REQUEST_H_
