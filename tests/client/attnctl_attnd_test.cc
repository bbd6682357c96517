// attnctl and the library against the real server.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "client/files.h"
#include "client/load/workload.h"
#include "client/request.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "tests/client/attnctl_process.h"
#include "tests/client/attnd_process.h"

namespace attnd::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class AttnctlWithAttnd : public ::testing::Test {
 protected:
  Client Connect() const {
    return *Client::Create({.endpoints = {server_.target()}});
  }

  ProcessResult Run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--target", server_.target()});
    return RunAttnctl(arguments);
  }

  AttndProcess server_{"client/examples/attnd.yaml"};
};

// The main job: weeks hidden from the estimate, on real data, through the real
// service.
TEST_F(AttnctlWithAttnd, InterpolatesBetterThanStraightLines) {
  for (int seed = 1; seed <= 5; ++seed) {
    const ProcessResult result =
        Run({"interpolate", "client/examples/co2_weekly.csv", "--holdout",
             "40x13", "--seed", absl::StrCat(seed), "--unit-label", "ppm",
             "--out", "/dev/null"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    double attention = 0;
    double straight = 0;
    ASSERT_EQ(std::sscanf(LastLine(result.out).c_str(),
                          "held-out rmse: attention %lf ppm, straight line "
                          "%lf ppm",
                          &attention, &straight),
              2)
        << result.out;
    EXPECT_LE(attention, 0.6 * straight) << "seed " << seed;
    EXPECT_LE(attention, 0.45) << "seed " << seed;
  }
}

TEST_F(AttnctlWithAttnd, ListsTheExampleEncodings) {
  const ProcessResult result = Run({"encodings"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* name : {"nope", "rope", "alibi", "co2", "co2_level"}) {
    EXPECT_THAT(result.out, HasSubstr(absl::StrCat("\n", name, " ")));
  }
}

TEST_F(AttnctlWithAttnd, EveryExampleEncodingKeepsItsWordAndIsDrawn) {
  const std::string picture = FreshFolder() + "encoding.svg";
  for (const char* name : {"nope", "rope", "alibi", "co2", "co2_level"}) {
    const ProcessResult check = Run({"encodings", "check", name});
    EXPECT_EQ(check.exit_code, 0) << name << "\n" << check.out << check.err;
    const ProcessResult show =
        Run({"encodings", "show", name, "--svg", picture});
    EXPECT_EQ(show.exit_code, 0) << name << show.err;
    EXPECT_THAT(show.out, HasSubstr("relative")) << name;
    EXPECT_THAT(ReadFile(picture).value(), ::testing::EndsWith("</svg>\n"));
  }
}

// The server computes them exactly; so must what it is held against.
TEST(AttnctlCheck, FiguresOfAnySizeAreNoFalseAlarm) {
  std::string text =
      "listeners: [{address: '127.0.0.1:0'}]\n"
      "admin: {address: '127.0.0.1:0'}\nencodings:\n";
  std::vector<std::string> names;
  const auto add = [&](const std::string& parts) {
    names.push_back(absl::StrCat("e", names.size()));
    absl::StrAppend(&text, "  - {name: ", names.back(), ", time_unit: 1s, ",
                    parts, "}\n");
  };
  for (const char* size : {"1e12", "1e18", "1e22", "1e30", "1e300", "1e308"}) {
    add(absl::StrCat("blocks: [{rotation: {frequencies: [", size,
                     "], pair_layout: interleaved}}]"));
    add(absl::StrCat("blocks: [{component_decay: {rates: [", size,
                     "], width: 2}}]"));
    add(absl::StrCat("biases: [{alibi: {slopes: [", size, "]}}]"));
  }
  const std::string config = FreshFolder() + "attnd.yaml";
  ASSERT_TRUE(WriteFile(config, text).ok());
  const AttndProcess server(config);
  for (const std::string& name : names) {
    const ProcessResult check =
        RunAttnctl({"encodings", "check", name, "--dim", "8", "--heads", "2",
                    "--target", server.target()});
    EXPECT_EQ(check.exit_code, 0) << name << "\n" << check.out << check.err;
  }
}

// Credentials would not help: the advice is the server's.
TEST_F(AttnctlWithAttnd, InlineEncodingsThatAreNotAllowedSayWhatToDo) {
  v1::AttendRequest request;
  for (v1::Tensor* tensor : {request.mutable_query(), request.mutable_key(),
                             request.mutable_value()}) {
    *tensor = *MakeTensor(std::vector<float>{1, 2}, {1, 1, 1, 2});
  }
  request.mutable_inline_encoding();
  const std::string file = FreshFolder() + "inline.pb";
  ASSERT_TRUE(WriteFile(file, request.SerializeAsString()).ok());
  const ProcessResult result =
      Run({"attend", "--replay", file, "--out", FreshFolder() + "out"});
  EXPECT_EQ(result.exit_code, 1) << result.out;
  EXPECT_THAT(result.err, HasSubstr("PERMISSION_DENIED: inline_encoding: "));
  EXPECT_THAT(result.err, HasSubstr("name one of them in `encoding`"));
  EXPECT_THAT(result.err, Not(HasSubstr("--tls-cert")));
}

TEST_F(AttnctlWithAttnd, HealthFollowsTheServer) {
  EXPECT_EQ(Run({"health"}).exit_code, 0);
  EXPECT_EQ(Run({"health", "--service", "attnd.v1.AttentionScoring"}).exit_code,
            0);
  EXPECT_EQ(server_.Stop(), 0);
  EXPECT_EQ(Run({"health"}).exit_code, 2);
}

TEST_F(AttnctlWithAttnd, MeasuresIt) {
  const ProcessResult result =
      Run({"load", "-n", "4", "-c", "2", "-r", "200", "-w", "0s", "--heads",
           "1", "--queries", "8", "--dim", "16", "--encoding", "rope",
           "--causal", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err << result.out;
  google::protobuf::Struct json;
  ASSERT_TRUE(
      google::protobuf::util::JsonStringToMessage(result.out, &json).ok());
  EXPECT_EQ(json.fields().at("ok").number_value(), 200);
  EXPECT_EQ(json.fields().at("failed").number_value(), 0);
}

// Its answers are right by a computation that shares nothing with it, over both
// transports.
TEST_F(AttnctlWithAttnd, VerifiesItsAnswers) {
  for (const bool stream : {false, true}) {
    std::vector<std::string> arguments = {
        "load",
        "-r",
        "40",
        "-w",
        "0s",
        "--heads",
        "2",
        "--queries",
        "16",
        "--dim",
        "16",
        "--outputs",
        "output,lse,scores,weights,key_mass,entropy",
        "--mix",
        "encoding=rope causal=time past=9s",
        "--mix",
        "encoding=co2 times=days",
        "--mix",
        "encoding=alibi causal=time times=duplicates batch=2 ragged=0.5",
        "--verify",
        "1",
        "--save",
        FreshFolder() + "bad"};
    if (stream) arguments.push_back("--stream");
    const ProcessResult result = Run(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err << result.out;
    EXPECT_THAT(result.out, HasSubstr("verified     40 answers, 0 wrong"));
  }
}

TEST_F(AttnctlWithAttnd, LoadsOfTheLinearKindAreVerified) {
  const ProcessResult result =
      Run({"load",
           "-r",
           "30",
           "-w",
           "0s",
           "--heads",
           "2",
           "--kv-heads",
           "1",
           "--queries",
           "100",
           "--dim",
           "16",
           "--kind",
           "linear",
           "--mix",
           "encoding=rope times=duplicates",
           "--mix",
           "encoding=fading normaliser=sum feature-map=softplus",
           "--mix",
           "encoding=fading input-rule=zero_order_hold gap=10ms queries=30",
           "--verify",
           "1",
           "--save",
           FreshFolder() + "bad"});
  EXPECT_EQ(result.exit_code, 0) << result.err << result.out;
  EXPECT_THAT(result.out, HasSubstr("verified     30 answers, 0 wrong"));
}

// Case C18: 8 MiB of scores pass with everything at its default.
TEST_F(AttnctlWithAttnd, LargeAnswersPassByDefault) {
  v1::AttendRequest request = MakeRequests({.queries = 512,
                                            .keys = 512,
                                            .times = TimeKind::kNone,
                                            .distinct = 1})
                                  .value()[0];
  request.add_outputs(v1::OUTPUT_SCORES);
  const auto answer = Connect().Attend(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->scores().data().size(), 8u << 20);
}

// Case C15: times of today in three representations, 60 s apart.
TEST_F(AttnctlWithAttnd, EpochTimesKeepTheirDifferences) {
  const Client client = Connect();
  const auto mean = [&](v1::TimeAxis query_time, v1::TimeAxis key_time) {
    v1::AttendRequest request;
    *request.mutable_query() = *MakeTensor(std::vector<float>{0}, {1, 1, 1, 1});
    *request.mutable_key() =
        *MakeTensor(std::vector<float>{0, 0}, {1, 1, 2, 1});
    *request.mutable_value() =
        *MakeTensor(std::vector<float>{0, 1}, {1, 1, 2, 1});
    *request.mutable_query_time() = std::move(query_time);
    *request.mutable_key_time() = std::move(key_time);
    request.set_encoding("alibi");  // per minute; slope 2^-8 for one head
    request.mutable_mask()->set_causal(v1::CAUSALITY_TIME);
    const auto answer = client.Attend(request);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? ToFloats(answer->output()).value()[0] : -1.0f;
  };
  const double expected = 1 / (1 + std::exp(-1.0 / 256));
  for (int64_t t : {int64_t{0}, int64_t{1'700'000'000}}) {
    const std::vector<int64_t> seconds = {t, t + 60};
    const std::vector<int64_t> ns = {t * 1'000'000'000,
                                     (t + 60) * 1'000'000'000};
    const std::vector<double> floats = {static_cast<double>(t),
                                        static_cast<double>(t + 60)};
    const auto last = [](const auto& times) {
      return absl::MakeConstSpan(times).last(1);
    };
    EXPECT_NEAR(mean(*MakeTimeAxis(last(seconds), v1::TICK_UNIT_SECONDS),
                     *MakeTimeAxis(seconds, v1::TICK_UNIT_SECONDS)),
                expected, 1e-6);
    EXPECT_NEAR(mean(*MakeTimeAxis(last(ns), v1::TICK_UNIT_NANOSECONDS),
                     *MakeTimeAxis(ns, v1::TICK_UNIT_NANOSECONDS)),
                expected, 1e-6);
    EXPECT_NEAR(mean(*MakeTimeAxis(last(floats)), *MakeTimeAxis(floats)),
                expected, 1e-6);
  }
}

// Case C22: an unknown name is the caller's fault and is not tried again.
TEST_F(AttnctlWithAttnd, AnUnknownEncodingIsRefusedOnce) {
  v1::AttendRequest request =
      MakeRequests({.queries = 8, .keys = 8, .distinct = 1}).value()[0];
  request.set_encoding("ropee");
  CallReport report;
  const absl::Status status =
      Connect().Attend(request, {.report = &report}).status();
  EXPECT_TRUE(absl::IsNotFound(status) || absl::IsInvalidArgument(status))
      << status;
  EXPECT_LT(status.message().size(), 1024u);
  EXPECT_EQ(report.attempts, 1);
}

// By hand: exp(-0.5 per day), so the last value, 3.5 days later, is nearly
// alone.
TEST_F(AttnctlWithAttnd, TheExampleProgramSmooths) {
  const ProcessResult result = RunProcess(EXAMPLE_PATH, {server_.target()});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  double first, second, third, last;
  ASSERT_EQ(std::sscanf(result.out.c_str(), "%lf %lf %lf %lf", &first, &second,
                        &third, &last),
            4)
      << result.out;
  const double five = std::exp(-0.5 * 5 / 24);
  const double one = std::exp(-0.5 * 1 / 24);
  const double long_ago = std::exp(-0.5 * 84 / 24);
  EXPECT_NEAR(first, 1, 1e-5);
  EXPECT_NEAR(second, (2 + five) / (1 + five), 1e-5);
  const double older = 4 + one * (2 + five);
  const double weight = 1 + one * (1 + five);
  EXPECT_NEAR(third, older / weight, 1e-5);
  EXPECT_NEAR(last, (8 + long_ago * older) / (1 + long_ago * weight), 1e-5);
}

TEST_F(AttnctlWithAttnd, TheExampleProgramScoresAStreamInPieces) {
  const ProcessResult result =
      RunProcess(STREAM_PATH, {server_.target(), "300"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  double mean, expected, bytes;
  ASSERT_EQ(
      std::sscanf(result.out.c_str(), "%lf %lf %lf", &mean, &expected, &bytes),
      3)
      << result.out;
  EXPECT_NEAR(mean, expected, 2e-5);
  EXPECT_LT(bytes, 1000);
}

TEST(Demo, StartsServesPlotsAndStops) {
  const std::string folder = FreshFolder();
  const ProcessResult result = RunProcess(
      "/bin/sh",
      {"-c", absl::StrCat("demo=$PWD/client/examples/demo.sh && cd ", folder,
                          " && exec \"$demo\" ", BUILD_FOLDER)});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(LastLine(result.out),
              ::testing::MatchesRegex(
                  "held-out rmse: attention 0\\.[0-9]+ ppm, straight line "
                  "0\\.[0-9]+ ppm, plot build/demo/co2\\.svg"));
  EXPECT_TRUE(ReadFile(folder + "build/demo/co2.svg").ok());
}

}  // namespace
}  // namespace attnd::client
