#include "server/access.h"

#include <openssl/crypto.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/status.h"

namespace attnd::server {
namespace {

constexpr absl::string_view kScheme = "Bearer ";

bool HasToken(absl::string_view authorization, const std::string& token) {
  if (authorization.size() != kScheme.size() + token.size() ||
      authorization.substr(0, kScheme.size()) != kScheme) {
    return false;
  }
  // In a time that tells nothing about the place of a difference.
  return CRYPTO_memcmp(authorization.data() + kScheme.size(), token.data(),
                       token.size()) == 0;
}

bool IsAllowed(const v1::Security& security, absl::string_view method,
               const std::vector<std::string>& identities) {
  for (const v1::MethodAccess& entry : security.methods()) {
    if (entry.method() != method && entry.method() != "*") continue;
    for (const std::string& allowed : entry.identities()) {
      if (std::find(identities.begin(), identities.end(), allowed) !=
          identities.end()) {
        return true;
      }
    }
  }
  return security.methods().empty();
}

}  // namespace

absl::Status CheckAccess(const Settings& settings, absl::string_view method,
                         const Caller& caller) {
  if (!settings.bearer_token.empty() &&
      !HasToken(caller.authorization, settings.bearer_token)) {
    return Refuse(Reason::kUnauthenticated,
                  "this server wants \"authorization: Bearer TOKEN\" with the "
                  "token of security.bearer_token_file");
  }
  if (!IsAllowed(settings.config.effective.security(), method,
                 caller.identities)) {
    return Refuse(Reason::kForbidden,
                  absl::StrCat(method,
                               ": security.methods names none of the "
                               "identities of the client's certificate"));
  }
  return absl::OkStatus();
}

const Tenant& TenantOf(const Settings& settings, const Caller& caller) {
  for (const std::string& identity : caller.identities) {
    if (settings.tenants.Has(identity)) return settings.tenants.Find(identity);
  }
  return settings.tenants.Find(caller.tenant);
}

}  // namespace attnd::server
