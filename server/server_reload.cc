// Another configuration for a server that runs.
#include <memory>
#include <mutex>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/hash.h"
#include "server/self_test.h"
#include "server/server_parts.h"

namespace attnd::server {
namespace {

// Which section of the new configuration cannot be taken over by a server that
// runs; empty if all can.
std::string FixedSection(const v1::ServerConfig& now,
                         const v1::ServerConfig& next) {
  const auto same = [](const auto& a, const auto& b) {
    return DeterministicBytes(a) == DeterministicBytes(b);
  };
  v1::ServerConfig a = now, b = next;
  for (v1::ServerConfig* config : {&a, &b}) {
    // What may change.
    config->clear_encodings();
    config->clear_inline_encodings();
    config->clear_tenants();
    config->clear_security();
    config->clear_drain();
    config->clear_verification();
    const v1::Limits all = config->limits();
    config->mutable_limits()->Clear();
    config->mutable_limits()->set_message_bytes(all.message_bytes());
    config->mutable_limits()->set_streams_per_connection(
        all.streams_per_connection());
    config->mutable_limits()->set_receive_bytes(all.receive_bytes());
    config->mutable_limits()->set_connections(all.connections());
  }
  if (a.workers() != b.workers()) return "workers";
  if (!same(a.admin(), b.admin())) return "admin";
  if (!same(a.transport(), b.transport())) return "transport";
  if (!same(a.log(), b.log())) return "log";
  if (!same(a.limits(), b.limits())) {
    return "limits.message_bytes, receive_bytes, connections and "
           "streams_per_connection";
  }
  return same(a, b) ? "" : "listeners";
}

}  // namespace

absl::Status Server::Parts::Reload(const Config& changed) {
  std::lock_guard lock(reload_mutex);
  const std::shared_ptr<const Settings> before = settings.Get();
  const auto take_over = [&]() -> absl::Status {
    const std::string fixed =
        FixedSection(before->config.effective, changed.effective);
    if (!fixed.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat(fixed, ": changes with a restart only"));
    }
    auto next = Settings::Make(changed, before.get());
    if (!next.ok()) return next.status();
    if (!changed.effective.verification().skip_self_test()) {
      auto workspace = Workspace::Create();
      if (!workspace.ok()) return workspace.status();
      // Encodings that stay are those that passed, unless nobody tried them.
      const bool tried =
          !before->config.effective.verification().skip_self_test();
      absl::Status tested = SelfTest((*next)->encodings, **workspace,
                                     tried ? &before->encodings : nullptr);
      if (!tested.ok()) return tested;
    }
    metrics.AddLabels(LabelsOf((*next)->encodings), (*next)->tenants.list());
    admission->SetLimits(ToAdmissionLimits(changed.effective));
    settings.Set(*next);
    return absl::OkStatus();
  };
  const absl::Status status = take_over();
  metrics.Reloaded(status.ok());
  if (status.ok()) {
    log.Info("configuration reloaded",
             {{"generation", settings.Get()->generation},
              {"config_hash", changed.hash}});
  } else {
    log.Error("configuration refused", {{"message", status.message()},
                                        {"generation", before->generation}});
  }
  return status;
}

absl::Status Server::Reload(const Config& config) {
  return parts_->Reload(config);
}

void Server::RefreshFiles() {
  const std::shared_ptr<const Settings> now = parts_->settings.Get();
  if (now->Outdated()) (void)parts_->Reload(now->config);
}

void Server::RefuseReload(const absl::Status& status) {
  parts_->metrics.Reloaded(false);
  for (absl::string_view line : absl::StrSplit(status.message(), '\n')) {
    parts_->log.Error("configuration refused", {{"message", line}});
  }
}

}  // namespace attnd::server
