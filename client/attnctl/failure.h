// How attnctl tells of what went wrong.
#ifndef ATTND_CLIENT_ATTNCTL_FAILURE_H_
#define ATTND_CLIENT_ATTNCTL_FAILURE_H_

#include <string>

#include "absl/status/status.h"
#include "client/attnctl/exit_code.h"

namespace attnd::client {

// The status for people: code, text, every violated field, the wait that the
// server asks for, and what to do where the code alone tells.
std::string FailureText(const absl::Status& status);

// kUnreachable for UNAVAILABLE, DEADLINE_EXCEEDED and CANCELLED, else kRefused.
ExitCode ServiceExitCode(const absl::Status& status);

// Write to standard error and return the exit code: for a call that failed, for
// wrong arguments or input, and for output that cannot be written.
ExitCode FailedCall(const absl::Status& status);
ExitCode FailedInput(const absl::Status& status);
ExitCode FailedOutput(const absl::Status& status);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_ATTNCTL_FAILURE_H_
