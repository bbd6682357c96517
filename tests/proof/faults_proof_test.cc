// What clients, disks and clocks may do to a server while others are served.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "tests/integration/raw_connection.h"
#include "tests/proof/proof_test.h"
#include "tests/server/requests.h"

namespace attnd::testing {
namespace {

// Calls one after the other with the shipped client, beside what a test does to
// the server.
class GoodClient {
 public:
  explicit GoodClient(const std::string& address)
      : thread_([this, address] { Run(address); }) {}
  ~GoodClient() { Stop(); }
  void Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  int answered() const { return answered_; }
  int failed() const { return failed_; }

 private:
  void Run(const std::string& address) {
    auto client = client::Client::Create({.endpoints = {address}});
    ASSERT_TRUE(client.ok()) << client.status();
    while (!stop_) {
      const auto answer = client->Attend(request_);
      ++(answer.ok() ? answered_ : failed_);
      if (!answer.ok()) {
        std::printf("  a good call failed: %s\n",
                    answer.status().ToString().c_str());
      }
    }
  }

  const v1::AttendRequest request_ =
      MakeRequest({.queries = 128, .keys = 128, .dim = 16, .value_dim = 16});
  std::atomic<bool> stop_{false};
  std::atomic<int> answered_{0}, failed_{0};
  std::thread thread_;
};

class FaultsProof : public ProofTest {
 protected:
  // All good calls are answered, and some were.
  void Others(GoodClient& good) {
    const int before = good.answered();
    EXPECT_TRUE(Eventually([&] { return good.answered() > before + 10; }));
    good.Stop();
    Show("good calls answered meanwhile", good.answered());
    AtMost("good calls that failed", good.failed(), 0, 0);
  }
};

// In a child of its own that ends by the signal alone.
void SendHalfAndWait(const std::string& address, int told) {
  RawConnection connection(address);
  const int stream = connection.BeginAttend(1 << 20);
  connection.Send(stream, std::string(50000, 'x'));
  while (connection.unsent() > 0 && connection.Pump()) {
  }
  if (write(told, "!", 1) != 1) _exit(1);
  while (true) pause();
}

TEST_F(FaultsProof, ClientsKilledInTheMiddleOfAMessage) {
  Start();
  GoodClient good(address());
  const int clients = full() ? 100 : 10;
  for (int i = 0; i < clients; ++i) {
    int pipes[2];
    ASSERT_EQ(pipe2(pipes, O_CLOEXEC), 0);
    const pid_t child = fork();
    if (child == 0) SendHalfAndWait(address(), pipes[1]);
    char byte;
    close(pipes[1]);
    EXPECT_EQ(read(pipes[0], &byte, 1), 1);
    close(pipes[0]);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  Others(good);
  EXPECT_TRUE(EventuallyMetric("attnd_connections", 0));
}

TEST_F(FaultsProof, HalvesResetsAndReadersThatStop) {
  Start("limits: {deadline_seconds: 3}\n");
  GoodClient good(address());
  v1::AttendRequest large_reply =
      MakeRequest({.queries = 512, .keys = 512, .dim = 1, .value_dim = 1});
  large_reply.add_outputs(v1::OUTPUT_SCORES);
  const std::string message = large_reply.SerializeAsString();
  std::vector<std::unique_ptr<RawConnection>> connections;
  for (int i = 0; i < (full() ? 90 : 9); ++i) {
    RawConnection& each =
        *connections.emplace_back(std::make_unique<RawConnection>(address()));
    const int stream = each.BeginAttend(static_cast<int64_t>(message.size()));
    const bool whole = i % 3 == 2;
    size_t sent = each.Send(stream, message.substr(0, 5000));
    while (whole && sent < message.size() && each.Pump()) {
      sent += each.Send(stream, message.substr(sent));
    }
    if (whole) each.CloseSending(stream);
    while (each.unsent() > 0 && each.Pump()) {
    }
    if (i % 3 == 0) each.Abort();
    if (i % 3 == 1) {
      each.Reset(stream);
      while (each.unsent() > 0 && each.Pump()) {
      }
    }
  }
  // The readers that do not read are ended by the server.
  EXPECT_TRUE(EventuallyMetric("attnd_requests_running", 0));
  EXPECT_TRUE(EventuallyMetric("attnd_requests_waiting", 0));
  Others(good);
  EXPECT_TRUE(EventuallyMetric("attnd_queue_bytes", 0));
}

TEST_F(FaultsProof, MoreThanTheBudgetOfBytes) {
  Start("limits: {queue_bytes: 4000000}\n");
  const v1::AttendRequest large =
      MakeRequest({.queries = 4096, .keys = 4096, .dim = 16, .value_dim = 16});
  const v1::AttendRequest too_large =
      MakeRequest({.queries = 32768, .keys = 1, .dim = 16, .value_dim = 16});
  std::vector<std::unique_ptr<AttendHandle>> calls;
  for (int i = 0; i < (full() ? 300 : 30); ++i) {
    calls.push_back(client_->StartAttend(large));
  }
  EXPECT_EQ(client_->Attend(too_large).code, kResourceExhausted);
  int answered = 0, refused = 0;
  for (auto& call : calls) {
    const auto& end = call->Wait();
    answered += end.ok();
    refused += end.code == kUnavailable && end.Retryable();
  }
  Show("answered", answered);
  Show("refused with RetryInfo", refused);
  EXPECT_GT(answered, 0);
  EXPECT_GT(refused, 0);
  AtMost("ended otherwise",
         static_cast<double>(calls.size()) - answered - refused, 0, 0);
}

TEST_F(FaultsProof, AWallClockThatJumps) {
  const std::string file =
      absl::StrCat(::testing::TempDir(), "clock_", getpid());
  std::ofstream(file) << std::string(sizeof(int64_t), '\0');
  const int fd = open(file.c_str(), O_RDWR | O_CLOEXEC);
  void* memory =
      mmap(nullptr, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* offset = static_cast<std::atomic<int64_t>*>(memory);
  Start("workers: 1\n", {absl::StrCat("LD_PRELOAD=", JUMPING_CLOCK),
                         absl::StrCat("ATTND_TEST_CLOCK=", file)});
  const double started = Metric("process_start_time_seconds");
  GoodClient good(address());
  // About 0.2 s of work each, under way while the clock jumps.
  const v1::AttendRequest large = MakeRequest({.query_heads = 4,
                                               .queries = 4096,
                                               .keys = 4096,
                                               .dim = 16,
                                               .value_dim = 16});
  int failed = 0;
  for (const int64_t jump : {86400, -86400, 10 * 365 * 86400, 0}) {
    std::vector<std::unique_ptr<AttendHandle>> calls;
    for (int i = 0; i < 4; ++i)
      calls.push_back(client_->StartAttend(large, 30));
    EXPECT_TRUE(EventuallyMetric("attnd_requests_running", 1));
    offset->store(jump);
    for (auto& call : calls) failed += !call->Wait().ok();
    // Nor does it live for ever after.
    const auto hopeless = client_->Attend(large, 0.01);
    EXPECT_EQ(hopeless.code, kDeadlineExceeded);
    EXPECT_LT(hopeless.seconds, 5);
  }
  AtMost("calls under way that failed", failed, 0, 0);
  EXPECT_EQ(Metric("process_start_time_seconds"), started);
  Others(good);
  close(fd);
  unlink(file.c_str());
}

TEST_F(FaultsProof, AFullDiskForLogs) {
  // All that it logs from now on is lost, each access line included.
  const int full_disk = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full_disk, 0);
  const std::string socket =
      absl::StrCat("unix:", ::testing::TempDir(), "full_", getpid());
  const std::string file =
      absl::StrCat(::testing::TempDir(), "full_", getpid(), ".yaml");
  std::ofstream(file) << "listeners: [{address: '" << socket << "'}]\n"
                      << "admin: {address: 'off'}\n"
                      << "drain: {delay_seconds: 0}\n"
                      << "log: {access_lines_per_second: 1000000}\n";
  const pid_t child = fork();
  if (child == 0) {
    dup2(full_disk, 2);
    execl(ATTND_BINARY, ATTND_BINARY, "--config", file.c_str(), nullptr);
    _exit(127);
  }
  close(full_disk);
  TestClient client(socket);
  EXPECT_TRUE(Eventually([&] { return TestClient(socket).Health("") == 1; }));
  int answered = 0;
  const int calls = full() ? 2000 : 100;
  for (int i = 0; i < calls; ++i) {
    answered += TestClient(socket).Attend(MakeRequest({}), 30).ok();
  }
  AtLeast("calls answered, share", 1.0 * answered / calls, 1, 1);
  kill(child, SIGTERM);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  unlink(file.c_str());
}

// Peak of the resident memory of a process, bytes.
double PeakMemory(pid_t process) {
  std::ifstream file(absl::StrCat("/proc/", process, "/status"));
  std::string word;
  while (file >> word) {
    if (word != "VmHWM:") continue;
    double kib = 0;
    file >> kib;
    return 1024 * kib;
  }
  return 0;
}

// A connection that sends halves of messages.
class Halves {
 public:
  Halves(const std::string& address, int calls, int64_t message_bytes)
      : connection_(address), calls_(calls), message_bytes_(message_bytes) {}

  // Sends what the server takes now. Calls that it has ended are begun anew as
  // often as `rounds` says.
  void Send(int rounds) {
    static const std::string piece(1 << 20, 'x');
    if (!connection_.Pump()) return;
    if (connection_.ended() == begun_ && begun_ / calls_ < rounds) Begin();
    for (auto& [stream, left] : streams_) {
      if (left <= 0 || connection_.unsent() > piece.size()) continue;
      const int64_t now = connection_.Send(stream, piece);
      left -= now;
      sent_ += static_cast<double>(now);
    }
  }

  int ended() const { return connection_.ended(); }
  double sent() const { return sent_; }

 private:
  void Begin() {
    streams_.clear();
    for (int i = 0; i < calls_; ++i, ++begun_) {
      streams_.emplace_back(connection_.BeginAttend(message_bytes_),
                            message_bytes_ / 2);
    }
  }

  RawConnection connection_;
  const int calls_;
  const int64_t message_bytes_;
  int begun_ = 0;
  std::vector<std::pair<int, int64_t>> streams_;  // and the bytes to send
  double sent_ = 0;
};

class HalvesProof : public FaultsProof {
 protected:
  static constexpr double kQueue = 64, kProcess = 100;  // MiB
  const double receive_ = full() ? 256 : 64;

  // Peak of resident memory, MiB, while many connections send halves.
  double PeakBeside(int rounds) {
    const int64_t message_bytes = (full() ? 64 : 16) << 20;
    Start(absl::StrCat(
        "limits: {receive_bytes: ", static_cast<int64_t>(receive_) << 20,
        ", message_bytes: ", message_bytes,
        ", queue_bytes: ", static_cast<int64_t>(kQueue) << 20, "}\n"));
    GoodClient good(address());
    std::vector<std::unique_ptr<Halves>> all;
    for (int i = 0; i < (full() ? 64 : 16); ++i) {
      all.push_back(
          std::make_unique<Halves>(address(), full() ? 32 : 8, message_bytes));
    }
    const auto end = std::chrono::steady_clock::now() +
                     std::chrono::duration<double>(seconds(20, 3));
    while (std::chrono::steady_clock::now() < end) {
      for (auto& each : all) each->Send(rounds);
    }
    double sent = 0, ended = 0;
    for (const auto& each : all) {
      ended += each->ended();
      sent += each->sent();
    }
    Show("sent by them, MiB", sent / (1 << 20));
    Show("of their calls ended by the server", ended);
    Show("good calls answered meanwhile", good.answered());
    AtLeast("share of the good calls answered",
            1.0 * static_cast<double>(good.answered()) /
                static_cast<double>(good.answered() + good.failed()),
            0.999, 0.95);
    return PeakMemory(attnd_->pid()) / (1 << 20);
  }
};

TEST_F(HalvesProof, HalfSentMessagesOf64MiB) {
  const double sum = receive_ + kQueue + kProcess;
  AtMost("peak of resident memory, MiB", PeakBeside(1), sum, sum + 250);
}

// Gigabytes a second; what gRPC has not let go of yet comes on top.
TEST_F(HalvesProof, HalfSentMessagesWithoutEnd) {
  const double sum = 3 * receive_ + kQueue + kProcess;
  AtMost("peak of resident memory, MiB", PeakBeside(1 << 20), sum, sum + 500);
}

}  // namespace
}  // namespace attnd::testing
