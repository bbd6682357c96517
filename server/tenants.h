// Who shares the workers: the tenants of a configuration.
#ifndef ATTND_SERVER_TENANTS_H_
#define ATTND_SERVER_TENANTS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "attnd/v1/config.pb.h"
#include "server/violations.h"

namespace attnd::server {

// The tenant of all requests that name no other.
inline constexpr char kDefaultTenant[] = "default";

struct Tenant {
  // The same for a name as long as the server runs.
  int id = 0;
  std::string name;
  double weight = 1;
  // Its part of all weights.
  double share = 1;
  // Worker seconds per second; 0 = unlimited.
  double quota = 0;
};

// Immutable.
class Tenants {
 public:
  // `before`, if not null, are those that were in force until now: names keep
  // their ids.
  explicit Tenants(const v1::Tenants& config, const Tenants* before = nullptr);

  // The default tenant if there is none of that name.
  const Tenant& Find(absl::string_view name) const;
  const Tenant& ById(int id) const;
  // Whether the configuration names it.
  bool Has(absl::string_view name) const;
  absl::Span<const Tenant> list() const { return list_; }
  // Of the metadata that names a request's tenant.
  const std::string& metadata_key() const { return metadata_key_; }

 private:
  std::string metadata_key_;
  std::vector<Tenant> list_;  // the default one first
  int next_id_ = 1;           // above all ids that were ever given
  std::vector<Tenant> ever_;  // names and ids of earlier configurations too
};

// Adds what is wrong, and fills in defaults.
void CompleteTenants(v1::Tenants& config, Violations& violations);

}  // namespace attnd::server

#endif  // ATTND_SERVER_TENANTS_H_
