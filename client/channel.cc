#include "client/channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/service_config.h"

namespace attnd::client {
namespace {

// "127.0.0.1:50051": digits and dots before the port.
bool IsIpv4(const std::string& endpoint) {
  const size_t colon = endpoint.rfind(':');
  return colon != std::string::npos && colon > 0 &&
         endpoint.find_first_not_of("0123456789.") == colon;
}

// "[::1]:50051".
bool IsIpv6(const std::string& endpoint) {
  return absl::StartsWith(endpoint, "[") && absl::StrContains(endpoint, "]:");
}

grpc::ChannelArguments Arguments(const ClientOptions& options, ChannelUse use) {
  grpc::ChannelArguments arguments;
  const int bytes = static_cast<int>(options.message_bytes);
  arguments.SetMaxReceiveMessageSize(bytes);
  arguments.SetMaxSendMessageSize(bytes);
  // gRPC repeats a call that no server has seen (a connection that broke before
  // the first byte) only while it still holds all of its bytes; its own default
  // of 256 KiB would leave out most of our requests.
  arguments.SetInt(GRPC_ARG_PER_RPC_RETRY_BUFFER_SIZE, bytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS,
                   absl::ToInt64Milliseconds(options.keepalive_time));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                   absl::ToInt64Milliseconds(options.keepalive_timeout));
  // 0 = any number: a long computation sends no data, and a peer that vanished
  // meanwhile must still be noticed.
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 10'000);
  // A name is looked up when a connection ends; gRPC's own 30 s would keep new
  // replicas waiting.
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 5'000);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, options.http_proxy ? 1 : 0);
  // A retry policy in DNS would break the promise of who retries and when.
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  if (use == ChannelUse::kCalls) {
    arguments.SetServiceConfigJSON(
        ChannelServiceConfig(options.health_checked));
  }
  if (options.tls && !options.tls->server_name.empty()) {
    arguments.SetSslTargetNameOverride(options.tls->server_name);
  }
  return arguments;
}

std::shared_ptr<grpc::ChannelCredentials> Credentials(
    const ClientOptions& options) {
  if (!options.tls) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions ssl;
  ssl.pem_root_certs = options.tls->root_certificates;
  ssl.pem_cert_chain = options.tls->certificate_chain;
  ssl.pem_private_key = options.tls->private_key;
  return grpc::SslCredentials(ssl);
}

}  // namespace

absl::Status CheckMetadata(absl::string_view key, absl::string_view value) {
  constexpr absl::string_view kKey = "abcdefghijklmnopqrstuvwxyz0123456789_.-";
  if (key.empty() || key.find_first_not_of(kKey) != key.npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("key '", absl::CHexEscape(key),
                     "': expected one or more of a-z 0-9 _ . -"));
  }
  // Headers of the protocols below; a second one breaks the call.
  constexpr absl::string_view kReserved[] = {
      "connection",        "content-length",
      "content-type",      "host",
      "keep-alive",        "te",
      "transfer-encoding", "upgrade",
      "user-agent"};
  if (absl::StartsWith(key, "grpc-") ||
      std::find(std::begin(kReserved), std::end(kReserved), key) !=
          std::end(kReserved)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "key '", key, "': expected one that gRPC and HTTP/2 do not set"));
  }
  if (absl::EndsWith(key, "-bin")) return absl::OkStatus();
  for (const char c : value) {
    if (c < ' ' || c > '~') {
      return absl::InvalidArgumentError(
          absl::StrCat("value '", absl::CHexEscape(value), "' of '", key,
                       "': expected printable ASCII (other bytes only where "
                       "the key ends in -bin)"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const ClientOptions& options) {
  constexpr int64_t kMax = std::numeric_limits<int>::max();
  if (options.message_bytes < 1 || options.message_bytes > kMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("message_bytes: ", options.message_bytes,
                     ", expected 1 to ", kMax, " (the limit of protobuf)"));
  }
  if (options.max_attempts < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_attempts: ", options.max_attempts, ", expected at least 1"));
  }
  if (options.timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("timeout: ", absl::FormatDuration(options.timeout),
                     ", expected more than 0"));
  }
  if (options.keepalive_time < kMinKeepaliveTime) {
    return absl::InvalidArgumentError(absl::StrCat(
        "keepalive_time: ", absl::FormatDuration(options.keepalive_time),
        ", expected at least ", absl::FormatDuration(kMinKeepaliveTime),
        ": servers close connections that ping more often"));
  }
  for (const auto& [key, value] : options.metadata) {
    absl::Status bad = CheckMetadata(key, value);
    if (!bad.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("metadata: ", bad.message()));
    }
  }
  if (options.tls && options.tls->certificate_chain.empty() !=
                         options.tls->private_key.empty()) {
    return absl::InvalidArgumentError(
        "tls: certificate_chain and private_key belong together, but only one "
        "is set");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> TargetOf(
    const std::vector<std::string>& endpoints) {
  if (endpoints.empty() || endpoints.front().empty()) {
    return absl::InvalidArgumentError(
        "endpoints: none given, expected for example 127.0.0.1:50051");
  }
  if (endpoints.size() == 1) return endpoints.front();
  bool ipv4 = true;
  bool ipv6 = true;
  for (const std::string& endpoint : endpoints) {
    ipv4 = ipv4 && IsIpv4(endpoint);
    ipv6 = ipv6 && IsIpv6(endpoint);
  }
  if (!ipv4 && !ipv6) {
    return absl::InvalidArgumentError(absl::StrCat(
        "endpoints: ", absl::StrJoin(endpoints, ","),
        ": several endpoints must all be IPv4 or all be IPv6 addresses with a "
        "port; for names use one DNS name that resolves to all of them"));
  }
  return absl::StrCat(ipv4 ? "ipv4:" : "ipv6:", absl::StrJoin(endpoints, ","));
}

std::shared_ptr<grpc::Channel> MakeChannel(const ClientOptions& options,
                                           ChannelUse use) {
  return grpc::CreateCustomChannel(*TargetOf(options.endpoints),
                                   Credentials(options),
                                   Arguments(options, use));
}

}  // namespace attnd::client
