// Any bytes as a configuration file. What is accepted must print as a
// configuration that is accepted again, and be the same one.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "server/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace attnd::server;  // NOLINT(google-build-using-namespace)
  const std::string text(reinterpret_cast<const char*>(data), size);
  const Machine machine;
  const auto config = ParseConfig(text, "fuzz.yaml", machine);
  if (!config.ok()) {
    // At most 20 faults, each clipped.
    if (config.status().message().empty()) std::abort();
    return 0;
  }
  const auto again = ParseConfig(ConfigText(*config), "again.yaml", machine);
  if (!again.ok() || again->hash != config->hash) std::abort();
  return 0;
}
