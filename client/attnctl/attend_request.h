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
  std::vector<int64_t> query_lengths;
  std::vector<int64_t> key_lengths;
  std::string two_sided;  // "", "refuse" or "absolute_lag"
  std::optional<double> scale;
  std::vector<std::string> outputs = {"output"};
};

// Reads the files and builds the request. Errors name the option or the file.
absl::StatusOr<v1::AttendRequest> MakeAttendRequest(
    const AttendArguments& arguments);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_ATTNCTL_ATTEND_REQUEST_H_
