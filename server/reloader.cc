#include "server/reloader.h"

#include <utility>

#include "server/settings.h"

namespace attnd::server {
namespace {

constexpr double kLookSeconds = 1;

}  // namespace

Reloader::Reloader(std::string file, const Machine& machine)
    : file_(std::move(file)), machine_(machine), watcher_({file_}) {}

void Reloader::Watch(const std::vector<std::string>& tried) {
  std::vector<std::string> files = {file_};
  files.insert(files.end(), in_force_.begin(), in_force_.end());
  files.insert(files.end(), tried.begin(), tried.end());
  watcher_.Watch(files);
}

absl::StatusOr<Config> Reloader::Load() {
  auto config = LoadConfig(file_, machine_);
  if (!config.ok()) return config.status();
  in_force_ = NamedFiles(config->effective);
  Watch({});
  return config;
}

void Reloader::Follow(Server* server) {
  server_ = server;
  watcher_.Start(kLookSeconds, [this] { Reload(); });
}

void Reloader::Reload() {
  const auto config = LoadConfig(file_, machine_);
  if (!config.ok()) {
    server_->RefuseReload(config.status());
    server_->RefreshFiles();
    return;
  }
  const std::vector<std::string> named = NamedFiles(config->effective);
  // Before they are read. Where they are refused they stay watched: their next
  // content may be what was missing.
  Watch(named);
  if (server_->Reload(*config).ok()) {
    in_force_ = named;
    Watch({});
  } else {
    server_->RefreshFiles();
  }
}

}  // namespace attnd::server
