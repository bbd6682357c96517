#include "server/unix_listener.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace attnd::server {
namespace {

class UnixListenerTest : public ::testing::Test {
 protected:
  UnixListenerTest()
      : path_(absl::StrCat(
            ::testing::TempDir(), "attnd_", getpid(),
            ::testing::UnitTest::GetInstance()->current_test_info()->line(),
            ".sock")) {
    address_.sun_family = AF_UNIX;
    std::strncpy(address_.sun_path, path_.c_str(),
                 sizeof(address_.sun_path) - 1);
  }
  ~UnixListenerTest() override {
    for (const int socket : sockets_) close(socket);
    unlink(path_.c_str());
  }

  int NewSocket() {
    sockets_.push_back(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0));
    return sockets_.back();
  }
  void Bind(int socket) {
    ASSERT_EQ(
        bind(socket, reinterpret_cast<sockaddr*>(&address_), sizeof(address_)),
        0);
  }
  // An errno, or 0.
  int Connect() {
    return connect(NewSocket(), reinterpret_cast<sockaddr*>(&address_),
                   sizeof(address_)) == 0
               ? 0
               : errno;
  }
  UnixListener Listen() {
    auto listener = UnixListener::Listen(path_, 0600);
    EXPECT_TRUE(listener.ok()) << listener.status();
    return *listener;
  }
  std::string Fault() {
    const absl::Status status = UnixListener::Listen(path_, 0600).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    return std::string(status.message());
  }
  bool Exists() const {
    struct stat file;
    return lstat(path_.c_str(), &file) == 0;
  }

  const std::string path_;
  sockaddr_un address_ = {};
  std::vector<int> sockets_;
};

TEST_F(UnixListenerTest, TheFileHasItsModeAndGoesWithTheListener) {
  for (const mode_t mode : {0600, 0660, 0777}) {
    const auto listener = UnixListener::Listen(path_, mode);
    ASSERT_TRUE(listener.ok()) << listener.status();
    struct stat file;
    ASSERT_EQ(lstat(path_.c_str(), &file), 0);
    EXPECT_EQ(file.st_mode & 07777, mode);
    EXPECT_EQ(Connect(), 0);
    listener->Close();
    EXPECT_FALSE(Exists());
  }
}

TEST_F(UnixListenerTest, AFileThatADeadProcessLeftIsReplaced) {
  Bind(NewSocket());
  close(sockets_.back());
  sockets_.pop_back();
  const UnixListener listener = Listen();
  EXPECT_EQ(Connect(), 0);
  listener.Close();
}

TEST_F(UnixListenerTest, WhoListensAlreadyKeepsThePath) {
  const UnixListener first = Listen();
  EXPECT_EQ(Fault(), "another server listens there");
  EXPECT_EQ(Connect(), 0);
  first.Close();
}

// As a stopped process, whose connections nobody accepts.
TEST_F(UnixListenerTest, AnOwnerWithoutRoomForConnectionsIsNotWaitedFor) {
  const int owner = NewSocket();
  Bind(owner);
  ASSERT_EQ(listen(owner, 0), 0);
  int error = 0;
  while (error == 0) error = Connect();
  ASSERT_EQ(error, EAGAIN);
  EXPECT_EQ(Fault(), "another server listens there");
  EXPECT_TRUE(Exists());
}

TEST_F(UnixListenerTest, AFileThatIsNoSocketStays) {
  std::ofstream(path_) << "precious";
  EXPECT_EQ(
      Fault(),
      "a file that is no socket is there; remove it, or choose another path");
  std::string text;
  std::ifstream(path_) >> text;
  EXPECT_EQ(text, "precious");
}

// Another server took the path while this one was leaving.
TEST_F(UnixListenerTest, AnothersFileStays) {
  const UnixListener old = Listen();
  unlink(path_.c_str());
  const UnixListener next = Listen();
  old.Close();
  EXPECT_EQ(Connect(), 0);
  next.Close();
  EXPECT_FALSE(Exists());
}

TEST_F(UnixListenerTest, AFolderThatIsNotThereIsSaid) {
  const absl::Status status =
      UnixListener::Listen(path_ + ".d/s", 0600).status();
  EXPECT_EQ(status.message(), "No such file or directory");
}

}  // namespace
}  // namespace attnd::server
