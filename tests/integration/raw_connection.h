// A client that speaks just enough HTTP/2 to misbehave: it sends half a
// message, or does not read.
#ifndef ATTND_TESTS_INTEGRATION_RAW_CONNECTION_H_
#define ATTND_TESTS_INTEGRATION_RAW_CONNECTION_H_

#include <cstdint>
#include <map>
#include <string>

namespace attnd::testing {

// Never blocks: what the peer does not take yet is kept. Keeps to the peer's
// windows, answers its settings and pings, and gives it no window beyond
// `reply_window` bytes a stream. Uses no thread and no lock, so that it works
// in a child of fork().
class RawConnection {
 public:
  // To "127.0.0.1:port".
  explicit RawConnection(const std::string& address, int reply_window = 65535);
  ~RawConnection();
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  // Begins a call, with further headers, and states the length of its message;
  // its stream.
  int Begin(const std::string& method, int64_t message_bytes,
            const std::map<std::string, std::string>& more = {});
  int BeginAttend(int64_t message_bytes) {
    return Begin("Attend", message_bytes);
  }
  // Sends what fits into the windows now; how many bytes that was.
  int64_t Send(int stream, const std::string& data);
  void CloseSending(int stream);
  void Reset(int stream);
  // Sends and reads what is possible without waiting; false when the peer has
  // closed the connection.
  bool Pump();
  // Pumps until `stream` has ended or got a byte, or the peer has closed.
  void PumpUntilAnswered(int stream);

  // Streams that the peer has ended.
  int ended() const { return ended_; }
  // Bytes that are not with the kernel yet.
  size_t unsent() const { return out_.size(); }
  // Closes with a reset of the TCP connection.
  void Abort();

 private:
  void Frame(int type, int flags, int stream, const std::string& payload);
  void Handle(int type, int flags, int stream, const std::string& payload);

  int socket_ = -1;
  std::string out_, in_;
  int next_stream_ = 1;
  int ended_ = 0;
  bool closed_ = false;
  int64_t window_ = 65535, initial_window_ = 65535;
  std::map<int, int64_t> windows_;   // of open streams
  std::map<int, int64_t> received_;  // bytes of data
};

}  // namespace attnd::testing

#endif  // ATTND_TESTS_INTEGRATION_RAW_CONNECTION_H_
