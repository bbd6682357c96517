// Where attnctl's subcommands connect to, and how.
#ifndef ATTND_CLIENT_ATTNCTL_TARGET_OPTIONS_H_
#define ATTND_CLIENT_ATTNCTL_TARGET_OPTIONS_H_

#include <CLI/App.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/named_files.h"

namespace attnd::client {

struct TargetOptions {
  std::string target = "127.0.0.1:50051";
  std::string timeout = "60s";
  int attempts = 4;
  int64_t message_bytes = kDefaultMessageBytes;
  bool tls = false;
  std::string tls_ca = {};
  std::string tls_cert = {};
  std::string tls_key = {};
  std::string tls_name = {};
  std::vector<std::string> metadata = {};
};

// Adds --target, --timeout, --attempts, --tls... to a subcommand, in a group of
// their own. `options` gives the defaults and must outlive `command`.
void AddTargetOptions(CLI::App* command, TargetOptions* options);

// The files that they name.
std::vector<NamedFile> TargetFiles(const TargetOptions& options);

// What the library wants to know; reads the TLS files. InvalidArgument and file
// errors name the option.
absl::StatusOr<ClientOptions> MakeClientOptions(const TargetOptions& options);

// MakeClientOptions and Client::Create in one.
absl::StatusOr<Client> MakeClient(const TargetOptions& options);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_ATTNCTL_TARGET_OPTIONS_H_
