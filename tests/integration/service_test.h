// A whole server in the test's process, on free ports, and a client for it.
#ifndef ATTND_TESTS_INTEGRATION_SERVICE_TEST_H_
#define ATTND_TESTS_INTEGRATION_SERVICE_TEST_H_

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "server/config.h"
#include "server/machine.h"
#include "server/server.h"
#include "tests/integration/test_client.h"

namespace attnd::testing {

// Unless a test says otherwise: two workers, no admin port, no drain delay.
class ServiceTest : public ::testing::Test {
 protected:
  // `yaml` holds further keys of the configuration.
  void Start(const std::string& yaml = "",
             const server::RunUnitFunction& run_unit = {}) {
    const server::Machine machine = server::ReadMachine();
    std::string text = "log: {level: warning}\n" + yaml;
    for (const auto& [key, fallback] :
         {std::pair<std::string, std::string>("workers:", "workers: 2\n"),
          {"listeners:", "listeners: [{address: '127.0.0.1:0'}]\n"},
          {"admin:", "admin: {address: 'off'}\n"},
          {"drain:", "drain: {delay_seconds: 0, grace_seconds: 10}\n"}}) {
      if (yaml.find(key) == std::string::npos) text += fallback;
    }
    const auto config = server::ParseConfig(text, "test.yaml", machine);
    ASSERT_TRUE(config.ok()) << config.status();
    auto started =
        server::Server::Start(*config, machine, {.run_unit = run_unit});
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
    client_ = std::make_unique<TestClient>(server_->addresses()[0]);
  }

  // A plain sample of /metrics by its full name and labels; -1 if there is
  // none.
  double Metric(const std::string& series) const {
    const std::string text = absl::StrCat("\n", server_->MetricsText());
    const size_t place = text.find(absl::StrCat("\n", series, " "));
    if (place == std::string::npos) return -1;
    return std::stod(text.substr(place + series.size() + 2));
  }

  // Waits for what other threads will bring about.
  static bool Eventually(const std::function<bool()>& condition) {
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::yield();
    }
    return true;
  }
  bool EventuallyMetric(const std::string& series, double value) const {
    return Eventually([&] { return Metric(series) == value; });
  }

  std::unique_ptr<server::Server> server_;
  std::unique_ptr<TestClient> client_;
};

}  // namespace attnd::testing

#endif  // ATTND_TESTS_INTEGRATION_SERVICE_TEST_H_
