// Log lines on stderr: one JSON object a line, {"ts","level","event",...}, or
// text for people at a terminal.
#ifndef ATTND_SERVER_LOG_H_
#define ATTND_SERVER_LOG_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "attnd/v1/config.pb.h"
#include "server/time_source.h"

namespace spdlog {
class logger;
}  // namespace spdlog

namespace attnd::server {

// The longest line, its end included: what a pipe with room takes at once
// (PIPE_BUF), so that no text from outside makes a write that waits.
inline constexpr size_t kMaxLogLineBytes = 4096;

// The value of a field. Of a text its start is kept, as much as a line takes.
class LogValue {
 public:
  LogValue(absl::string_view text);  // NOLINT(google-explicit-constructor)
  LogValue(const char* text)         // NOLINT(google-explicit-constructor)
      : LogValue(absl::string_view(text)) {}
  LogValue(const std::string& text)  // NOLINT(google-explicit-constructor)
      : LogValue(absl::string_view(text)) {}
  LogValue(bool value);  // NOLINT(google-explicit-constructor)
  LogValue(int value)    // NOLINT(google-explicit-constructor)
      : LogValue(static_cast<int64_t>(value)) {}
  LogValue(int64_t value);  // NOLINT(google-explicit-constructor)
  LogValue(double value);   // NOLINT(google-explicit-constructor)
  // As JSON; a text in at most `most` bytes, as JsonString says.
  std::string Json(size_t most = kMaxLogLineBytes) const;

 private:
  std::string value_;
  int64_t text_bytes_ = -1;  // of the whole text; -1 of what is JSON already
};

using LogFields = std::initializer_list<std::pair<absl::string_view, LogValue>>;

// Thread-safe. A line that cannot be written is lost; nothing else happens. Of
// one that would be longer than kMaxLogLineBytes the longest texts are cut.
class Log {
 public:
  explicit Log(const v1::Log& config);
  ~Log();

  void Debug(absl::string_view event, LogFields fields = {});
  void Info(absl::string_view event, LogFields fields = {});
  void Warning(absl::string_view event, LogFields fields = {});
  void Error(absl::string_view event, LogFields fields = {});

  // Whether a line about a request may be written now: up to
  // `access_lines_per_second` may. If so, the number of lines that were left
  // out since the last; the caller writes it as "skipped".
  std::optional<int64_t> AccessLine(Instant now);

  // Sends gRPC's own log lines here too, until this object is destroyed.
  void CaptureGrpc();

 private:
  std::string Line(v1::Log::Level level, absl::string_view event,
                   LogFields fields) const;
  std::string Line(v1::Log::Level level, absl::string_view event,
                   LogFields fields, size_t most) const;
  void Write(v1::Log::Level level, absl::string_view event, LogFields fields);

  const bool json_;
  const double access_lines_per_second_;
  std::unique_ptr<spdlog::logger> logger_;

  std::mutex write_mutex_;  // guards the line below, and keeps lines whole
  int64_t lost_ = 0;        // lines since the last that was written

  std::mutex access_mutex_;  // guards the three below
  Instant second_start_;
  double lines_in_second_ = 0;
  int64_t skipped_ = 0;
};

// `text` as a JSON string, quotes included; bytes that are not UTF-8 become
// '?', control characters are escaped.
std::string JsonString(absl::string_view text);
// The same in at most `most` bytes, 64 or more, of the start of a text that has
// `whole_bytes`: where it is cut stands "…(1048576 bytes)".
std::string JsonString(absl::string_view start, int64_t whole_bytes,
                       size_t most);

}  // namespace attnd::server

#endif  // ATTND_SERVER_LOG_H_
