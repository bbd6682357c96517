// The configuration: one YAML file, checked and completed with defaults.
#ifndef ATTND_SERVER_CONFIG_H_
#define ATTND_SERVER_CONFIG_H_

#include <string>

#include "absl/status/statusor.h"
#include "attnd/v1/config.pb.h"
#include "server/machine.h"

namespace attnd::server {

// What runs. Immutable once loaded.
struct Config {
  // Every default filled in, also those that depend on the machine.
  v1::ServerConfig effective;
  // SHA-256 of `effective`, hex.
  std::string hash;
};

// INVALID_ARGUMENT with one line per fault, "FILE:LINE: path: what is wrong",
// at most 20 of them; NOT_FOUND if the file cannot be read. Checks also that
// every encoding compiles.
absl::StatusOr<Config> LoadConfig(const std::string& file,
                                  const Machine& machine);

// The same from text; `file` stands in messages only.
absl::StatusOr<Config> ParseConfig(const std::string& text,
                                   const std::string& file,
                                   const Machine& machine);

// `effective` as a document that LoadConfig accepts (JSON, hence YAML).
std::string ConfigText(const Config& config);

}  // namespace attnd::server

#endif  // ATTND_SERVER_CONFIG_H_
