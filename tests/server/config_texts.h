// Texts of configurations, read as on a machine of known size.
#ifndef ATTND_TESTS_SERVER_CONFIG_TEXTS_H_
#define ATTND_TESTS_SERVER_CONFIG_TEXTS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/config.h"
#include "server/machine.h"

namespace attnd::testing {

inline constexpr server::Machine kMachine = {
    .affinity_cpus = 3,
    .quota_cpus = 2.0,
    .memory_limit_bytes = int64_t{4} << 30,
    .memory_bytes = int64_t{64} << 30};

inline absl::StatusOr<server::Config> Parse(const std::string& text) {
  return server::ParseConfig(text, "a.yaml", kMachine);
}

inline std::string Faults(const std::string& text) {
  const auto config = Parse(text);
  EXPECT_FALSE(config.ok()) << "accepted:\n" << text;
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(config.status().message());
}

inline std::string Encoding(const std::string& rest) {
  return absl::StrCat("encodings:\n  - name: a\n    time_unit: 1s\n    ", rest,
                      "\n");
}

}  // namespace attnd::testing

#endif  // ATTND_TESTS_SERVER_CONFIG_TEXTS_H_
