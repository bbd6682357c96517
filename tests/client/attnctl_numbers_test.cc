// Every number that attnctl takes: what is outside its range is refused before
// anything is sent, with the option, what came and what was expected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "client/files.h"
#include "client/npy.h"
#include "tests/client/attnctl_process.h"

namespace attnd::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Words = std::vector<std::string>;

// What no number is, the last an unset variable of a script.
const Words kNoNumber = {"x", "nan", ""};
const Words kNoCount = {"1.5", "99999999999999999999", ""};

struct Number {
  std::string option;
  // Beside those of its kind.
  Words wrong;
  // At the ends of the range.
  Words right;
  std::string expected;
  bool real = false;
};

Number Count(const std::string& option, const std::string& expected,
             const Words& wrong, const Words& right) {
  return {option, wrong, right, expected};
}
Number Real(const std::string& option, const std::string& expected,
            const Words& wrong, const Words& right) {
  return {option, wrong, right, expected, true};
}
// `with_zero`: from 0.
Number Time(const std::string& option, bool with_zero) {
  Number number = {
      option, {"-1s", "5", "1000000w", "1e3s"}, {"1ns"}, "expected", true};
  (with_zero ? number.right : number.wrong).push_back("0s");
  return number;
}

std::vector<Number> TargetNumbers() {
  const std::string expected = "a whole number, 1 to 2147483647";
  return {Count("--attempts", expected, {"0", "-1", "2147483648"},
                {"1", "2147483647"}),
          Count("--message-bytes", expected, {"0", "-1", "2147483648"},
                {"1", "2147483647"}),
          Time("--timeout", false)};
}

std::vector<Number> EncodingsNumbers() {
  const std::string size = "a whole number, 1 to 2147483647";
  std::vector<Number> numbers = {
      Count("--head", "a whole number, 0 to 2147483647",
            {"-1", "0,-1", "2147483648"}, {"0", "0,5"}),
      Real("--span", "a finite number above 0", {"0", "-1", "inf", "1e999"},
           {"0.5"})};
  for (const char* option : {"--dim", "--heads", "--kv-heads", "--length"}) {
    numbers.push_back(
        Count(option, size, {"0", "-1", "2147483648"}, {"1", "2147483647"}));
  }
  return numbers;
}

std::vector<Number> AttendNumbers() {
  std::vector<Number> numbers = {
      Count("--top-k", "a whole number, 1 to 2147483647",
            {"0", "-1", "2147483648"}, {"1"}),
      Real("--scale", "a number of at least -3.4", {"inf", "1e39"}, {"0"}),
      Real("--softcap", "a number of at least 1.1", {"0", "-1", "inf"}, {"50"}),
      Real("--sinks", "a number at most 3.4", {"inf", "0,inf", "1e39"},
           {"-inf", "0"}),
      Real("--past", "expected a", {"-1", "-1s", "1.5"}, {"0", "7d"}),
      Real("--future", "expected a", {"-1", "-1s", "1.5"}, {"0", "7d"}),
      Real("--key-range", "expected BEGIN:END",
           {"1", "2:1", "1:x", "1:2:3", "1.5:2"}, {"-1:1", "1:1"})};
  for (const char* option :
       {"--past-keys", "--future-keys", "--prefix", "--query-lengths",
        "--key-lengths", "--query-offsets", "--key-offsets"}) {
    numbers.push_back(
        Count(option, "a whole number of at least 0", {"-1"}, {"0"}));
  }
  return numbers;
}

std::vector<Number> InterpolateNumbers() {
  return {Count("--seed", "a whole number, 0 to 18446744073709551615",
                {"-1", "18446744073709551616"}, {"0", "18446744073709551615"}),
          Count("--trend", "expected a degree, 0 to 12, or none", {"-1", "13"},
                {"0", "12", "none"}),
          Real("--plane-weights", "expected numbers of at least 0",
               {"-1", "8,-1", "inf"}, {"0", "default"}),
          Count("--holdout", "of at least 1 each",
                {"0x5", "5x0", "-1x5", "5", "5x5x5"}, {"1x1"}),
          Real("--at", "expected", {"0d", "-1d", "1ns"}, {"7d"})};
}

std::vector<Number> LoadNumbers() {
  const std::string places = "a whole number, 1 to 100000";
  std::vector<Number> numbers = {
      Count("--in-flight", places, {"0", "-1", "100001"}, {"1"}),
      Count("--connections", places, {"0", "-1", "100001"}, {"1"}),
      Count("--requests", "a whole number of at least 1", {"0", "-1"}, {"1"}),
      Count("--past-keys", "a whole number of at least 0", {"-1"}, {"0"}),
      Count("--priority", "a whole number, -10 to 10", {"-11", "11"},
            {"-10", "10"}),
      Count("--seed", "a whole number, 0 to 18446744073709551615",
            {"-1", "18446744073709551616"}, {"0", "18446744073709551615"}),
      Real("--rate", "a number above 0 and at most 1e+07",
           {"0", "-1", "inf", "10000001"}, {"0.5", "1e7"}),
      Real("--speed", "a finite number above 0", {"0", "-1", "inf"}, {"0.5"}),
      Real("--precision", "a number above 0 and at most 1", {"0", "-1", "1.01"},
           {"0.01", "1"}),
      Real("--verify", "a number of at least 0 and at most 1", {"-0.1", "1.01"},
           {"0", "1"}),
      Real("--ragged", "a number of at least 0 and below 1", {"-0.1", "1"},
           {"0", "0.99"}),
      Real("--ramp", "expected", {"5", "1:-1", "nan:5", "1:inf", "1:2:3"},
           {"0:5"}),
      Real("--steps", "expected",
           {"5", "5:0s", "-1:1s", "nan:1s", "5:1s,6", "5:-1s"},
           {"5:1s,0:1s,6:1s"}),
      Real("--slo", "expected",
           {"p99", "p0<1s", "p101<1s", "pnan<1s", "p99<0s", "p99<-1s",
            "errors<-1%", "errors<101%", "errors<nan", "rate>-1", "rate>nan",
            "rate>inf", "rate<5"},
           {"p100<1s", "errors<0%", "rate>0"}),
      Real("--mix", "expected",
           {"weight=0", "weight=-1", "weight=nan", "weight=inf", "dim=x",
            "dim=0", "ragged=1", "ragged=nan", "priority=11", "priority=x",
            "past=-1s", "gap=-1s", "past-keys=-1", "keys=1.5", "causal=x"},
           {"weight=0.5 dim=1"}),
      Time("--duration", false),
      Time("--warmup", true),
      Time("--max-lag", false),
      Time("--past", true),
      Time("--future", true),
      Time("--gap", true)};
  for (const char* option : {"--batch", "--heads", "--kv-heads", "--queries",
                             "--keys", "--dim", "--value-dim", "--distinct"}) {
    numbers.push_back(
        Count(option, "a whole number of at least 1", {"0", "-1"}, {"1"}));
  }
  return numbers;
}

// Texts, names and files.
const std::set<std::string> kNoNumbers = {
    "--help",       "--target",       "--metadata",     "--tls",
    "--tls-ca",     "--tls-cert",     "--tls-key",      "--tls-name",
    "--service",    "--watch",        "--json",         "--svg",
    "--query",      "--key",          "--value",        "--replay",
    "--query-time", "--key-time",     "--unit",         "--bf16",
    "--layout",     "--encoding",     "--causal",       "--strict",
    "--two-sided",  "--key-validity", "--value-mask",   "--bias",
    "--outputs",    "--output-dtype", "--compute",      "--out",
    "--kind",       "--normaliser",   "--feature-map",  "--input-rule",
    "--state",      "--merge",        "--time",         "--bidirectional",
    "--no-header",  "--delimiter",    "--time-unit",    "--missing",
    "--plot",       "--unit-label",   "--title",        "--protocol",
    "--stream",     "--poisson",      "--replay-unit",  "--when-full",
    "--find-max",   "--dtype",        "--times",        "--arrays",
    "--series",     "--time-column",  "--value-column", "--tenant",
    "--save",       "--metrics",      "--csv",          "--hdr",
    "--hgrm",       "--junit",        "--html",         "--quiet"};

class Numbers : public ::testing::Test {
 protected:
  Numbers() {
    const std::string floats(4, '\0');
    const std::string ticks(8, '\0');
    for (const char* name : {"q", "t"}) {
      const bool time = *name == 't';
      EXPECT_TRUE(WriteNpy(absl::StrCat(folder_, name, ".npy"),
                           {.type = time ? NpyType::kI8 : NpyType::kF4,
                            .shape = time ? std::vector<int64_t>{1}
                                          : std::vector<int64_t>{1, 1},
                            .data = time ? ticks : floats})
                      .ok());
    }
    std::string series = "time,value\n";
    for (int day = 1; day <= 28; ++day) {
      absl::StrAppendFormat(&series, "2024-01-%02d,%d\n", day, day * day % 7);
    }
    EXPECT_TRUE(WriteFile(folder_ + "s.csv", series).ok());
  }

  // Without the options in question, a call that ends for want of a server.
  ProcessResult Run(const Words& base, const std::string& option,
                    const std::string& value) {
    Words words = base;
    if (base[0] != "compare") words.insert(words.end(), {"--target", kNobody});
    if (base[0] != "compare" && option != "--timeout") {
      words.insert(words.end(), {"--timeout", "10ms"});
    }
    words.insert(words.end(), {option, value});
    return RunAttnctl(words);
  }

  void Check(const Words& base, const std::vector<Number>& numbers) {
    for (const Number& number : numbers) {
      Words wrong = number.real ? kNoNumber : kNoCount;
      wrong.insert(wrong.end(), number.wrong.begin(), number.wrong.end());
      for (const std::string& value : wrong) {
        const ProcessResult result = Run(base, number.option, value);
        EXPECT_EQ(result.exit_code, 4) << number.option << " " << value;
        EXPECT_THAT(
            result.err,
            AllOf(HasSubstr(number.option),
                  HasSubstr(value.empty() ? "expected" : number.expected)))
            << number.option << " " << value;
        EXPECT_EQ(result.out, "");
      }
      for (const std::string& value : number.right) {
        EXPECT_NE(Run(base, number.option, value).exit_code, 4)
            << number.option << " " << value;
      }
    }
  }

  // An option of the manual that this test does not know is a new one.
  void CheckComplete(const std::string& command,
                     const std::vector<Number>& numbers) {
    std::set<std::string> known = kNoNumbers;
    for (const Number& number : numbers) known.insert(number.option);
    for (const Number& number : TargetNumbers()) known.insert(number.option);
    const std::string manual = RunAttnctl({command, "--help"}).out;
    const std::regex option("^  (?:-[a-z],)?(--[a-z0-9-]+).*");
    for (const std::string& line : Words(absl::StrSplit(manual, '\n'))) {
      std::smatch match;
      if (!std::regex_match(line, match, option)) continue;
      EXPECT_TRUE(known.contains(match[1])) << command << ": " << line;
    }
  }

  static constexpr char kNobody[] = "127.0.0.1:1";
  const std::string folder_ = FreshFolder();
};

TEST_F(Numbers, OfTheConnectionAreChecked) {
  Check({"health"}, TargetNumbers());
  CheckComplete("health", {});
}

TEST_F(Numbers, OfEncodingsAreChecked) {
  Check({"encodings", "show", "rope", "--svg", "-"}, EncodingsNumbers());
  CheckComplete("encodings", EncodingsNumbers());
}

TEST_F(Numbers, OfAttendAreChecked) {
  const std::string query = folder_ + "q.npy";
  const std::string time = folder_ + "t.npy";
  Check({"attend", "--query", query, "--key", query, "--value", query,
         "--query-time", time, "--key-time", time, "--unit", "s", "--out",
         folder_ + "out"},
        AttendNumbers());
  CheckComplete("attend", AttendNumbers());
}

TEST_F(Numbers, OfInterpolateAreChecked) {
  Check({"interpolate", folder_ + "s.csv"}, InterpolateNumbers());
  CheckComplete("interpolate", InterpolateNumbers());
}

TEST_F(Numbers, OfLoadAreChecked) {
  Check({"load", "--encoding", "rope"}, LoadNumbers());
  CheckComplete("load", LoadNumbers());
}

TEST_F(Numbers, OfCompareAreChecked) {
  const Number tolerance = Real("--tolerance", "a finite number of at least 0",
                                {"-1", "-0.01", "inf", "1e999"}, {});
  Check({"compare", "a", "b"}, {tolerance});
  CheckComplete("compare", {tolerance});
  // What is right is not what is wrong with files that are not there.
  EXPECT_THAT(RunAttnctl({"compare", "a", "b", "--tolerance", "0"}).err,
              Not(HasSubstr("--tolerance")));
}

}  // namespace
}  // namespace attnd::client
