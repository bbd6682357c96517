#include "server/listener_config.h"

#include <sys/un.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/text.h"

namespace attnd::server {
namespace {

bool IsUnix(absl::string_view address) {
  return absl::StartsWith(address, "unix:");
}

// The sockets would take blanks and signs as well, or a name that is none.
bool IsHostPort(absl::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos || colon == 0 || IsUnix(address)) {
    return false;
  }
  const absl::string_view host = address.substr(0, colon),
                          port = address.substr(colon + 1);
  uint32_t number = 0;
  return std::all_of(host.begin(), host.end(), absl::ascii_isgraph) &&
         std::all_of(port.begin(), port.end(), absl::ascii_isdigit) &&
         absl::SimpleAtoi(port, &number) && number <= 65535;
}

void CheckHostPort(absl::string_view field, const std::string& address,
                   absl::string_view or_else, Violations& violations) {
  if (IsHostPort(address)) return;
  violations.Add(field, absl::StrCat("\"", Clip(address, 80),
                                     "\", expected \"host:port\"", or_else));
}

// What the kernel takes for the path of a socket, less its zero byte.
constexpr size_t kMaxUnixPathBytes = sizeof(sockaddr_un::sun_path) - 1;

void CheckUnixPath(const std::string& field, absl::string_view address,
                   Violations& violations) {
  const absl::string_view path = absl::StripPrefix(address, "unix:");
  const auto expected = [&](absl::string_view came) {
    violations.Add(field,
                   absl::StrCat("\"", Clip(address, 80), "\": ", came,
                                ", expected \"unix:/path\", a path of 1 to ",
                                kMaxUnixPathBytes, " bytes"));
  };
  if (path.empty()) return expected("no path");
  // Everything from there on would be left out.
  if (absl::StrContains(path, '\0')) return expected("a zero byte");
  if (path.size() > kMaxUnixPathBytes) {
    expected(absl::StrCat("a path of ", path.size(), " bytes"));
  }
}

// Nine bits, octal.
bool IsFileMode(absl::string_view text) {
  uint32_t mode = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '7' || mode > 0777) return false;
    mode = 8 * mode + static_cast<uint32_t>(digit - '0');
  }
  return !text.empty() && mode <= 0777;
}

// Completes it.
void CheckUnixMode(const std::string& field, v1::Listener& listener,
                   Violations& violations) {
  const bool unix_socket = IsUnix(listener.address());
  const std::string& mode = listener.unix_mode();
  if (mode.empty()) {
    if (unix_socket) listener.set_unix_mode("0660");
  } else if (!unix_socket) {
    violations.Add(
        field,
        absl::StrCat("\"", Clip(mode, 80), "\", expected none: \"",
                     Clip(listener.address(), 80), "\" is no \"unix:/path\""));
  } else if (!IsFileMode(mode)) {
    violations.Add(field,
                   absl::StrCat("\"", Clip(mode, 80),
                                "\", expected octal digits up to \"0777\""));
  }
}

void CheckTls(const v1::Tls& tls, const std::string& path,
              Violations& violations) {
  if (tls.certificate_file().empty()) {
    violations.Add(path + ".certificate_file", "required");
  }
  if (tls.key_file().empty()) violations.Add(path + ".key_file", "required");
  if (!tls.health_address().empty()) {
    CheckHostPort(path + ".health_address", tls.health_address(), "",
                  violations);
  }
}

}  // namespace

void CompleteListeners(v1::ServerConfig& config, Violations& violations) {
  if (config.listeners().empty()) {
    config.add_listeners()->set_address("0.0.0.0:50051");
  }
  for (int i = 0; i < config.listeners_size(); ++i) {
    v1::Listener& listener = *config.mutable_listeners(i);
    const std::string path = absl::StrCat("listeners[", i, "]");
    if (IsUnix(listener.address())) {
      CheckUnixPath(path + ".address", listener.address(), violations);
    } else {
      CheckHostPort(path + ".address", listener.address(), " or \"unix:/path\"",
                    violations);
    }
    if (listener.has_tls()) CheckTls(listener.tls(), path + ".tls", violations);
    CheckUnixMode(path + ".unix_mode", listener, violations);
  }
  v1::Admin& admin = *config.mutable_admin();
  if (admin.address().empty()) admin.set_address("0.0.0.0:9464");
  if (admin.address() != "off") {
    CheckHostPort("admin.address", admin.address(), " or \"off\"", violations);
  }
}

}  // namespace attnd::server
