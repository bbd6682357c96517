#include "client/attnctl/target_options.h"

#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/channel.h"
#include "client/duration_text.h"
#include "client/files.h"
#include "client/number_range.h"

namespace attnd::client {
namespace {

absl::StatusOr<TlsOptions> ReadTls(const TargetOptions& options) {
  TlsOptions tls;
  tls.server_name = options.tls_name;
  const std::pair<const std::string*, std::string*> files[] = {
      {&options.tls_ca, &tls.root_certificates},
      {&options.tls_cert, &tls.certificate_chain},
      {&options.tls_key, &tls.private_key}};
  for (const auto& [path, pem] : files) {
    if (path->empty()) continue;
    absl::StatusOr<std::string> content = ReadFile(*path);
    if (!content.ok()) return content.status();
    if (!absl::StrContains(*content, "-----BEGIN ")) {
      return absl::InvalidArgumentError(
          absl::StrCat(*path, ": expected a PEM file (-----BEGIN ...)"));
    }
    *pem = *std::move(content);
  }
  return tls;
}

}  // namespace

void AddTargetOptions(CLI::App* command, TargetOptions* options) {
  const std::string group = "Connection";
  const auto add = [&](const char* name, auto& value, const char* type,
                       const char* text) {
    return command->add_option(name, value, text)
        ->type_name(type)
        ->group(group);
  };
  add("--target", options->target, "HOST:PORT",
      "HOST:PORT of attnd, unix:PATH, dns:///NAME:PORT, or several IP:PORT "
      "separated by commas")
      ->capture_default_str();
  add("--timeout", options->timeout, "TIME",
      "Time for each call, retries included: a number and ns us ms s min h d w")
      ->check(TimeAbove0())
      ->capture_default_str();
  add("--attempts", options->attempts, "N",
      "Attempts per call when the server asks to come back later")
      ->check(WholeNumber(1, std::numeric_limits<int>::max()))
      ->capture_default_str();
  add("--message-bytes", options->message_bytes, "BYTES",
      "Largest request and answer")
      ->check(WholeNumber(1, std::numeric_limits<int>::max()))
      ->capture_default_str();
  add("--metadata", options->metadata, "KEY=VALUE",
      "Sent with every call; may be repeated. Keys of a-z 0-9 _ . - that are "
      "not gRPC's own (grpc-...), values of printable ASCII, or any bytes "
      "where the key ends in -bin")
      ->allow_extra_args(false);
  command
      ->add_flag("--tls", options->tls,
                 "Encrypt; trust the authorities of the system")
      ->group(group);
  add("--tls-ca", options->tls_ca, "FILE",
      "PEM file of the authorities to trust; implies --tls");
  add("--tls-cert", options->tls_cert, "FILE",
      "PEM file of the own certificate; implies --tls");
  add("--tls-key", options->tls_key, "FILE", "PEM file of its key");
  add("--tls-name", options->tls_name, "NAME",
      "Name that the server's certificate must carry, when it is not that of "
      "--target");
}

std::vector<NamedFile> TargetFiles(const TargetOptions& options) {
  return {{"--tls-ca", options.tls_ca},
          {"--tls-cert", options.tls_cert},
          {"--tls-key", options.tls_key}};
}

absl::StatusOr<ClientOptions> MakeClientOptions(const TargetOptions& options) {
  ClientOptions result;
  result.endpoints = absl::StrSplit(options.target, ',');
  absl::StatusOr<int64_t> timeout = ParseDuration(options.timeout);
  if (!timeout.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--timeout: ", timeout.status().message()));
  }
  result.timeout = absl::Nanoseconds(*timeout);
  result.max_attempts = options.attempts;
  result.message_bytes = options.message_bytes;
  for (const std::string& pair : options.metadata) {
    const std::pair<std::string, std::string> entry =
        absl::StrSplit(pair, absl::MaxSplits('=', 1));
    if (entry.first.empty() || !absl::StrContains(pair, '=')) {
      return absl::InvalidArgumentError(
          absl::StrCat("--metadata ", pair, ": expected KEY=VALUE"));
    }
    const std::string key = absl::AsciiStrToLower(entry.first);
    if (absl::Status bad = CheckMetadata(key, entry.second); !bad.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--metadata: ", bad.message()));
    }
    result.metadata.emplace_back(key, entry.second);
  }
  if (options.tls || !options.tls_ca.empty() || !options.tls_cert.empty() ||
      !options.tls_key.empty() || !options.tls_name.empty()) {
    absl::StatusOr<TlsOptions> tls = ReadTls(options);
    if (!tls.ok()) return tls.status();
    result.tls = *std::move(tls);
  }
  return result;
}

absl::StatusOr<Client> MakeClient(const TargetOptions& options) {
  absl::StatusOr<ClientOptions> client_options = MakeClientOptions(options);
  if (!client_options.ok()) return client_options.status();
  return Client::Create(*std::move(client_options));
}

}  // namespace attnd::client
