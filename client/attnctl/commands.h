// The subcommands of attnctl, one file each.
#ifndef ATTND_CLIENT_ATTNCTL_COMMANDS_H_
#define ATTND_CLIENT_ATTNCTL_COMMANDS_H_

#include <CLI/App.hpp>

namespace attnd::client {

// Each adds its subcommand to `app`. When it is the one on the command line, it
// runs while `app` parses, writes results to standard output and errors to
// standard error, and stores an ExitCode in `exit_code`, which must outlive
// `app`.
void AddHealthCommand(CLI::App& app, int* exit_code);
void AddEncodingsCommand(CLI::App& app, int* exit_code);
void AddAttendCommand(CLI::App& app, int* exit_code);
void AddInterpolateCommand(CLI::App& app, int* exit_code);
void AddLoadCommand(CLI::App& app, int* exit_code);
void AddCompareCommand(CLI::App& app, int* exit_code);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_ATTNCTL_COMMANDS_H_
