// One configuration in force, and which it is.
#ifndef ATTND_SERVER_SETTINGS_H_
#define ATTND_SERVER_SETTINGS_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/config.h"
#include "server/encodings.h"
#include "server/tenants.h"

namespace attnd::server {

// Files that a configuration has its settings read from.
std::vector<std::string> NamedFiles(const v1::ServerConfig& config);

// Immutable but for the encoders' caches. A request holds the settings that it
// began with until it has ended.
struct Settings {
  // Those of a start (`before` null), or that follow others. INVALID_ARGUMENT
  // when a file that the configuration names cannot be used.
  static absl::StatusOr<std::shared_ptr<const Settings>> Make(
      const Config& config, const Settings* before = nullptr);

  // Whether a file that the configuration names can be used and has another
  // content by now.
  bool Outdated() const;

  const v1::Limits& limits() const { return config.effective.limits(); }

  const Config config;
  const EncodingCatalog encodings;
  const Tenants tenants;
  // That calls must bring; empty = none.
  const std::string bearer_token;
  // 1 at start, one more with every reload.
  const int64_t generation;

 private:
  Settings(const Config& c, std::string token, const Settings* before);
};

// Thread-safe.
class CurrentSettings {
 public:
  explicit CurrentSettings(std::shared_ptr<const Settings> settings)
      : settings_(std::move(settings)) {}

  std::shared_ptr<const Settings> Get() const {
    std::lock_guard lock(mutex_);
    return settings_;
  }
  void Set(std::shared_ptr<const Settings> settings) {
    std::lock_guard lock(mutex_);
    settings_.swap(settings);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Settings> settings_;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_SETTINGS_H_
