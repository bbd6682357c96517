#include "server/connection_acceptor.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace attnd::server {
namespace {

// A client's end.
class Peer {
 public:
  explicit Peer(const std::string& address)
      : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<uint16_t>(
        std::stoi(address.substr(address.rfind(':') + 1))));
    connected_ =
        connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0;
  }
  Peer(Peer&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)),
        connected_(other.connected_) {}
  ~Peer() {
    if (socket_ >= 0) close(socket_);
  }
  // Waits for a byte: '!' is what served connections get; 0 = closed.
  char Read() {
    char byte = 0;
    return recv(socket_, &byte, 1, 0) == 1 ? byte : '\0';
  }
  bool connected() const { return connected_; }
  void Send(int bytes) {
    const std::string data(bytes, 'x');
    ASSERT_EQ(send(socket_, data.data(), data.size(), 0), bytes);
  }
  int port() const {
    sockaddr_in name = {};
    socklen_t size = sizeof(name);
    getsockname(socket_, reinterpret_cast<sockaddr*>(&name), &size);
    return ntohs(name.sin_port);
  }

 private:
  int socket_;
  bool connected_ = false;
};

class ConnectionAcceptorTest : public ::testing::Test {
 protected:
  void Start(int64_t limit, const std::string& address = "127.0.0.1:0") {
    acceptor_ = std::make_unique<ConnectionAcceptor>(limit);
    const auto real = acceptor_->Listen(address, 0600, [this](int socket) {
      {
        std::lock_guard lock(mutex_);
        served_.push_back(socket);
      }
      ASSERT_EQ(send(socket, "!", 1, 0), 1);
    });
    ASSERT_TRUE(real.ok()) << real.status();
    address_ = *real;
    acceptor_->Start();
  }
  void TearDown() override {
    acceptor_.reset();
    for (const int socket : served_) close(socket);
    served_.clear();
  }

  std::unique_ptr<ConnectionAcceptor> acceptor_;
  std::string address_;
  std::mutex mutex_;  // guards served_, of its thread, until it is closed
  std::vector<int> served_;
};

TEST_F(ConnectionAcceptorTest, CountsWhatAConnectionReceived) {
  // The second is a socket of IPv6 that serves both, where there is IPv6.
  for (const char* address : {"127.0.0.1:0", "0.0.0.0:0"}) {
    Start(10, address);
    Peer peer(address_);
    ASSERT_EQ(peer.Read(), '!');
    const std::string name = absl::StrCat("ipv4:127.0.0.1:", peer.port());
    EXPECT_EQ(acceptor_->BytesReceived(name), 0);
    peer.Send(12345);
    peer.Send(1);
    EXPECT_EQ(acceptor_->BytesReceived(name), 12346);
    EXPECT_EQ(acceptor_->BytesReceived("ipv4:127.0.0.1:1"), std::nullopt);
    TearDown();
  }
}

TEST_F(ConnectionAcceptorTest, BeyondTheLimitConnectionsAreClosedAtOnce) {
  Start(2);
  Peer first(address_), second(address_);
  EXPECT_EQ(first.Read(), '!');
  EXPECT_EQ(second.Read(), '!');
  Peer third(address_);
  EXPECT_EQ(third.Read(), '\0');
  EXPECT_EQ(acceptor_->open(), 2);
  EXPECT_EQ(acceptor_->refused(), 1);
}

TEST_F(ConnectionAcceptorTest, AClosedConnectionMakesRoom) {
  Start(1);
  Peer first(address_);
  ASSERT_EQ(first.Read(), '!');
  {
    std::lock_guard lock(mutex_);
    shutdown(served_.at(0), SHUT_RDWR);
    close(served_.at(0));
    served_.clear();
  }
  EXPECT_EQ(acceptor_->open(), 0);
  Peer second(address_);
  EXPECT_EQ(second.Read(), '!');
}

// gRPC 1.51 itself would never listen again.
TEST_F(ConnectionAcceptorTest, ListensOnAfterItRanOutOfFiles) {
  Start(1000);
  rlimit before;
  getrlimit(RLIMIT_NOFILE, &before);
  const int next = dup(0);
  close(next);
  // One more file, the client's.
  const rlimit few = {.rlim_cur = static_cast<rlim_t>(next + 1),
                      .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  {
    Peer refused(address_);
    ASSERT_TRUE(refused.connected());
    EXPECT_EQ(refused.Read(), '\0');
  }
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(acceptor_->refused(), 1);
  Peer served(address_);
  EXPECT_EQ(served.Read(), '!');
}

TEST_F(ConnectionAcceptorTest, ATakenPortIsRefused) {
  Start(10);
  ConnectionAcceptor other(10);
  const absl::Status refused = other.Listen(address_, 0, [](int) {}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(refused.message(),
            address_ +
                ": cannot listen: Address already in use (is the port "
                "taken?)");
}

TEST_F(ConnectionAcceptorTest, NothingAnswersAfterClose) {
  Start(10);
  acceptor_->Close();
  Peer late(address_);
  EXPECT_FALSE(late.connected());
}

TEST_F(ConnectionAcceptorTest, EveryAddressIsThatOfBothFamilies) {
  Start(10, "0.0.0.0:0");
  EXPECT_EQ(address_.substr(0, 8), "0.0.0.0:");
  Peer peer(address_);
  EXPECT_EQ(peer.Read(), '!');
}

}  // namespace
}  // namespace attnd::server
