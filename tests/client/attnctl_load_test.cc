// attnctl load, compare and attend --replay as programs: exit codes and files.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/notification.h"
#include "client/files.h"
#include "tests/client/attnctl_process.h"
#include "tests/client/stub_attention.h"
#include "tests/client/stub_service.h"

namespace attnd::client {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Lt;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

class AttnctlLoad : public ::testing::Test {
 protected:
  // 20 small calls without a warm-up; this client may be as late as it likes.
  ProcessResult Load(std::vector<std::string> arguments) {
    const std::vector<std::string> small = {
        "load",      "--target",  stub_.address(),
        "-r",        "20",        "-w",
        "0s",        "--heads",   "1",
        "--queries", "4",         "--dim",
        "4",         "--max-lag", "60s"};
    arguments.insert(arguments.begin(), small.begin(), small.end());
    return RunAttnctl(arguments);
  }

  // What a terminal of so many columns shows, line by line as it is written
  // over: a run of about two seconds in which every fourth call fails.
  std::vector<std::string> LinesOnTerminal(int columns) {
    stub_.on_attend = [](int number, const v1::AttendRequest&,
                         v1::AttendResponse*) {
      return number % 4 == 3 ? grpc::Status(grpc::StatusCode::ABORTED, "no")
                             : grpc::Status::OK;
    };
    const ProcessResult result = RunAttnctlOnTerminal(
        {"load", "--target", stub_.address(), "--rate", "50", "-r", "100", "-w",
         "100ms", "--heads", "1", "--queries", "4", "--dim", "4", "--max-lag",
         "60s"},
        columns);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, Not(HasSubstr("\x1b")));
    return absl::StrSplit(result.err, "\r\x1b[2K");
  }

  const std::string folder_ = FreshFolder();
  StubService stub_;
};

TEST_F(AttnctlLoad, ATerminalShowsHowItGoes) {
  const std::vector<std::string> lines = LinesOnTerminal(120);
  EXPECT_THAT(lines, Contains(HasSubstr("connecting to " + stub_.address())));
  EXPECT_THAT(lines,
              Contains(ContainsRegex("^warm-up, 1s left  . in flight$")));
  EXPECT_THAT(lines, Contains(ContainsRegex(
                         "^[0-9.]+/s  [0-9]+ in flight  p50 [^ ]+  "
                         "p99 [^ ]+  ABORTED [0-9]+  [0-9]s left$")));
  // Only the start of the first and the whole of the last are empty.
  EXPECT_EQ(lines.front(), "");
  EXPECT_EQ(lines.back(), "");
}

TEST_F(AttnctlLoad, ANarrowTerminalShowsWhatFits) {
  const std::vector<std::string> lines = LinesOnTerminal(40);
  EXPECT_THAT(lines, Each(SizeIs(Lt(40u))));
  EXPECT_THAT(lines, Contains(ContainsRegex("^[0-9.]+/s  .*ABORTED [0-9]+")));
  EXPECT_EQ(lines.back(), "");
}

TEST_F(AttnctlLoad, QuietShowsNothingOnATerminal) {
  const ProcessResult result = RunAttnctlOnTerminal(
      {"load", "--target", stub_.address(), "-r", "3", "-w", "0s", "-q"}, 80);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
}

TEST_F(AttnctlLoad, AMetLevelIsExitCode0) {
  const ProcessResult result =
      Load({"--rate", "200", "--slo", "p99<60s,rate>0.1"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("met          p99<60s"),
                                HasSubstr("20 planned, 20 OK")));
  // No live line where there is no terminal.
  EXPECT_EQ(result.err, "");
}

TEST_F(AttnctlLoad, AMissedLevelIsExitCode1) {
  stub_.delay = absl::Milliseconds(20);
  const ProcessResult result = Load({"--slo", "p50<10ms"});
  EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("MISSED       p50<10ms"));
}

TEST_F(AttnctlLoad, WrongAnswersAreExitCode2AndCanBeReplayed) {
  const ProcessResult result =
      Load({"--verify", "1", "--distinct", "1", "--save", folder_ + "bad"});
  EXPECT_EQ(result.exit_code, 2) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("verified     20 answers, 20 wrong"));
  const size_t before = stub_.arrivals().size();
  const ProcessResult replay =
      RunAttnctl({"attend", "--target", stub_.address(), "--replay",
                  folder_ + "bad-1.pb", "--out", folder_ + "again"});
  EXPECT_EQ(replay.exit_code, 0) << replay.err;
  EXPECT_EQ(stub_.arrivals().size(), before + 1);
  EXPECT_EQ(RunAttnctl({"attend", "--replay", folder_ + "bad-1.pb", "--query",
                        "q.npy", "--out", folder_ + "again"})
                .exit_code,
            4);
}

TEST_F(AttnctlLoad, AnInvalidRunIsExitCode3) {
  stub_.on_attend = [](int, const v1::AttendRequest&, v1::AttendResponse*) {
    return grpc::Status(grpc::StatusCode::INTERNAL, "broken");
  };
  const ProcessResult result = Load({});
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_THAT(result.out, HasSubstr("INVALID      none of 20 calls succeeded"));
  EXPECT_EQ(RunAttnctl({"load", "--target", "127.0.0.1:1", "--timeout", "50ms"})
                .exit_code,
            3);
}

// Scripts and logs have no live line, but must not wait in silence.
TEST_F(AttnctlLoad, AWaitForTheServerIsTold) {
  const ProcessResult result = RunAttnctl(
      {"load", "--target", "127.0.0.1:1", "--timeout", "2500ms", "-q"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err,
              ContainsRegex("^attnctl: waiting for 127.0.0.1:1, at most 2.5s "
                            ".--timeout.: .*Connection refused\n"
                            "attnctl: UNAVAILABLE: connection 1 of 1 to "
                            "127.0.0.1:1 was not ready within 2.5s: .*"
                            "Connection refused\n"));
}

TEST_F(AttnctlLoad, WritesEveryFormAndComparesThem) {
  for (const char* name : {"a", "b"}) {
    const ProcessResult result =
        Load({"--rate", "100", absl::StrCat("--json=", folder_, name, ".json"),
              "--csv", folder_ + "r.csv", "--hdr", folder_ + "r.hlog", "--hgrm",
              folder_ + "r.hgrm", "--junit", folder_ + "r.xml", "--html",
              folder_ + "r.html"});
    ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr("throughput"));
  }
  const std::pair<const char*, const char*> files[] = {
      {"r.csv", "seconds,"},
      {"r.hlog", "#[Histogram log format version 1.3]"},
      {"r.hgrm", "       Value"},
      {"r.xml", "<?xml"},
      {"r.html", "<!DOCTYPE html>"}};
  for (const auto& [name, begin] : files) {
    EXPECT_THAT(ReadFile(folder_ + name).value_or(""), StartsWith(begin));
  }
  const ProcessResult compared =
      RunAttnctl({"compare", folder_ + "a.json", folder_ + "b.json"});
  EXPECT_EQ(compared.exit_code, 0) << compared.err;
  for (const char* figure : {"answers/s", "mean", "p50", "p90", "p99"}) {
    EXPECT_THAT(compared.out, HasSubstr(figure));
  }
}

// Found out before anything is sent, not after a long run.
TEST_F(AttnctlLoad, AResultThatCouldNotBeWrittenIsRefusedBeforeTheRun) {
  const std::string none = folder_ + "none/r";
  for (const char* option : {"--json=", "--csv=", "--hdr=", "--hgrm=",
                             "--junit=", "--html=", "--verify=1 --save="}) {
    const ProcessResult result =
        Load(absl::StrSplit(absl::StrCat(option, none), ' '));
    EXPECT_EQ(result.exit_code, 4) << option;
    EXPECT_THAT(result.err, HasSubstr("there is no folder"));
    EXPECT_EQ(result.out, "");
  }
  ASSERT_TRUE(WriteFile(folder_ + "moments", "0\n1\n").ok());
  const ProcessResult twice = RunAttnctl(
      {"load", "--target", stub_.address(), "--replay", folder_ + "moments",
       absl::StrCat("--json=", folder_, "./moments")});
  EXPECT_EQ(twice.exit_code, 4);
  EXPECT_THAT(twice.err, HasSubstr("is what --replay reads"));
  EXPECT_THAT(stub_.arrivals(), SizeIs(0u));
}

// A server that is gone before its answers are checked takes no report with it.
TEST_F(AttnctlLoad, AnswersThatCannotBeCheckedAreReportedAndAreExitCode2) {
  stub_.on_list = [](const v1::ListEncodingsRequest&,
                     v1::ListEncodingsResponse*) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone");
  };
  const ProcessResult result =
      Load({"--verify", "1", "--encoding", "rope", "--save", folder_ + "open",
            absl::StrCat("--json=", folder_, "r.json"), "--html",
            folder_ + "r.html", "--junit", folder_ + "r.xml"});
  EXPECT_EQ(result.exit_code, 2) << result.out << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("throughput"), HasSubstr("0 answers, 0 wrong"),
                    HasSubstr("20 more not verifiable"),
                    HasSubstr("UNVERIFIED   UNAVAILABLE: gone; attnctl "
                              "attend --replay " +
                              folder_ + "open-1.pb sends it again")));
  EXPECT_THAT(ReadFile(folder_ + "r.json").value_or(""),
              HasSubstr("\"unverifiable\": 20"));
  EXPECT_THAT(ReadFile(folder_ + "r.html").value_or(""),
              HasSubstr("Answers could not be verified"));
  EXPECT_THAT(ReadFile(folder_ + "r.xml").value_or(""),
              HasSubstr("0 of 0 wrong, 20 not verifiable"));
}

// A list is read as a promise that each of its servers is measured.
TEST_F(AttnctlLoad, EveryEndpointOfAListHasARow) {
  StubService idle;
  idle.SetServing(false);
  const std::string target =
      absl::StrCat(stub_.address(), ",127.0.0.1:1,", idle.address());
  const ProcessResult result =
      RunAttnctl({"load", "--target", target, "-r", "20", "-w", "0s",
                  "--max-lag", "60s", "--heads", "1", "--queries", "4", "--dim",
                  "4", absl::StrCat("--json=", folder_, "r.json"), "--html",
                  folder_ + "r.html"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(
      result.out,
      AllOf(ContainsRegex("by endpoint +" + stub_.address() + ": 20 OK"),
            ContainsRegex("by endpoint +127.0.0.1:1: never connected: "
                          "UNAVAILABLE: .*Connection refused"),
            ContainsRegex("by endpoint +" + idle.address() +
                          ": no call came to it: it does not serve")));
  EXPECT_THAT(ReadFile(folder_ + "r.json").value_or(""),
              AllOf(HasSubstr("\"note\": \"never connected: UNAVAILABLE"),
                    HasSubstr("\"name\": \"127.0.0.1:1\"")));
  EXPECT_THAT(ReadFile(folder_ + "r.html").value_or(""),
              ContainsRegex("<td>127.0.0.1:1</td>.*never connected"));
}

// One file that fails at the end, a full disk, takes no other with it.
TEST_F(AttnctlLoad, ResultsThatCanBeWrittenAre) {
  const ProcessResult result =
      Load({"--json=/dev/full", "--csv", "/dev/full", "--html",
            folder_ + "r.html", "--hgrm", folder_ + "r.hgrm"});
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.out, HasSubstr("throughput"));
  EXPECT_THAT(result.err, HasSubstr("/dev/full: No space left on device"));
  for (const char* name : {"r.html", "r.hgrm"}) {
    EXPECT_TRUE(ReadFile(folder_ + name).ok()) << name;
  }
}

TEST_F(AttnctlLoad, AFormOnStandardOutputHasItToItself) {
  const std::pair<const char*, const char*> forms[] = {
      {"--json=-", "{"},      {"--csv=-", "seconds,"},
      {"--junit=-", "<?xml"}, {"--html=-", "<!DOCTYPE html>"},
      {"--hgrm=-", " "},      {"--hdr=-", "#"}};
  for (const auto& [form, start] : forms) {
    const ProcessResult result = Load({form});
    EXPECT_EQ(result.exit_code, 0) << form;
    EXPECT_THAT(result.out, StartsWith(start)) << form;
    EXPECT_THAT(result.out, Not(HasSubstr("throughput "))) << form;
    EXPECT_THAT(result.err, HasSubstr("throughput")) << form;
  }
}

// A full disk takes no result; a run whose result nobody has is not done.
TEST_F(AttnctlLoad, AResultThatStandardOutputDoesNotTakeIsExitCode5) {
  ServeAttention(Co2Encodings(), &stub_);
  stub_.on_attend = nullptr;  // OK whatever the encoding
  const std::string json = folder_ + "run.json";
  ASSERT_EQ(Load({absl::StrCat("--json=", json)}).exit_code, 0);
  const std::vector<std::vector<std::string>> commands = {
      {"--help"},
      {"--version"},
      {"load", "-r", "3", "-w", "0s", "--max-lag", "60s", "--json"},
      {"load", "-r", "3", "-w", "0s", "--max-lag", "60s"},
      {"health"},
      {"health", "--watch", "--timeout", "200ms"},
      {"encodings"},
      {"encodings", "--json"},
      {"encodings", "show", "co2"},
      {"encodings", "show", "co2", "--svg", "-"},
      {"compare", json, json}};
  for (std::vector<std::string> command : commands) {
    if (command[0] != "compare" && command[0][0] != '-') {
      command.insert(command.end(), {"--target", stub_.address()});
    }
    const ProcessResult result = RunAttnctlInto("/dev/full", command);
    EXPECT_EQ(result.exit_code, 5) << absl::StrJoin(command, " ");
    // Lines that are flushed one by one fail before the reason is asked for.
    EXPECT_THAT(result.err,
                AnyOf(HasSubstr("No space left on device"),
                      HasSubstr("standard output: cannot be written")))
        << absl::StrJoin(command, " ");
  }
}

// Its number must not become that of a connection, which would get the report.
TEST_F(AttnctlLoad, AClosedStandardOutputTakesNothing) {
  const ProcessResult result =
      RunAttnctlInto("", {"load", "--target", stub_.address(), "-r", "3", "-w",
                          "0s", "--max-lag", "60s"});
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.err, HasSubstr("standard output: Bad file descriptor"));
}

// attnctl load --html r.html | head -1
TEST_F(AttnctlLoad, AReaderThatIsGoneLeavesTheOtherResults) {
  const std::string pipe = folder_ + "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  absl::Notification gone;
  stub_.on_attend = [&](int, const v1::AttendRequest&, v1::AttendResponse*) {
    gone.WaitForNotification();
    return grpc::Status::OK;
  };
  std::thread reader([&] {
    close(open(pipe.c_str(), O_RDONLY));
    gone.Notify();
  });
  const ProcessResult result = RunAttnctlInto(
      pipe, {"load", "--target", stub_.address(), "-r", "3", "-w", "0s",
             "--max-lag", "60s", "--html", folder_ + "r.html"});
  reader.join();
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.err, HasSubstr("standard output: "));
  EXPECT_THAT(ReadFile(folder_ + "r.html").value_or(""),
              StartsWith("<!DOCTYPE html>"));
}

// What was found wrong is told even where its request cannot be kept.
TEST_F(AttnctlLoad, WrongAnswersThatCannotBeSavedAreStillReported) {
  const std::string gone = folder_ + "gone";
  std::filesystem::create_directory(gone);
  stub_.on_attend = [&](int, const v1::AttendRequest&, v1::AttendResponse*) {
    std::filesystem::remove(gone);
    return grpc::Status::OK;
  };
  const ProcessResult result =
      Load({"--verify", "1", "--distinct", "1", "--save", gone + "/bad"});
  EXPECT_EQ(result.exit_code, 2) << result.out << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("throughput"),
                                HasSubstr("verified     20 answers, 20 wrong"),
                                ContainsRegex("WRONG .*could not be saved: .*"
                                              "No such file")));
}

TEST_F(AttnctlLoad, AnInterruptedRunIsReportedAndIsExitCode3) {
  for (int signal : {SIGINT, SIGTERM}) {
    absl::Notification sent;
    std::atomic<bool> first = true;
    stub_.on_attend = [&](int, const v1::AttendRequest&, v1::AttendResponse*) {
      if (first.exchange(false)) sent.Notify();
      return grpc::Status::OK;
    };
    StartedAttnctl run({"load",
                        "--target",
                        stub_.address(),
                        "--rate",
                        "50",
                        "-d",
                        "1h",
                        "-w",
                        "0s",
                        "--heads",
                        "1",
                        "--queries",
                        "4",
                        "--dim",
                        "4",
                        "--max-lag",
                        "60s",
                        "--slo",
                        "p99<60s",
                        absl::StrCat("--json=", folder_, "i.json")});
    sent.WaitForNotification();
    run.Send(signal);
    const ProcessResult result = run.Wait();
    EXPECT_EQ(result.exit_code, 3) << result.out << result.err;
    EXPECT_THAT(result.out, AllOf(HasSubstr("throughput"),
                                  HasSubstr("INVALID      interrupted")));
    EXPECT_THAT(ReadFile(folder_ + "i.json").value_or(""),
                HasSubstr("\"valid\": false"));
  }
}

TEST_F(AttnctlLoad, SendsTenantAndPriorityOfTheMix) {
  std::vector<int> priorities;
  std::mutex mutex;
  stub_.on_attend = [&](int, const v1::AttendRequest& request,
                        v1::AttendResponse*) {
    std::lock_guard<std::mutex> lock(mutex);
    priorities.push_back(request.priority());
    return grpc::Status::OK;
  };
  const ProcessResult result =
      Load({"--mix", "tenant=a priority=1", "--mix", "tenant=b priority=-1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::vector<Arrival> arrivals = stub_.arrivals();
  ASSERT_EQ(arrivals.size(), 20u);
  int first = 0;
  for (size_t i = 0; i < arrivals.size(); ++i) {
    EXPECT_EQ(priorities[i], arrivals[i].tenant == "a" ? 1 : -1);
    first += arrivals[i].tenant == "a";
  }
  EXPECT_GT(first, 0);
  EXPECT_LT(first, 20);
}

}  // namespace
}  // namespace attnd::client
