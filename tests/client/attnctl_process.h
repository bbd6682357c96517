// Runs the attnctl binary as a user would.
#ifndef ATTND_TESTS_CLIENT_ATTNCTL_PROCESS_H_
#define ATTND_TESTS_CLIENT_ATTNCTL_PROCESS_H_

#include <string>
#include <vector>

namespace attnd::client {

struct ProcessResult {
  int exit_code = -1;
  std::string out;
  std::string err;
};

// Runs `program` (a path) with arguments, standard input empty, and waits.
ProcessResult RunProcess(const std::string& program,
                         const std::vector<std::string>& arguments);

// Runs attnctl of this build: the path is compiled in.
ProcessResult RunAttnctl(const std::vector<std::string>& arguments);

// The same with standard output going to a file of one's own, as /dev/full, or
// closed for ""; `out` stays empty.
ProcessResult RunAttnctlInto(const std::string& file,
                             const std::vector<std::string>& arguments);

// An attnctl that goes on beside the test.
class StartedAttnctl {
 public:
  explicit StartedAttnctl(const std::vector<std::string>& arguments);
  // SIGINT and the like.
  void Send(int signal) const;
  // Waits for its end. Once.
  ProcessResult Wait();

 private:
  std::string folder_;
  int pid_ = 0;
};

// The same with standard error on a terminal of so many columns: `err` is what
// the terminal got, control characters included.
ProcessResult RunAttnctlOnTerminal(const std::vector<std::string>& arguments,
                                   int columns);

// A fresh folder of this test's own, with a '/' at the end.
std::string FreshFolder();

// The last line of a text, without its line end.
std::string LastLine(const std::string& text);

}  // namespace attnd::client

#endif  // ATTND_TESTS_CLIENT_ATTNCTL_PROCESS_H_
