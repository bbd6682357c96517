#include "tests/proof/proof_test.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/server/http.h"

namespace attnd::testing {
namespace {

// Of the processors' time: more, and a tail is somebody else's.
constexpr double kQuiet = 0.03;

}  // namespace

bool ProofTest::full() { return std::getenv("ATTND_PROOF_SECONDS") != nullptr; }

double ProofTest::seconds() {
  return full() ? std::atof(std::getenv("ATTND_PROOF_SECONDS")) : 2;
}

double ProofTest::seconds(double full_seconds, double short_seconds) {
  return full() ? full_seconds : short_seconds;
}

void ProofTest::Start(const std::string& yaml,
                      const std::vector<std::string>& environment) {
  file_ = absl::StrCat(::testing::TempDir(), "proof_", getpid(), ".yaml");
  std::string text =
      "listeners: [{address: '127.0.0.1:0'}]\n"
      "admin: {address: '127.0.0.1:0'}\n"
      "log: {access_lines_per_second: 0}\n" +
      yaml;
  if (yaml.find("drain:") == std::string::npos) {
    text += "drain: {delay_seconds: 0, grace_seconds: 10}\n";
  }
  std::ofstream(file_) << text;
  attnd_ = std::make_unique<Attnd>(std::vector<std::string>{"--config", file_},
                                   environment);
  const std::string line = attnd_->WaitForLine("\"event\":\"listening\"");
  address_ = Field(line, "grpc");
  admin_ = Field(line, "admin");
  ASSERT_FALSE(address_.empty()) << attnd_->WholeLog();
  client_ = std::make_unique<TestClient>(address_);
}

void ProofTest::TearDown() {
  if (attnd_ != nullptr) {
    // Nothing is lost, nothing is left over, and it still ends as it should.
    EXPECT_TRUE(EventuallyMetric("attnd_inflight_requests", 0));
    EXPECT_TRUE(EventuallyMetric("attnd_queue_bytes", 0));
    EXPECT_TRUE(EventuallyMetric("attnd_queue_cost_seconds", 0));
    EXPECT_EQ(Metric("attnd_rejected_total{reason=\"internal\"}"), 0);
    attnd_->Signal(SIGTERM);
    EXPECT_EQ(attnd_->Wait(), 0);
    std::filesystem::remove(file_);
  }
  const double used = others_.used(), stolen = others_.stolen();
  const bool busy = used + stolen > kQuiet;
  PrintFigures(busy);
  if (busy && full()) {
    std::printf(
        "  BUSY MACHINE, no measurement: others used %.1f %% of it, %.1f %% "
        "was "
        "stolen\n",
        100 * used, 100 * stolen);
  }
  for (const Figure& figure : figures_) {
    EXPECT_TRUE(full() && !busy ? figure.holds : figure.holds_widely)
        << figure.what << ": " << figure.value << ", bound " << figure.bound;
  }
}

void ProofTest::PrintFigures(bool busy) const {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  std::printf("%s.%s\n", test->test_suite_name(), test->name());
  for (const Figure& f : figures_) {
    const char* verdict = f.bound.empty() ? ""
                          : f.holds       ? "holds"
                          : busy          ? "busy machine"
                                          : "MISSED";
    std::printf("  %-54s %10.4g  %-10s %s\n", f.what.c_str(), f.value,
                f.bound.c_str(), verdict);
  }
}

double ProofTest::MetricOf(const std::string& admin,
                           const std::string& series) {
  const std::string text = Http(admin, "GET /metrics");
  const size_t place = text.find(absl::StrCat("\n", series, " "));
  if (place == std::string::npos) return -1;
  return std::stod(text.substr(place + series.size() + 2));
}

bool ProofTest::Eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

bool ProofTest::EventuallyMetric(const std::string& series,
                                 double value) const {
  return Eventually([&] { return Metric(series) == value; });
}

double ProofTest::Deadline(double exact, double calls, double capacity) {
  return full() ? exact : std::max(exact, calls / capacity);
}

void ProofTest::Show(const std::string& what, double value) {
  figures_.push_back({what, value, "", true, true});
}

void ProofTest::AtLeast(const std::string& what, double value, double bound,
                        double wide) {
  figures_.push_back({what, value, absl::StrFormat(">= %g", bound),
                      value >= bound, value >= wide});
}

void ProofTest::AtMost(const std::string& what, double value, double bound,
                       double wide) {
  figures_.push_back({what, value, absl::StrFormat("<= %g", bound),
                      value <= bound, value <= wide});
}

}  // namespace attnd::testing
