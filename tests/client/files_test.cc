#include "client/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/client/attnctl_process.h"

namespace attnd::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ReadFile, HoldsAFileToItsBound) {
  const std::string path = FreshFolder() + "f";
  ASSERT_TRUE(WriteFile(path, "12345").ok());
  EXPECT_EQ(ReadFile(path, 5).value(), "12345");
  EXPECT_EQ(ReadFile(path, 4).status(),
            absl::ResourceExhaustedError(
                absl::StrCat(path, ": 5 bytes, expected at most 4")));
}

TEST(ReadFile, EndsAtItsBoundWhereThereIsNoEnd) {
  EXPECT_EQ(ReadFile("/dev/zero", 100'000).status(),
            absl::ResourceExhaustedError("/dev/zero: more than 100000 bytes, "
                                         "expected at most 100000"));
}

TEST(WriteFile, MakesNoFolders) {
  const std::string folder = FreshFolder();
  EXPECT_TRUE(absl::IsNotFound(WriteFile(folder + "none/f", "x")));
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

// Every command that reads a file, with one that never ends.
TEST(Attnctl, InputsWithoutAnEndAreRefused) {
  const std::string folder = FreshFolder();
  ASSERT_TRUE(WriteFile(folder + "s.csv",
                        "t,v\n2024-01-01,1\n2024-01-02,2\n"
                        "2024-01-03,1\n2024-01-04,3\n")
                  .ok());
  const std::string zero = "/dev/zero";
  const std::vector<std::vector<std::string>> commands = {
      {"load", "--replay", zero},
      {"load", "--series", zero},
      {"load", "--mix", "series=/dev/zero"},
      {"load", "--tls-ca", zero},
      {"health", "--tls-cert", zero, "--tls-key", zero},
      {"interpolate", zero},
      {"interpolate", folder + "s.csv", "--at", zero},
      {"compare", zero, zero},
      {"attend", "--replay", zero, "--out", folder + "out"},
      {"attend", "--query", zero, "--key", zero, "--value", zero, "--out",
       folder + "out"}};
  for (const std::vector<std::string>& command : commands) {
    const ProcessResult result = RunAttnctl(command);
    EXPECT_EQ(result.exit_code, 4) << command[0] << " " << command[1];
    EXPECT_THAT(result.err,
                AllOf(HasSubstr(zero), HasSubstr("expected at most")))
        << command[0] << " " << command[1];
  }
}

}  // namespace
}  // namespace attnd::client
