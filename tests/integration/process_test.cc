// The program itself: command line, log lines, signals, exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/integration/attnd_process.h"
#include "tests/integration/test_client.h"
#include "tests/server/http.h"
#include "tests/server/requests.h"

namespace attnd::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class ProcessTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& yaml) {
    file_ = absl::StrCat(::testing::TempDir(), "attnd_", getpid(), "_",
                         files_++, ".yaml");
    std::ofstream(file_) << yaml;
    written_.push_back(file_);
    return file_;
  }
  // At once, as a rename does.
  static void Replace(const std::string& file, const std::string& text) {
    std::ofstream(file + ".new") << text;
    std::filesystem::rename(file + ".new", file);
  }
  void TearDown() override {
    for (const std::string& file : written_) std::filesystem::remove(file);
  }

  int files_ = 0;
  std::string file_;
  std::vector<std::string> written_;
};

constexpr char kSmall[] =
    "listeners: [{address: '127.0.0.1:0'}]\n"
    "admin: {address: '127.0.0.1:0'}\n"
    "drain: {delay_seconds: 0.2, grace_seconds: 10}\n";

TEST_F(ProcessTest, ServesDrainsAndExitsWithZero) {
  Attnd attnd({"--config", Write(kSmall)});
  const std::string line = attnd.WaitForLine("\"event\":\"listening\"");
  const std::string grpc = Field(line, "grpc"), admin = Field(line, "admin");
  ASSERT_THAT(grpc, MatchesRegex("127\\.0\\.0\\.1:[1-9][0-9]*")) << line;
  ASSERT_THAT(admin, MatchesRegex("127\\.0\\.0\\.1:[1-9][0-9]*"));
  EXPECT_THAT(line, AllOf(HasSubstr("\"ts\":\""), HasSubstr("\"level\":\""),
                          HasSubstr("\"workers\":")));
  TestClient client(grpc);
  EXPECT_EQ(client.Health(""), 1);
  v1::AttendRequest request = MakeRequest({});
  request.set_request_id("first \"call\"");
  EXPECT_TRUE(client.Attend(request).ok());
  EXPECT_THAT(Http(admin, "GET /metrics"), HasSubstr("attnd_ready 1"));
  const std::string access = attnd.WaitForLine("\"event\":\"request\"");
  EXPECT_THAT(access, AllOf(HasSubstr("\"method\":\"Attend\""),
                            HasSubstr("\"request_id\":\"first \\\"call\\\"\""),
                            HasSubstr("\"code\":0")));

  attnd.Signal(SIGTERM);
  EXPECT_NE(attnd.WaitForLine("\"event\":\"draining\""), "");
  EXPECT_TRUE(client.Attend(request).ok()) << "within the drain delay";
  EXPECT_EQ(client.Health("liveness"), 1);
  EXPECT_EQ(attnd.Wait(), 0);
  for (absl::string_view each : absl::StrSplit(attnd.WholeLog(), '\n')) {
    if (!each.empty()) {
      EXPECT_EQ(each.front(), '{') << each;
    }
  }
}

// What Prometheus itself says of names, units and help.
TEST_F(ProcessTest, PromtoolFindsNoFaultInTheMetrics) {
  Attnd attnd({"--config", Write(kSmall)});
  const std::string line = attnd.WaitForLine("\"event\":\"listening\"");
  TestClient client(Field(line, "grpc"));
  ASSERT_TRUE(client.Attend(MakeRequest({})).ok());
  const std::string reply = Http(Field(line, "admin"), "GET /metrics");
  const std::string file = Write(reply.substr(reply.find("\r\n\r\n") + 4));
  const std::string command =
      absl::StrCat("promtool check metrics < ", file, " 2>&1");
  FILE* promtool = popen(command.c_str(), "r");
  ASSERT_NE(promtool, nullptr);
  std::string said(65536, '\0');
  said.resize(fread(said.data(), 1, said.size(), promtool));
  EXPECT_EQ(pclose(promtool), 0);
  EXPECT_EQ(said, "");
}

TEST_F(ProcessTest, ALogThatNobodyReadsIsNoReasonToEnd) {
  Attnd attnd({"--config", Write(kSmall)});
  const std::string line = attnd.WaitForLine("\"event\":\"listening\"");
  TestClient client(Field(line, "grpc"));
  attnd.CloseLog();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client.Attend(MakeRequest({})).ok()) << "call " << i;
  }
  attnd.Signal(SIGTERM);
  EXPECT_EQ(attnd.Wait(), 0);
}

TEST_F(ProcessTest, ALogThatIsNotReadStopsNobody) {
  Attnd attnd(
      {"--config",
       Write(absl::StrCat(kSmall, "log: {access_lines_per_second: 1e6}\n"))});
  const std::string line = attnd.WaitForLine("\"event\":\"listening\"");
  TestClient client(Field(line, "grpc"));
  // More lines than a pipe holds.
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(client.Attend(MakeRequest({}), 30).ok()) << "call " << i;
  }
  // What is read now makes room for those that follow.
  attnd.Signal(SIGTERM);
  EXPECT_NE(attnd.WaitForLine("log lines lost"), "");
  EXPECT_NE(attnd.WaitForLine("stopped"), "");
  EXPECT_EQ(attnd.Wait(), 0);
}

// Of other streams there is a line for each message.
TEST_F(ProcessTest, AStreamThatIsRefusedHasALine) {
  const std::string token = Write("0123456789abcdef\n");
  Attnd attnd({"--config",
               Write(absl::StrCat(
                   kSmall, "security: {bearer_token_file: ", token, "}\n"))});
  const std::string line = attnd.WaitForLine("\"event\":\"listening\"");
  TestClient client(Field(line, "grpc"));
  auto stream = client.AttendStream();
  v1::AttendStreamResponse response;
  EXPECT_FALSE(stream->Receive(response));
  EXPECT_EQ(stream->Finish().code, kUnauthenticated);
  EXPECT_THAT(
      attnd.WaitForLine("\"event\":\"request\""),
      AllOf(HasSubstr("\"method\":\"AttendStream\""), HasSubstr("\"code\":16"),
            HasSubstr("security.bearer_token_file")));
}

// Whatever length the texts of callers have.
TEST_F(ProcessTest, LongIdsInALogThatIsNotReadStopNobody) {
  Attnd attnd(
      {"--config",
       Write(absl::StrCat(kSmall, "log: {access_lines_per_second: 1e6}\n"))});
  const std::string line = attnd.WaitForLine("\"event\":\"listening\"");
  TestClient client(Field(line, "grpc"));
  v1::AttendRequest request = MakeRequest({});
  request.set_request_id(std::string(1 << 20, 'a'));
  // More than a pipe holds, were it one line.
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(client.Attend(request, 30).code, kInvalidArgument);
  }
  EXPECT_TRUE(client.Attend(MakeRequest({}), 30).ok());
  EXPECT_THAT(attnd.WaitForLine("\"event\":\"request\""),
              HasSubstr("aaaa…(1048576 bytes)"));
  attnd.Signal(SIGTERM);
  EXPECT_NE(attnd.WaitForLine("stopped"), "");
  EXPECT_EQ(attnd.Wait(), 0);
}

TEST_F(ProcessTest, ASecondSignalEndsItAtOnce) {
  Attnd attnd({"--config", Write("listeners: [{address: '127.0.0.1:0'}]\n"
                                 "admin: {address: 'off'}\n"
                                 "drain: {delay_seconds: 3600}\n")});
  ASSERT_NE(attnd.WaitForLine("listening"), "");
  attnd.Signal(SIGINT);
  ASSERT_NE(attnd.WaitForLine("draining"), "");
  attnd.Signal(SIGTERM);
  EXPECT_EQ(attnd.Wait(), 128 + SIGTERM);
}

// In place of a file, what attnd reads of it waits for the test.
class SlowFile {
 public:
  explicit SlowFile(const std::string& file) : file_(file) {
    std::filesystem::remove(file);
    EXPECT_EQ(mkfifo(file.c_str(), 0600), 0);
  }
  // Returns when it is being read.
  void AwaitReader() { writer_ = open(file_.c_str(), O_WRONLY | O_CLOEXEC); }
  // What is read of it, and from now on.
  void Become(const std::string& text) {
    std::ofstream(file_ + ".new") << text;
    std::filesystem::rename(file_ + ".new", file_);
    EXPECT_EQ(write(writer_, text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
    close(std::exchange(writer_, -1));
  }
  ~SlowFile() {
    if (writer_ >= 0) close(writer_);
  }

 private:
  const std::string file_;
  int writer_ = -1;
};

constexpr char kReloaded[] = "\"event\":\"configuration reloaded\"";

std::string WithToken(const std::string& file) {
  return absl::StrCat(kSmall, "security: {bearer_token_file: ", file, "}\n");
}

// A revoked token must not stay valid for want of somebody who looks.
TEST_F(ProcessTest, AReloadMayNameOtherFilesWhichAreWatchedToo) {
  const std::string first = Write("first-token-0001"),
                    second = Write("second-token-0001"),
                    config = Write(WithToken(first));
  Attnd attnd({"--config", config});
  TestClient client(Field(attnd.WaitForLine("listening"), "grpc"));
  const auto code = [&](const std::string& token) {
    return client
        .Attend(MakeRequest({}), kNoDeadline,
                {{"authorization", "Bearer " + token}})
        .code;
  };
  EXPECT_EQ(code("first-token-0001"), kOk);
  Replace(config, WithToken(second));
  ASSERT_NE(attnd.WaitForLine(kReloaded), "");
  EXPECT_EQ(code("second-token-0001"), kOk);
  Replace(second, "second-token-0002");
  ASSERT_NE(attnd.WaitForLine(kReloaded), "");
  EXPECT_EQ(code("second-token-0001"), kUnauthenticated);
  EXPECT_EQ(code("second-token-0002"), kOk);
  // What is refused takes nothing away, and is tried again when it can work.
  const std::string third = second + ".third";
  written_.push_back(third);
  Replace(config, WithToken(third));
  ASSERT_NE(attnd.WaitForLine("configuration refused"), "");
  EXPECT_EQ(code("second-token-0002"), kOk);
  Replace(second, "second-token-0003");
  ASSERT_NE(attnd.WaitForLine(kReloaded), "");
  EXPECT_EQ(code("second-token-0002"), kUnauthenticated);
  EXPECT_EQ(code("second-token-0003"), kOk);
  Replace(third, "third-token-00001");
  ASSERT_NE(attnd.WaitForLine(kReloaded), "");
  EXPECT_EQ(code("second-token-0003"), kUnauthenticated);
  EXPECT_EQ(code("third-token-00001"), kOk);
}

TEST_F(ProcessTest, WhatComesDuringTheStartIsHeededAfterIt) {
  const std::string token = Write(""), config = Write("");
  for (const bool signalled : {false, true}) {
    SlowFile slow(token);
    Replace(config, WithToken(token));
    Attnd attnd({"--config", config});
    // By now it has read which file holds the token.
    slow.AwaitReader();
    if (signalled) {
      attnd.Signal(SIGHUP);
    } else {
      Replace(config, WithToken(token) + "limits: {batch: 7}\n");
    }
    slow.Become("a-token-that-is-long-enough");
    ASSERT_NE(attnd.WaitForLine("listening"), "");
    EXPECT_THAT(attnd.WaitForLine(kReloaded), HasSubstr("\"generation\":2"))
        << (signalled ? "SIGHUP" : "new content");
  }
}

TEST_F(ProcessTest, StopSignalsDoNotWaitForAReload) {
  for (const bool twice : {false, true}) {
    const std::string config =
        Write(absl::StrCat("listeners: [{address: '127.0.0.1:0'}]\n"
                           "admin: {address: 'off'}\n"
                           "drain: {grace_seconds: 10, delay_seconds: ",
                           twice ? "3600" : "0.1", "}\n"));
    Attnd attnd({"--config", config});
    TestClient client(Field(attnd.WaitForLine("listening"), "grpc"));
    EXPECT_EQ(client.Health(""), 1);
    SlowFile slow(config);
    attnd.Signal(SIGHUP);
    slow.AwaitReader();
    attnd.Signal(SIGTERM);
    ASSERT_NE(attnd.WaitForLine("\"event\":\"draining\""), "");
    if (twice) {
      EXPECT_EQ(client.Health(""), 2) << "NOT_SERVING";
      attnd.Signal(SIGTERM);
    }
    EXPECT_EQ(attnd.Wait(), twice ? 128 + SIGTERM : 0);
    // Nothing of the log is lost with the reload.
    EXPECT_EQ(
        attnd.WholeLog().find("\"event\":\"stopped\"") != std::string::npos,
        !twice);
  }
}

TEST_F(ProcessTest, StopsAsPidOne) {
  const std::string file = Write(kSmall);
  // In a child: a process that has made a namespace cannot leave it, and when
  // its first child ends it can fork no more.
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWPID) != 0) _exit(77);
    Attnd attnd({"--config", file});
    const bool listened = !attnd.WaitForLine("listening").empty();
    attnd.Signal(SIGTERM);
    _exit(listened ? attnd.Wait() : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "needs CAP_SYS_ADMIN";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// Healthy too early.
TEST_F(ProcessTest, ABrokenConfigurationNeverServes) {
  Attnd attnd({"--config", Write("workers: 1\n"
                                 "encodings:\n"
                                 "  - name: rope\n"
                                 "    time_unit: 1s\n"
                                 "    blocks: [{rotary: {base: -1, "
                                 "pair_layout: half_split}}]\n")});
  EXPECT_EQ(attnd.Wait(), 2);
  EXPECT_THAT(attnd.WholeLog(),
              AllOf(HasSubstr(file_ + ":5: encodings[0].blocks[0].rotary.base"),
                    ::testing::Not(HasSubstr("listening"))));
}

TEST_F(ProcessTest, AMissingFileIsSaid) {
  Attnd attnd({"--config", "/nonexistent.yaml"});
  EXPECT_EQ(attnd.Wait(), 2);
  EXPECT_THAT(attnd.WholeLog(), HasSubstr("/nonexistent.yaml"));
}

TEST_F(ProcessTest, ATakenPortIsSaid) {
  Attnd first({"--config", Write(kSmall)});
  const std::string line = first.WaitForLine("listening");
  Attnd second({"--config", Write(absl::StrCat(
                                "listeners: [{address: '", Field(line, "grpc"),
                                "'}]\nadmin: {address: 'off'}\n"))});
  EXPECT_EQ(second.Wait(), 1);
  EXPECT_THAT(second.WholeLog(),
              AllOf(HasSubstr("listeners[0].address"), HasSubstr("port")));
  Attnd third(
      {"--config", Write(absl::StrCat("listeners: [{address: '127.0.0.1:0'}]\n"
                                      "admin: {address: '",
                                      Field(line, "admin"), "'}\n"))});
  EXPECT_EQ(third.Wait(), 1);
  EXPECT_THAT(third.WholeLog(), HasSubstr("admin.address"));
  EXPECT_TRUE(first.running());
}

TEST_F(ProcessTest, ATakenPathIsSaid) {
  const std::string path = Write("") + ".sock",
                    config =
                        Write(absl::StrCat("listeners: [{address: 'unix:", path,
                                           "'}]\nadmin: {address: 'off'}\n"
                                           "drain: {delay_seconds: 0}\n"));
  Attnd first({"--config", config});
  ASSERT_NE(first.WaitForLine("listening"), "");
  // Also one that is stopped.
  first.Signal(SIGSTOP);
  Attnd second({"--config", config});
  EXPECT_EQ(second.Wait(), 1);
  EXPECT_THAT(second.WholeLog(),
              HasSubstr(absl::StrCat("listeners[0].address unix:", path,
                                     ": cannot listen: another server listens "
                                     "there\"")));
  first.Signal(SIGCONT);
  // It took the path when the file was removed by hand.
  std::filesystem::remove(path);
  Attnd third({"--config", config});
  ASSERT_NE(third.WaitForLine("listening"), "");
  first.Signal(SIGTERM);
  EXPECT_EQ(first.Wait(), 0);
  EXPECT_EQ(TestClient("unix:" + path).Health(""), 1);
  third.Signal(SIGTERM);
  EXPECT_EQ(third.Wait(), 0);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(ProcessTest, ChecksAConfigurationAndPrintsWhatWouldRun) {
  Attnd good({"--check-config", Write("workers: 3\n"
                                      "encodings: [{name: slow, time_unit: 1d, "
                                      "biases: [{alibi: {}}]}]\n")});
  const std::string text = good.Output();
  EXPECT_EQ(good.Wait(), 0);
  EXPECT_THAT(text, AllOf(HasSubstr("# workers: 3"),
                          HasSubstr("# encoding slow: ALiBi; unit 1d"),
                          HasSubstr("\"queue_worker_seconds\": 2")));
  // What it prints is a configuration.
  Attnd again({"--check-config", Write(text)});
  EXPECT_EQ(again.Output(), text);
  EXPECT_EQ(again.Wait(), 0);
  Attnd bad({"--check-config", Write("wrokers: 3\n")});
  EXPECT_EQ(bad.Wait(), 2);
  EXPECT_THAT(bad.WholeLog(), HasSubstr(":1: wrokers: unknown key; did you "
                                        "mean workers?"));
}

TEST_F(ProcessTest, SaysItsVersion) {
  Attnd attnd({"--version"});
  EXPECT_THAT(attnd.Output(), MatchesRegex("attnd [0-9]+\\.[0-9]+\\.[0-9]+\n"));
  EXPECT_EQ(attnd.Wait(), 0);
  Attnd help({"--help"});
  EXPECT_THAT(help.Output(), HasSubstr("--check-config"));
  EXPECT_EQ(help.Wait(), 0);
}

// One exit code for everything that was typed wrongly, and the reason.
TEST_F(ProcessTest, WrongArgumentsAreNamedAndExitWith2) {
  const std::string config = Write(kSmall);
  struct Case {
    std::vector<std::string> arguments;
    const char* text;
  };
  for (const Case& c : std::vector<Case>{
           {{}, "expected --config FILE or --check-config FILE"},
           {{"--config", ""}, "--config: '', expected a file"},
           {{"--check-config", ""}, "--check-config: '', expected a file"},
           {{"--config"}, "--config"},
           {{"--config", config, "--check-config", config}, "--check-config"},
           {{"--confg", config}, "--confg"},
           {{"more", "words"}, "more"},
           {{"--pace", "2"}, "--pace"},
           {{"--config", config, "--pace", "nan"},
            "--pace: 'nan', expected a number from 1 to 1e6"},
           {{"--config", config, "--pace", "inf"}, "--pace: 'inf'"},
           {{"--config", config, "--pace", "-inf"}, "--pace: '-inf'"},
           {{"--config", config, "--pace", "0.5"}, "--pace: '0.5'"},
           {{"--config", config, "--pace", ""}, "--pace"}}) {
    Attnd attnd(c.arguments);
    EXPECT_EQ(attnd.Wait(), 2) << c.text;
    EXPECT_THAT(attnd.WholeLog(), HasSubstr(c.text));
  }
}

// Memory of megabytes is reused: no call pays for fresh pages.
TEST_F(ProcessTest, LargeRequestsCauseNoPageFaults) {
  Attnd attnd({"--config", Write(absl::StrCat(kSmall, "workers: 1\n"))});
  const std::string line = attnd.WaitForLine("listening");
  TestClient client(Field(line, "grpc"));
  const auto faults = [&] {
    const std::string text = Http(Field(line, "admin"), "GET /metrics");
    const size_t place = text.find("\nattnd_minor_faults_total ");
    return std::stod(text.substr(place + 26));
  };
  const v1::AttendRequest request = MakeRequest({.query_heads = 8,
                                                 .kv_heads = 8,
                                                 .queries = 512,
                                                 .keys = 512,
                                                 .dim = 64,
                                                 .value_dim = 64});
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(client.Attend(request).ok());
  const double before = faults();
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(client.Attend(request).ok());
  // 4 MiB in and out are 1024 pages a call.
  EXPECT_LT((faults() - before) / 30, 200);
}

}  // namespace
}  // namespace attnd::testing
