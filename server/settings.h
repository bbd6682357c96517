// One configuration in force, and which it is.
#ifndef ATTND_SERVER_SETTINGS_H_
#define ATTND_SERVER_SETTINGS_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "server/config.h"
#include "server/encodings.h"

namespace attnd::server {

// Immutable but for the encoders' caches. A request holds the settings that it
// began with until it has ended.
struct Settings {
  Settings(Config c, int64_t g)
      : config(std::move(c)),
        encodings(config.effective.encodings(),
                  config.effective.inline_encodings().cache_entries()),
        generation(g) {}

  const v1::Limits& limits() const { return config.effective.limits(); }

  const Config config;
  const EncodingCatalog encodings;
  // 1 at start, one more with every reload.
  const int64_t generation;
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
    // The old one may die here, which takes a while: not under the lock.
    std::lock_guard lock(mutex_);
    settings_.swap(settings);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Settings> settings_;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_SETTINGS_H_
