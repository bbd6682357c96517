#include "server/file_watcher.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>

namespace attnd::server {
namespace {

namespace fs = std::filesystem;

class FileWatcherTest : public ::testing::Test {
 protected:
  FileWatcherTest()
      : folder_(
            fs::path(::testing::TempDir()) /
            ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~FileWatcherTest() override { fs::remove_all(folder_); }
  void Write(const std::string& name, const std::string& text) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }

  const fs::path folder_;
};

TEST_F(FileWatcherTest, SeesNewContentOnce) {
  Write("a", "1");
  FileWatcher watcher({folder_ / "a"});
  EXPECT_FALSE(watcher.Look());
  Write("a", "2");
  EXPECT_TRUE(watcher.Look());
  EXPECT_FALSE(watcher.Look());
  fs::remove(folder_ / "a");
  EXPECT_TRUE(watcher.Look());
  Write("a", "2");
  EXPECT_TRUE(watcher.Look());
}

// As the kubelet does it: a -> ..data/a, ..data -> a folder of one version.
TEST_F(FileWatcherTest, SeesTheSwapOfAMountedConfigMap) {
  Write("v1/a", "old");
  fs::create_directory_symlink("v1", folder_ / "..data");
  fs::create_symlink("..data/a", folder_ / "a");
  FileWatcher watcher({folder_ / "a"});
  EXPECT_FALSE(watcher.Look());
  Write("v2/a", "new");
  fs::create_directory_symlink("v2", folder_ / "..data_tmp");
  fs::rename(folder_ / "..data_tmp", folder_ / "..data");
  EXPECT_TRUE(watcher.Look());
}

TEST_F(FileWatcherTest, OtherFilesMayBeWatchedFromNowOn) {
  Write("a", "1");
  Write("b", "1");
  FileWatcher watcher({folder_ / "a"});
  Write("a", "2");
  watcher.Watch({folder_ / "a", folder_ / "b"});
  EXPECT_TRUE(watcher.Look()) << "what changed before";
  EXPECT_FALSE(watcher.Look());
  Write("b", "2");
  EXPECT_TRUE(watcher.Look());
  watcher.Watch({folder_ / "b"});
  Write("a", "3");
  EXPECT_FALSE(watcher.Look());
}

TEST_F(FileWatcherTest, TellsWhenAskedAlsoBeforeItStarts) {
  Write("a", "1");
  FileWatcher watcher({folder_ / "a"});
  std::promise<void> told[2];
  int times = 0;
  watcher.Ask();
  watcher.Start(3600, [&] { told[times++].set_value(); });
  for (std::promise<void>& each : told) {
    ASSERT_EQ(each.get_future().wait_for(std::chrono::seconds(30)),
              std::future_status::ready);
    if (&each == told) watcher.Ask();
  }
}

// Who asks meanwhile does not wait, and is told once more.
TEST_F(FileWatcherTest, TellsOnceMoreWhenAskedWhileItTells) {
  Write("a", "1");
  FileWatcher watcher({folder_ / "a"});
  std::promise<void> first, asked, again;
  int times = 0;
  watcher.Start(3600, [&] {
    if (++times == 2) return again.set_value();
    first.set_value();
    asked.get_future().wait();
  });
  watcher.Ask();
  first.get_future().wait();
  watcher.Ask();
  asked.set_value();
  EXPECT_EQ(again.get_future().wait_for(std::chrono::seconds(30)),
            std::future_status::ready);
}

TEST_F(FileWatcherTest, TellsOnAThreadOfItsOwn) {
  Write("a", "1");
  FileWatcher watcher({folder_ / "a"});
  std::promise<void> changed;
  watcher.Start(0.001, [&] { changed.set_value(); });
  Write("b", "1");
  fs::rename(folder_ / "b", folder_ / "c");
  Write("d", "2");
  fs::rename(folder_ / "d", folder_ / "a");
  EXPECT_EQ(changed.get_future().wait_for(std::chrono::seconds(30)),
            std::future_status::ready);
}

}  // namespace
}  // namespace attnd::server
