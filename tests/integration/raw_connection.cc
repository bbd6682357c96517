#include "tests/integration/raw_connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

namespace attnd::testing {
namespace {

// RFC 9113, sections 4.1 and 6.
enum FrameType {
  kData = 0,
  kHeaders = 1,
  kReset = 3,
  kSettings = 4,
  kPing = 6,
  kWindowUpdate = 8,
};
constexpr int kEndStream = 1, kAck = 1, kEndHeaders = 4;
constexpr int kInitialWindowSize = 4;  // a setting
constexpr int64_t kMaxFrame = 16384;

std::string BigEndian(uint64_t value, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) {
    text += static_cast<char>(value >> (8 * i));
  }
  return text;
}

uint32_t Number(const std::string& text, size_t offset, int bytes) {
  uint32_t value = 0;
  for (int i = 0; i < bytes; ++i) {
    value = value << 8 | static_cast<unsigned char>(text.at(offset + i));
  }
  return value;
}

// RFC 7541, section 6.2.2: without an index, without Huffman.
std::string Header(const std::string& name, const std::string& value) {
  std::string text(1, '\0');
  for (const std::string& part : {name, value}) {
    text.push_back(static_cast<char>(part.size()));
    text.append(part);
  }
  return text;
}

}  // namespace

RawConnection::RawConnection(const std::string& address, int reply_window)
    : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
  const size_t colon = address.rfind(':');
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port =
      htons(static_cast<uint16_t>(std::atoi(address.c_str() + colon + 1)));
  inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr);
  closed_ = connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0;
  out_ = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  std::string setting = BigEndian(kInitialWindowSize, 2);
  setting.append(BigEndian(reply_window, 4));
  Frame(kSettings, 0, 0, setting);
}

RawConnection::~RawConnection() { close(socket_); }

void RawConnection::Abort() {
  const linger now = {.l_onoff = 1, .l_linger = 0};
  setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  close(socket_);
  socket_ = -1;
  closed_ = true;
}

void RawConnection::Frame(int type, int flags, int stream,
                          const std::string& payload) {
  out_.append(BigEndian(payload.size(), 3));
  out_.append(BigEndian(type, 1));
  out_.append(BigEndian(flags, 1));
  out_.append(BigEndian(stream, 4));
  out_.append(payload);
}

int RawConnection::Begin(const std::string& method, int64_t message_bytes,
                         const std::map<std::string, std::string>& more) {
  const int stream = next_stream_;
  next_stream_ += 2;
  windows_[stream] = initial_window_;
  std::string headers;
  for (const auto& [name, value] :
       {std::pair<std::string, std::string>{":method", "POST"},
        {":scheme", "http"},
        {":path", "/attnd.v1.AttentionScoring/" + method},
        {":authority", "attnd"},
        {"content-type", "application/grpc"},
        {"te", "trailers"}}) {
    headers.append(Header(name, value));
  }
  for (const auto& [name, value] : more) headers.append(Header(name, value));
  Frame(kHeaders, kEndHeaders, stream, headers);
  // Not compressed; its length.
  Send(stream, BigEndian(message_bytes, 5));
  return stream;
}

int64_t RawConnection::Send(int stream, const std::string& data) {
  const auto it = windows_.find(stream);
  if (it == windows_.end()) return 0;
  const int64_t now =
      std::min({static_cast<int64_t>(data.size()), window_, it->second});
  for (int64_t sent = 0; sent < now; sent += kMaxFrame) {
    Frame(kData, 0, stream, data.substr(sent, std::min(kMaxFrame, now - sent)));
  }
  if (now <= 0) return 0;
  window_ -= now;
  it->second -= now;
  return now;
}

void RawConnection::CloseSending(int stream) {
  Frame(kData, kEndStream, stream, "");
}

void RawConnection::Reset(int stream) {
  constexpr int kCancel = 8;
  Frame(kReset, 0, stream, BigEndian(kCancel, 4));
  windows_.erase(stream);
}

bool RawConnection::Pump() {
  while (!closed_ && !out_.empty()) {
    const ssize_t sent =
        send(socket_, out_.data(), out_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (sent <= 0) closed_ = true;
    if (sent > 0) out_.erase(0, static_cast<size_t>(sent));
  }
  char buffer[65536];
  while (!closed_) {
    const ssize_t got = recv(socket_, buffer, sizeof(buffer), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (got <= 0) closed_ = true;
    if (got > 0) in_.append(buffer, static_cast<size_t>(got));
  }
  while (in_.size() >= 9 && in_.size() >= 9 + Number(in_, 0, 3)) {
    const std::string payload = in_.substr(9, Number(in_, 0, 3));
    Handle(static_cast<int>(Number(in_, 3, 1)),
           static_cast<int>(Number(in_, 4, 1)),
           static_cast<int>(Number(in_, 5, 4)), payload);
    in_.erase(0, 9 + payload.size());
  }
  return !closed_;
}

void RawConnection::Handle(int type, int flags, int stream,
                           const std::string& payload) {
  if (type == kSettings && (flags & kAck) == 0) {
    for (size_t i = 0; i + 6 <= payload.size(); i += 6) {
      if (Number(payload, i, 2) != kInitialWindowSize) continue;
      const int64_t size = Number(payload, i + 2, 4);
      for (auto& [id, window] : windows_) window += size - initial_window_;
      initial_window_ = size;
    }
    Frame(kSettings, kAck, 0, "");
  } else if (type == kPing && (flags & kAck) == 0) {
    Frame(kPing, kAck, 0, payload);
  } else if (type == kWindowUpdate) {
    const int64_t more = Number(payload, 0, 4);
    if (stream == 0) window_ += more;
    if (windows_.count(stream) > 0) windows_[stream] += more;
  } else if (type == kData) {
    received_[stream] += static_cast<int64_t>(payload.size());
  }
  const bool ends = type == kReset || ((type == kData || type == kHeaders) &&
                                       (flags & kEndStream) != 0);
  if (ends) ended_ += static_cast<int>(windows_.erase(stream));
}

void RawConnection::PumpUntilAnswered(int stream) {
  while (Pump() && windows_.count(stream) > 0 && received_[stream] == 0) {
    pollfd waiting = {
        .fd = socket_,
        .events = static_cast<int16_t>(POLLIN | (out_.empty() ? 0 : POLLOUT)),
        .revents = 0};
    poll(&waiting, 1, 1000);
  }
}

}  // namespace attnd::testing
