#include "client/named_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "client/files.h"
#include "tests/client/attnctl_process.h"

namespace attnd::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class NamedFiles : public ::testing::Test {
 protected:
  NamedFiles() {
    std::filesystem::create_directory(folder_ + "sub");
    EXPECT_TRUE(WriteFile(folder_ + "present", "x").ok());
  }

  std::string Refusal(const std::vector<NamedFile>& inputs,
                      const std::vector<NamedFile>& outputs) {
    return std::string(CheckFiles(inputs, outputs).message());
  }

  const std::string folder_ = FreshFolder();
};

TEST_F(NamedFiles, OfTheirOwnAreFine) {
  EXPECT_EQ(Refusal({{"--replay", folder_ + "present"}},
                    {{"--json", folder_ + "a"},
                     {"--csv", folder_ + "sub/a"},
                     {"--hdr", ""},
                     {"--html", "-"}}),
            "");
  // What is there may be replaced.
  EXPECT_EQ(Refusal({}, {{"--json", folder_ + "present"}}), "");
}

TEST_F(NamedFiles, AFolderThatIsNotThereIsNamed) {
  EXPECT_THAT(Refusal({}, {{"--csv", folder_ + "none/a.csv"}}),
              AllOf(HasSubstr("--csv " + folder_ + "none/a.csv: "),
                    HasSubstr("no folder '" + folder_ + "none'"),
                    HasSubstr("mkdir -p")));
  // A file is no folder.
  EXPECT_THAT(Refusal({}, {{"--csv", folder_ + "present/a.csv"}}),
              HasSubstr("no folder"));
  EXPECT_THAT(Refusal({}, {{"--csv", folder_ + "sub"}}),
              HasSubstr("is a folder"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "none"));
}

TEST_F(NamedFiles, OneFileForTwoResultsIsRefusedHoweverSpelt) {
  std::filesystem::create_symlink(folder_ + "present", folder_ + "link");
  std::filesystem::create_directory_symlink(folder_ + "sub", folder_ + "door");
  const std::pair<const char*, const char*> spellings[] = {
      {"a", "a"},           {"a", "./a"},        {"a", "sub/../a"},
      {"a", "sub//.././a"}, {"sub/a", "door/a"}, {"present", "link"}};
  for (const auto& [one, other] : spellings) {
    EXPECT_THAT(
        Refusal({}, {{"--json", folder_ + one}, {"--csv", folder_ + other}}),
        AllOf(HasSubstr("--csv"), HasSubstr("is where --json goes")))
        << one << " " << other;
    EXPECT_THAT(
        Refusal({{"--replay", folder_ + one}}, {{"--csv", folder_ + other}}),
        AllOf(HasSubstr("--csv"), HasSubstr("is what --replay reads")))
        << one << " " << other;
  }
  EXPECT_THAT(Refusal({}, {{"--json", "-"}, {"--csv", "-"}}),
              HasSubstr("is where --json goes"));
}

TEST_F(NamedFiles, DevicesMayBeNamedTwice) {
  EXPECT_EQ(Refusal({{"--replay", "/dev/null"}},
                    {{"--json", "/dev/null"}, {"--csv", "/dev/null"}}),
            "");
}

TEST_F(NamedFiles, StandardInputIsReadOnce) {
  EXPECT_THAT(Refusal({{"--replay", "-"}, {"--series", "-"}}, {}),
              HasSubstr("--series -: standard input is already read by "
                        "--replay"));
  EXPECT_EQ(Refusal({{"--replay", "-"}}, {{"--json", "-"}}), "");
}

}  // namespace
}  // namespace attnd::client
