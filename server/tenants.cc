#include "server/tenants.h"

#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "server/text.h"

namespace attnd::server {
namespace {

constexpr size_t kMaxNameBytes = 256;

// What gRPC takes as a key of metadata that holds text.
bool IsMetadataKey(absl::string_view key) {
  return !key.empty() && key.size() <= 64 && key.substr(0, 5) != "grpc-" &&
         key.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.-") ==
             absl::string_view::npos &&
         (key.size() < 4 || key.substr(key.size() - 4) != "-bin");
}

bool IsPrintable(absl::string_view name) {
  for (const char c : name) {
    if (c < 0x21 || c > 0x7e || c == '"' || c == '\\') return false;
  }
  return !name.empty() && name.size() <= kMaxNameBytes;
}

}  // namespace

Tenants::Tenants(const v1::Tenants& config, const Tenants* before)
    : metadata_key_(config.metadata_key()) {
  if (before != nullptr) {
    next_id_ = before->next_id_;
    ever_ = before->ever_;
  }
  list_.push_back(
      {.id = 0, .name = kDefaultTenant, .weight = 1, .share = 1, .quota = 0});
  for (const v1::Tenant& t : config.tenants()) {
    Tenant tenant = {.id = 0,
                     .name = t.name(),
                     .weight = t.has_weight() ? t.weight() : 1,
                     .share = 1,
                     .quota = t.quota_worker_seconds()};
    if (t.name() == kDefaultTenant) {
      list_.front() = tenant;
      continue;
    }
    for (const Tenant& known : ever_) {
      if (known.name == t.name()) tenant.id = known.id;
    }
    if (tenant.id == 0) {
      tenant.id = next_id_++;
      ever_.push_back(tenant);
    }
    list_.push_back(tenant);
  }
  double sum = 0;
  for (const Tenant& tenant : list_) sum += tenant.weight;
  for (Tenant& tenant : list_) tenant.share = tenant.weight / sum;
}

const Tenant& Tenants::Find(absl::string_view name) const {
  for (const Tenant& tenant : list_) {
    if (tenant.name == name) return tenant;
  }
  return list_.front();
}

const Tenant& Tenants::ById(int id) const {
  for (const Tenant& tenant : list_) {
    if (tenant.id == id) return tenant;
  }
  return list_.front();
}

bool Tenants::Has(absl::string_view name) const {
  return Find(name).name == name;
}

void CompleteTenants(v1::Tenants& config, Violations& violations) {
  if (config.metadata_key().empty()) config.set_metadata_key("x-attnd-tenant");
  if (!IsMetadataKey(config.metadata_key())) {
    violations.Add("tenants.metadata_key",
                   absl::StrCat("\"", Clip(config.metadata_key(), 80),
                                "\", expected lower-case letters, digits, '_', "
                                "'.' or '-', not starting with grpc- nor "
                                "ending with -bin"));
  }
  std::set<std::string> names;
  for (int i = 0; i < config.tenants_size(); ++i) {
    v1::Tenant& tenant = *config.mutable_tenants(i);
    const std::string path = absl::StrCat("tenants.tenants[", i, "]");
    if (!IsPrintable(tenant.name())) {
      violations.Add(path + ".name",
                     "required: 1 to 256 printable characters without spaces, "
                     "quotes and backslashes");
    } else if (!names.insert(tenant.name()).second) {
      violations.Add(path + ".name", absl::StrCat("\"", tenant.name(),
                                                  "\" is taken by another"));
    }
    if (!tenant.has_weight()) tenant.set_weight(1);
    if (!(tenant.weight() >= 1e-3 && tenant.weight() <= 1e6)) {
      violations.Add(path + ".weight",
                     absl::StrCat(tenant.weight(), ", expected 0.001 to 1e6"));
    }
    if (tenant.has_quota_worker_seconds() &&
        !(tenant.quota_worker_seconds() > 0 &&
          std::isfinite(tenant.quota_worker_seconds()))) {
      violations.Add(path + ".quota_worker_seconds",
                     absl::StrCat(tenant.quota_worker_seconds(),
                                  ", expected finite and > 0"));
    }
  }
}

}  // namespace attnd::server
