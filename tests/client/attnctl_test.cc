// attnctl as users run it, against the stub.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "attnd/rpc/v1/error_details.pb.h"
#include "client/files.h"
#include "client/npy.h"
#include "tests/client/attnctl_process.h"
#include "tests/client/stub_attention.h"
#include "tests/client/stub_service.h"

namespace attnd::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kNobody[] = "127.0.0.1:1";

template <typename T>
std::string Bytes(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()),
                     values.size() * sizeof(T));
}

TEST(Attnctl, SaysItsVersionAndItsUse) {
  const ProcessResult version = RunAttnctl({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.out, StartsWith("attnctl "));
  const ProcessResult help = RunAttnctl({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* command :
       {"health", "encodings", "attend", "interpolate", "load", "compare"}) {
    EXPECT_THAT(help.out, HasSubstr(command));
    const ProcessResult manual = RunAttnctl({command, "--help"});
    EXPECT_EQ(manual.exit_code, 0);
    EXPECT_THAT(manual.out,
                AllOf(HasSubstr("Exit codes"), HasSubstr("Examples")));
    for (absl::string_view line : absl::StrSplit(manual.out, '\n')) {
      EXPECT_LE(line.size(), 81u) << line;
    }
  }
}

TEST(Attnctl, WrongArgumentsAreExitCode4) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{},
        {"bogus"},
        {"health", "--bogus"},
        {"health", "--timeout", "soon"},
        {"health", "--attempts", "0"},
        {"attend"},
        {"load", "-n", "0"},
        {"load", "-n", "2", "-c", "3"},
        {"load", "--rate", "5", "--ramp", "1:2"},
        {"load", "--rate", "5", "--slo", "p99"},
        {"load", "--find-max"},
        {"load", "--poisson"},
        {"load", "--steps", "5"},
        {"load", "--replay", "/nonexistent"},
        {"load", "--mix", "querys=3"},
        {"load", "--verify", "2"},
        {"load", "--protocol", "other"},
        {"compare", "/nonexistent", "/nonexistent"},
        {"interpolate", "/nonexistent.csv"},
        {"encodings", "show"},
        {"health", "--metadata", "nothing"},
        {"health", "--tls-ca", "/nonexistent.pem"}}) {
    const ProcessResult result = RunAttnctl(arguments);
    EXPECT_EQ(result.exit_code, 4) << absl::StrJoin(arguments, " ");
    EXPECT_NE(result.err, "");
    EXPECT_EQ(result.out, "");
  }
}

TEST(Attnctl, AValueThatNeedsAnEqualsSignIsExplained) {
  EXPECT_THAT(RunAttnctl({"load", "--json", "out.json"}).err,
              HasSubstr("--json=out.json is one word"));
  EXPECT_THAT(RunAttnctl({"load", "--causal", "index"}).err,
              HasSubstr("--causal=index is one word"));
}

// What is typed is never taken for an option left out, or for another number.
TEST(Attnctl, ValuesOutOfRangeAndOptionsThatExcludeEachOtherAreNamed) {
  const std::string folder = FreshFolder();
  ASSERT_TRUE(WriteFile(folder + "m", "0\n1\n").ok());
  struct Case {
    std::vector<std::string> arguments;
    const char* text;
  };
  for (const Case& c : std::vector<Case>{
           {{"--rate", "0"}, "--rate: '0', expected a number above 0"},
           {{"--rate", "-1"}, "--rate: '-1', expected a number above 0"},
           {{"--rate", "nan"}, "--rate: 'nan', expected a number above 0"},
           {{"--find-max", "--slo", "p99<1s", "--rate", "0"}, "--rate: '0'"},
           {{"--steps", ""}, "--steps"},
           {{"--ramp", ""}, "--ramp"},
           {{"--replay", ""}, "--replay"},
           {{"--slo", ""}, "--slo"},
           {{"--series", ""}, "--series"},
           {{"-n", "-1"},
            "--in-flight: '-1', expected a whole number, 1 to 100000"},
           {{"-n", "0"}, "--in-flight: '0'"},
           {{"-r", "0"},
            "--requests: '0', expected a whole number of at least 1"},
           {{"-r", "99999999999999999999"}, "expected a whole number"},
           {{"--keys", "0"},
            "--keys: '0', expected a whole number of at least 1"},
           {{"--kv-heads", "0"}, "--kv-heads: '0'"},
           {{"--value-dim", "0"}, "--value-dim: '0'"},
           {{"--past-keys", "-1"}, "--past-keys: '-1'"},
           {{"--mix", "keys=0"}, "--keys 0: expected at least 1"},
           {{"--steps", "10:1s", "-d", "5s"}, "--duration 5s"},
           {{"--replay", folder + "m", "-d", "100ms"}, "--duration 100ms"},
           {{"--series", "x", "--arrays", "y"}, "--arrays, --series"},
           {{"--time-unit", "s"}, "--time-unit, --missing: need --series"},
           {{"--seed", "99999999999999999999"}, "expected a whole number"},
           {{"--seed", "-1"}, "expected a whole number"}}) {
    std::vector<std::string> arguments = {"load", "--target", kNobody,
                                          "--timeout", "10ms"};
    arguments.insert(arguments.end(), c.arguments.begin(), c.arguments.end());
    const ProcessResult result = RunAttnctl(arguments);
    EXPECT_EQ(result.exit_code, 4) << absl::StrJoin(c.arguments, " ");
    EXPECT_THAT(result.err, HasSubstr(c.text))
        << absl::StrJoin(c.arguments, " ");
  }
}

// gRPC aborts the program at metadata that HTTP/2 cannot carry.
TEST(Attnctl, MetadataThatCannotTravelIsExitCode4) {
  const std::vector<std::vector<std::string>> commands = {
      {"health"},
      {"encodings"},
      {"attend", "--replay", "/dev/null", "--out", FreshFolder() + "out"},
      {"load", "-r", "1"}};
  for (const std::vector<std::string>& command : commands) {
    for (const char* metadata :
         {"a b=x", "k\xc3\xa9=x", "k=\xc3\xa9", "k=a\nb", "k=\x7f", ":path=abc",
          "grpc-timeout=1S", "k=a\tb", "=x", "content-type=x", "te=x", "host=x",
          "user-agent=x", "connection=x"}) {
      std::vector<std::string> arguments = command;
      arguments.insert(arguments.end(),
                       {"--target", kNobody, "--metadata", metadata});
      const ProcessResult result = RunAttnctl(arguments);
      EXPECT_EQ(result.exit_code, 4) << command[0] << " " << metadata;
      EXPECT_THAT(result.err, HasSubstr("--metadata")) << metadata;
    }
  }
  for (const std::vector<std::string>& tenant :
       {std::vector<std::string>{"--tenant", "\xc3\xa9"},
        {"--tenant", "a\nb"},
        {"--mix", "tenant=\xc3\xa9"}}) {
    std::vector<std::string> arguments = {"load", "-r", "1", "--target",
                                          kNobody};
    arguments.insert(arguments.end(), tenant.begin(), tenant.end());
    const ProcessResult result = RunAttnctl(arguments);
    EXPECT_EQ(result.exit_code, 4) << tenant[1];
    EXPECT_THAT(result.err,
                AllOf(HasSubstr("tenant"), HasSubstr("printable ASCII")));
  }
}

TEST(Attnctl, SendsMetadataAsTyped) {
  StubService stub;
  for (const char* metadata :
       {"Authorization=Bearer x=y ~", "x_1.a-b=", "key-bin=\x01\xff"}) {
    const ProcessResult result = RunAttnctl(
        {"health", "--target", stub.address(), "--metadata", metadata});
    EXPECT_EQ(result.exit_code, 0) << metadata << ": " << result.err;
  }
}

TEST(AttnctlHealth, ExitCodeIsTheState) {
  StubService stub;
  ProcessResult result = RunAttnctl({"health", "--target", stub.address()});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "SERVING\n");
  stub.SetServing(false);
  result = RunAttnctl({"health", "--target", stub.address()});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "NOT_SERVING\n");
  result =
      RunAttnctl({"health", "--target", stub.address(), "--service", "nobody"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "SERVICE_UNKNOWN\n");
  result = RunAttnctl({"health", "--target", kNobody});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("UNAVAILABLE"));
}

TEST(AttnctlHealth, WatchEndsWithTheLastState) {
  StubService stub;
  const ProcessResult result = RunAttnctl(
      {"health", "--watch", "--timeout", "1500ms", "--target", stub.address()});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "SERVING\n");
}

TEST(AttnctlEncodings, ListsAndShows) {
  StubService stub;
  ServeAttention(Co2Encodings(), &stub);
  ProcessResult result = RunAttnctl({"encodings", "--target", stub.address()});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("co2 "), HasSubstr("co2_level")));
  result = RunAttnctl({"encodings", "show", "co2", "--target", stub.address()});
  EXPECT_THAT(result.out, HasSubstr("rotation"));
  result = RunAttnctl(
      {"encodings", "show", "co2", "--json", "--target", stub.address()});
  EXPECT_THAT(result.out, HasSubstr("\"name\": \"co2\""));
  result =
      RunAttnctl({"encodings", "show", "ropee", "--target", stub.address()});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("NOT_FOUND"));
}

class AttnctlAttend : public ::testing::Test {
 protected:
  AttnctlAttend() {
    ServeAttention({{"plain", {}}}, &stub_);
    Write("q",
          {.type = NpyType::kF4, .shape = {1, 1}, .data = Bytes<float>({0})});
    Write("k", {.type = NpyType::kF4,
                .shape = {4, 1},
                .data = Bytes<float>({0, 0, 0, 0})});
    Write("v", {.type = NpyType::kF4,
                .shape = {4, 1},
                .data = Bytes<float>({1, 2, 4, 8})});
    Write("tq",
          {.type = NpyType::kI8, .shape = {1}, .data = Bytes<int64_t>({30})});
    Write("tk", {.type = NpyType::kI8,
                 .shape = {4},
                 .data = Bytes<int64_t>({10, 20, 30, 40})});
  }

  void Write(const std::string& name, const NpyArray& array) {
    EXPECT_TRUE(WriteNpy(absl::StrCat(folder_, name, ".npy"), array).ok());
  }

  ProcessResult Run(std::vector<std::string> more) {
    std::vector<std::string> arguments = {"attend",
                                          "--target",
                                          stub_.address(),
                                          "--query",
                                          folder_ + "q.npy",
                                          "--key",
                                          folder_ + "k.npy",
                                          "--value",
                                          folder_ + "v.npy",
                                          "--out",
                                          prefix_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunAttnctl(arguments);
  }

  StubService stub_;
  std::string folder_ = FreshFolder();
  std::string prefix_ = folder_ + "result";
};

// Case C03: the mean of the keys at or before t = 30.
TEST_F(AttnctlAttend, ComputesTheCausalMean) {
  const ProcessResult result =
      Run({"--query-time", folder_ + "tq.npy", "--key-time", folder_ + "tk.npy",
           "--unit", "s", "--encoding", "plain", "--causal", "--outputs",
           "output,lse", "--scale", "1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("result.output.npy  float32 [1,1,1,1]"));
  const auto output = ReadNpy(folder_ + "result.output.npy");
  ASSERT_TRUE(output.ok()) << output.status();
  float mean;
  std::memcpy(&mean, output->data.data(), 4);
  EXPECT_NEAR(mean, 7.0 / 3, 1e-6);
  EXPECT_TRUE(ReadNpy(folder_ + "result.lse.npy").ok());
}

TEST_F(AttnctlAttend, PrintsStatisticsAsJson) {
  stub_.on_attend = [](int, const v1::AttendRequest& request,
                       v1::AttendResponse* response) {
    EXPECT_EQ(request.mask().past_ticks(), 7 * 86400);
    EXPECT_TRUE(request.mask().strict());
    EXPECT_EQ(request.mask().causal(), v1::CAUSALITY_INDEX);
    response->mutable_stats()->set_flops(123);
    return grpc::Status::OK;
  };
  const ProcessResult result = Run(
      {"--query-time", folder_ + "tq.npy", "--key-time", folder_ + "tk.npy",
       "--unit", "s", "--causal=index", "--strict", "--past", "7d", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\"flops\": \"123\""));
}

TEST_F(AttnctlAttend, NamesTheUnitThatIsMissing) {
  const ProcessResult result = Run(
      {"--query-time", folder_ + "tq.npy", "--key-time", folder_ + "tk.npy"});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err, HasSubstr("--unit"));
}

TEST_F(AttnctlAttend, PrintsEveryViolatedField) {
  stub_.on_attend = [](int, const v1::AttendRequest&, v1::AttendResponse*) {
    rpc::v1::BadRequest bad;
    for (const char* field : {"key.shape", "value.dtype"}) {
      auto* violation = bad.add_field_violations();
      violation->set_field(field);
      violation->set_description("expected something else");
    }
    return Refusal(grpc::StatusCode::INVALID_ARGUMENT, "2 fields",
                   {DetailOf("BadRequest", bad)});
  };
  const ProcessResult result = Run({});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("INVALID_ARGUMENT: 2 fields"),
                    HasSubstr("key.shape: expected something else"),
                    HasSubstr("value.dtype: expected something else")));
}

TEST_F(AttnctlAttend, AnOutputThatCannotBeWrittenIsExitCode5) {
  const std::string gone = folder_ + "gone";
  std::filesystem::create_directory(gone);
  stub_.on_attend = [&](int, const v1::AttendRequest& request,
                        v1::AttendResponse* response) {
    std::filesystem::remove(gone);
    return StubAttend({{"plain", {}}}, request, response);
  };
  prefix_ = gone + "/result";
  const ProcessResult result =
      Run({"--query-time", folder_ + "tq.npy", "--key-time", folder_ + "tk.npy",
           "--unit", "s", "--encoding", "plain"});
  EXPECT_EQ(result.exit_code, 5) << result.out << result.err;
}

TEST_F(AttnctlAttend, FilesThatStandInEachOthersWayAreRefused) {
  const std::string query = folder_ + "in.output.npy";
  std::filesystem::copy(folder_ + "q.npy", query);
  struct Case {
    std::vector<std::string> arguments;
    const char* text;
  };
  for (const Case& c : std::vector<Case>{
           {{"attend", "--query", query, "--key", query, "--value", query,
             "--out", folder_ + "./in"},
            "is what --query reads"},
           {{"attend", "--query", query, "--key", query, "--value", query,
             "--out", folder_ + "none/r"},
            "there is no folder"},
           {{"encodings", "show", "plain", "--svg", folder_ + "none/r.svg"},
            "there is no folder"},
           {{"interpolate", query, "--out", query}, "is what csv reads"},
           {{"interpolate", query, "--out", folder_ + "r", "--plot",
             folder_ + "./r"},
            "is where --out goes"}}) {
    std::vector<std::string> arguments = c.arguments;
    arguments.insert(arguments.end(), {"--target", stub_.address()});
    const ProcessResult result = RunAttnctl(arguments);
    EXPECT_EQ(result.exit_code, 4) << absl::StrJoin(arguments, " ");
    EXPECT_THAT(result.err, HasSubstr(c.text));
  }
  EXPECT_TRUE(stub_.arrivals().empty());
}

}  // namespace
}  // namespace attnd::client
