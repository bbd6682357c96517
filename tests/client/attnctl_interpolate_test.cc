// attnctl interpolate as users run it, against the stub.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/files.h"
#include "tests/client/attnctl_process.h"
#include "tests/client/stub_attention.h"
#include "tests/client/stub_service.h"

namespace attnd::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kSeries[] = "client/examples/co2_weekly.csv";

class AttnctlInterpolate : public ::testing::Test {
 protected:
  AttnctlInterpolate() { ServeAttention(Co2Encodings(), &stub_); }

  ProcessResult Run(const std::string& csv, std::vector<std::string> more) {
    std::vector<std::string> arguments = {"interpolate", csv, "--target",
                                          stub_.address()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunAttnctl(arguments);
  }

  std::string Write(const std::string& name, const std::string& content) {
    EXPECT_TRUE(WriteFile(folder_ + name, content).ok());
    return folder_ + name;
  }

  StubService stub_;
  std::string folder_ = FreshFolder();
};

TEST_F(AttnctlInterpolate, BeatsStraightLinesWhereWeeksWereHidden) {
  const std::string plot = folder_ + "co2.svg";
  const ProcessResult result = Run(
      kSeries, {"--holdout", "40x13", "--seed", "1", "--unit-label", "ppm",
                "--at", "7d", "--out", folder_ + "co2.csv", "--plot", plot});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  double attention = 0;
  double straight = 0;
  ASSERT_EQ(std::sscanf(LastLine(result.out).c_str(),
                        "held-out rmse: attention %lf ppm, straight line %lf "
                        "ppm, plot ",
                        &attention, &straight),
            2)
      << result.out;
  EXPECT_LE(attention, 0.6 * straight);
  EXPECT_THAT(result.out, HasSubstr(absl::StrCat(", plot ", plot, "\n")));
  const std::string svg = ReadFile(plot).value();
  EXPECT_THAT(svg,
              AllOf(StartsWith("<svg "), HasSubstr("1960"), HasSubstr("ppm"),
                    Not(HasSubstr("href")), Not(HasSubstr("nan"))));
  const std::string csv = ReadFile(folder_ + "co2.csv").value();
  EXPECT_THAT(csv, StartsWith("time,estimate,observed,state\n1958-03-29,"));
}

TEST_F(AttnctlInterpolate, FillsMissingValues) {
  // A straight line, which a trend of degree 1 knows.
  const std::string csv = Write(
      "a.csv",
      "when,what\n2000-01-04,4\n2000-01-01,1\n2000-01-03,NA\n2000-01-02,2\n");
  const ProcessResult result = Run(csv, {"--at", "missing", "--trend", "1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out,
            "when,estimate,observed,state\n2000-01-03,3,,missing\n");
  EXPECT_THAT(result.err, HasSubstr("3 observations used"));
}

TEST_F(AttnctlInterpolate, TakesTimesFromAFileAndCounts) {
  const std::string csv = Write("a.csv", "0,1\n10,2\n20,3\n");
  const std::string at = Write("at.txt", "# two\n5\n20\n");
  const ProcessResult result =
      Run(csv, {"--no-header", "--time-unit", "s", "--at", at, "--trend", "1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out,
            "time,estimate,observed,state\n5,1.5,,\n20,3,3,observed\n");
}

TEST_F(AttnctlInterpolate, CausalLeavesTimesWithoutAPastEmpty) {
  const std::string csv = Write("a.csv", "t,v\n2000-01-02,5\n2000-01-03,7\n");
  const std::string at = Write("at.txt", "2000-01-01\n2000-01-02\n");
  const ProcessResult result = Run(csv, {"--causal", "--trend", "none", "--at",
                                         at, "--encoding", "co2_level"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out,
            "t,estimate,observed,state\n2000-01-01,,,\n"
            "2000-01-02,5,5,observed\n");
}

TEST_F(AttnctlInterpolate, WritesAPageWithThePlot) {
  const ProcessResult result =
      Run(kSeries, {"--at", "30d", "--out", "/dev/null", "--plot",
                    folder_ + "a.html", "--title", "A <title>"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(ReadFile(folder_ + "a.html").value(),
              AllOf(StartsWith("<!DOCTYPE html>"), HasSubstr("A &lt;title&gt;"),
                    HasSubstr("</svg>")));
}

TEST_F(AttnctlInterpolate, ErrorsSayWhatToDo) {
  const std::string csv = Write("a.csv", "t,v\n2000-01-01,1\n2000-01-02,x\n");
  ProcessResult result = Run(csv, {});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err, HasSubstr("a.csv: line 3: value 'x'"));
  result = Run(kSeries, {"--encoding", "ropee"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("attnctl encodings"));
  result = Run(kSeries, {"--plane-weights", "8,4,2"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("2 planes, but 3 weights"));
  result = Run(kSeries, {"--at", "missing"});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err, HasSubstr("regular grid"));
  result = Run(kSeries, {"--holdout", "400x13"});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err, HasSubstr("does not fit"));
  const std::string two = Write("b.csv", "t,v\n2000-01-01,1\n2000-01-02,2\n");
  result = Run(two, {});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err, HasSubstr("lower degree"));
}

}  // namespace
}  // namespace attnd::client
