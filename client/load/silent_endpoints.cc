#include "client/load/silent_endpoints.h"

#include <arpa/inet.h>

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace attnd::client {
namespace {

constexpr absl::Duration kAskFor = absl::Seconds(1);

// One spelling of "[0:0::1]:50051" and "[::1]:50051".
std::string OneSpelling(const std::string& endpoint) {
  const size_t colon = endpoint.rfind(':');
  if (colon == std::string::npos) return endpoint;
  absl::string_view host(endpoint.data(), colon);
  if (!absl::ConsumePrefix(&host, "[") || !absl::ConsumeSuffix(&host, "]")) {
    return endpoint;
  }
  in6_addr address;
  char text[INET6_ADDRSTRLEN];
  if (inet_pton(AF_INET6, std::string(host).c_str(), &address) != 1 ||
      inet_ntop(AF_INET6, &address, text, sizeof text) == nullptr) {
    return endpoint;
  }
  return absl::StrCat("[", text, "]", endpoint.substr(colon));
}

std::string WhyNoCall(ClientOptions options, const std::string& endpoint) {
  options.endpoints = {endpoint};
  options.max_attempts = 1;
  const absl::StatusOr<Client> client = Client::Create(std::move(options));
  if (!client.ok()) return std::string(client.status().message());
  const absl::StatusOr<Health> health =
      client->CheckHealth("", {.timeout = kAskFor});
  if (!health.ok()) {
    return absl::StrCat(
        "never connected: ", absl::StatusCodeToString(health.status().code()),
        ": ", health.status().message());
  }
  return *health == Health::kServing ? "no call came to it, though it serves"
                                     : "no call came to it: it does not serve";
}

}  // namespace

void NoteSilentEndpoints(const ClientOptions& options, LoadResult* result) {
  if (options.endpoints.size() < 2) return;
  std::set<std::string> called;
  for (const CallFigures& figures : result->endpoints) {
    if (figures.ok + figures.failed > 0) {
      called.insert(OneSpelling(figures.name));
    }
  }
  // Of an earlier trial of a search.
  std::erase_if(result->endpoints, [](const CallFigures& figures) {
    return figures.ok + figures.failed == 0;
  });
  for (const std::string& endpoint : options.endpoints) {
    if (!called.insert(OneSpelling(endpoint)).second) continue;
    CallFigures figures;
    figures.name = endpoint;
    figures.note = WhyNoCall(options, endpoint);
    result->endpoints.push_back(std::move(figures));
  }
}

}  // namespace attnd::client
