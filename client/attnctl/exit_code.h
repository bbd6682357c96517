// What attnctl's exit codes mean; `attnctl --help` says the same.
#ifndef ATTND_CLIENT_ATTNCTL_EXIT_CODE_H_
#define ATTND_CLIENT_ATTNCTL_EXIT_CODE_H_

namespace attnd::client {

enum ExitCode : int {
  // Done. health: SERVING.
  kDone = 0,
  // The service refused the request. health: any other state. load: a service
  // level was missed. compare: worse than tolerated. encodings
  // check: something is off.
  kRefused = 1,
  // The service was not reached, or not in time. load: answers were wrong
  // or could not be checked.
  kUnreachable = 2,
  // load, compare: the figures of this run must not be used.
  kInvalidRun = 3,
  // Wrong arguments, an input file that cannot be read, or no place for a
  // result.
  kUsage = 4,
  // A result could not be written.
  kOutput = 5,
};

}  // namespace attnd::client

#endif  // ATTND_CLIENT_ATTNCTL_EXIT_CODE_H_
