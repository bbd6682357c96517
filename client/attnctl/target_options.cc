#include "client/attnctl/target_options.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/duration_text.h"
#include "client/files.h"

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
  command
      ->add_option(
          "--target", options->target,
          "HOST:PORT of attnd, unix:PATH, dns:///NAME:PORT, or several "
          "IP:PORT separated by commas")
      ->capture_default_str()
      ->type_name("HOST:PORT")
      ->group(group);
  command
      ->add_option("--timeout", options->timeout,
                   "Time for each call, retries included: a number and ns us "
                   "ms s min h d w")
      ->capture_default_str()
      ->type_name("TIME")
      ->group(group);
  command
      ->add_option("--attempts", options->attempts,
                   "Attempts per call when the server asks to come back later")
      ->capture_default_str()
      ->type_name("N")
      ->group(group);
  command
      ->add_option("--message-bytes", options->message_bytes,
                   "Largest request and answer")
      ->capture_default_str()
      ->type_name("BYTES")
      ->group(group);
  command
      ->add_option("--metadata", options->metadata,
                   "KEY=VALUE sent with every call; may be repeated")
      ->type_name("KEY=VALUE")
      ->group(group)
      ->allow_extra_args(false);
  command
      ->add_flag("--tls", options->tls,
                 "Encrypt; trust the authorities of the system")
      ->group(group);
  command
      ->add_option("--tls-ca", options->tls_ca,
                   "PEM file of the authorities to trust; implies --tls")
      ->type_name("FILE")
      ->group(group);
  command
      ->add_option("--tls-cert", options->tls_cert,
                   "PEM file of the own certificate; implies --tls")
      ->type_name("FILE")
      ->group(group);
  command->add_option("--tls-key", options->tls_key, "PEM file of its key")
      ->type_name("FILE")
      ->group(group);
  command
      ->add_option("--tls-name", options->tls_name,
                   "Name that the server's certificate must carry, when it is "
                   "not that of --target")
      ->type_name("NAME")
      ->group(group);
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
    result.metadata.emplace_back(absl::AsciiStrToLower(entry.first),
                                 entry.second);
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
