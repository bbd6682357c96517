// The files that a command line names, looked at before anything is done: a
// result that cannot be written must not be found out at the end of a run.
#ifndef ATTND_CLIENT_NAMED_FILES_H_
#define ATTND_CLIENT_NAMED_FILES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace attnd::client {

struct NamedFile {
  // "--csv".
  std::string option;
  // Empty = not given; "-" = standard input or output.
  std::string path;
};

// InvalidArgument, with the option and what to do, when an output's folder is
// not there or takes no files, an output is a folder, two outputs are one file
// (however spelt, through links too) or both standard output, an output is also
// an input, or two inputs are standard input. Devices and pipes may be named
// twice.
absl::Status CheckFiles(const std::vector<NamedFile>& inputs,
                        const std::vector<NamedFile>& outputs);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_NAMED_FILES_H_
