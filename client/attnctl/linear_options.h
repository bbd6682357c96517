// Options of the linear kind, and its carried states in files.
#ifndef ATTND_CLIENT_ATTNCTL_LINEAR_OPTIONS_H_
#define ATTND_CLIENT_ATTNCTL_LINEAR_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "attnd/v1/attention.pb.h"

namespace attnd::client {

struct LinearArguments {
  std::string kind = "softmax";
  std::string normaliser = "none";
  std::string feature_map = "identity";
  std::string input_rule = "event";
  bool bidirectional = false;
  std::string state;               // read if it exists, written afterwards
  std::vector<std::string> merge;  // further states, read
};

void AddLinearOptions(CLI::App* command, LinearArguments* arguments);

// Sets kind, options and the states that the files hold. Errors name the option
// or the file.
absl::Status SetLinear(const LinearArguments& arguments,
                       v1::AttendRequest* request);

// Writes the final state to its file, if there is one to write.
absl::Status WriteState(const LinearArguments& arguments,
                        const v1::AttendResponse& answer);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_ATTNCTL_LINEAR_OPTIONS_H_
