// Who may call what, and as which tenant.
#ifndef ATTND_SERVER_ACCESS_H_
#define ATTND_SERVER_ACCESS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/settings.h"

namespace attnd::server {

// What a call says of its caller.
struct Caller {
  // Subject alternative names of the client's certificate.
  std::vector<std::string> identities = {};
  std::string authorization = {};  // the metadata of that name
  std::string tenant = {};         // what the tenants' metadata key holds
};

// OK; UNAUTHENTICATED without the right bearer token; PERMISSION_DENIED when
// `security.methods` is not empty and no entry for the method, or for "*",
// names one of the caller's identities.
absl::Status CheckAccess(const Settings& settings, absl::string_view method,
                         const Caller& caller);

// The first identity that is a tenant's name, else what the metadata says: a
// certificate cannot be made up. The default tenant if there is no such one.
const Tenant& TenantOf(const Settings& settings, const Caller& caller);

}  // namespace attnd::server

#endif  // ATTND_SERVER_ACCESS_H_
