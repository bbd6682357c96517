#include "server/log.h"

#include <grpc/support/log.h>
#include <poll.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/text.h"

namespace attnd::server {
namespace {

static_assert(kMaxLogLineBytes <= PIPE_BUF);

constexpr size_t kLeastTextBytes = 64;

// Where gRPC's log function, which carries no argument of ours, finds the log.
std::atomic<Log*> grpc_log{nullptr};

void ForwardGrpcLine(gpr_log_func_args* args) {
  Log* log = grpc_log.load();
  if (log == nullptr) return;
  const char* file = std::strrchr(args->file, '/');
  const std::string where =
      absl::StrCat(file == nullptr ? args->file : file + 1, ":", args->line);
  const LogFields fields = {{"message", args->message}, {"source", where}};
  switch (args->severity) {
    case GPR_LOG_SEVERITY_DEBUG:
      return log->Debug("grpc", fields);
    case GPR_LOG_SEVERITY_INFO:
      return log->Info("grpc", fields);
    case GPR_LOG_SEVERITY_ERROR:
      return log->Warning("grpc", fields);
  }
}

spdlog::level::level_enum ToSpdlog(v1::Log::Level level) {
  switch (level) {
    case v1::Log::LEVEL_DEBUG:
      return spdlog::level::debug;
    case v1::Log::LEVEL_WARNING:
      return spdlog::level::warn;
    case v1::Log::LEVEL_ERROR:
      return spdlog::level::err;
    default:
      return spdlog::level::info;
  }
}

absl::string_view LevelText(v1::Log::Level level) {
  switch (level) {
    case v1::Log::LEVEL_DEBUG:
      return "debug";
    case v1::Log::LEVEL_WARNING:
      return "warning";
    case v1::Log::LEVEL_ERROR:
      return "error";
    default:
      return "info";
  }
}

// Of a pipe: that PIPE_BUF bytes fit. Files and terminals always have some.
bool StderrHasRoom() {
  pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  return poll(&room, 1, 0) != 0;
}

// One character, or a byte that is none. DEL and the control characters of
// Latin-1 are harmless in JSON, but not on a terminal.
void AppendEscaped(absl::string_view character, std::string& out) {
  const char c = character[0];
  const size_t length = Utf8Length(character);
  const auto first = static_cast<unsigned char>(c);
  if (c == '"' || c == '\\') {
    out += '\\';
    out += c;
  } else if (c == '\n') {
    out += "\\n";
  } else if (length == 1 && (first < 0x20 || first == 0x7F)) {
    absl::StrAppendFormat(&out, "\\u%04x", first);
  } else if (length == 2 && first == 0xC2 &&
             static_cast<unsigned char>(character[1]) < 0xA0) {
    absl::StrAppendFormat(&out, "\\u%04x",
                          static_cast<unsigned char>(character[1]));
  } else if (length == 0) {
    out += '?';
  } else {
    absl::StrAppend(&out, character);
  }
}

}  // namespace

std::string JsonString(absl::string_view text) {
  return JsonString(text, static_cast<int64_t>(text.size()),
                    std::numeric_limits<size_t>::max());
}

std::string JsonString(absl::string_view start, int64_t whole_bytes,
                       size_t most) {
  constexpr size_t kMarkBytes = 32;  // at most
  bool is_whole = static_cast<int64_t>(start.size()) == whole_bytes;
  std::string out = "\"";
  size_t cut = out.size();  // where the mark fits
  while (!start.empty() && out.size() < most) {
    const size_t length = std::max<size_t>(1, Utf8Length(start));
    AppendEscaped(start.substr(0, length), out);
    start.remove_prefix(length);
    if (out.size() <= most - kMarkBytes) cut = out.size();
  }
  is_whole = is_whole && start.empty() && out.size() < most;
  if (is_whole) return out + '"';
  out.resize(cut);
  return absl::StrCat(out, "…(", whole_bytes, " bytes)\"");
}

LogValue::LogValue(absl::string_view text)
    : value_(text.substr(0, kMaxLogLineBytes)),
      text_bytes_(static_cast<int64_t>(text.size())) {}
LogValue::LogValue(bool value) : value_(value ? "true" : "false") {}
LogValue::LogValue(int64_t value) : value_(absl::StrCat(value)) {}
LogValue::LogValue(double value)
    : value_(std::isfinite(value) ? absl::StrFormat("%.6g", value) : "null") {}

std::string LogValue::Json(size_t most) const {
  return text_bytes_ < 0 ? value_ : JsonString(value_, text_bytes_, most);
}

Log::Log(const v1::Log& config)
    : json_(config.format() != v1::Log::FORMAT_TEXT),
      access_lines_per_second_(config.access_lines_per_second()) {
  logger_ = std::make_unique<spdlog::logger>(
      "attnd", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger_->set_pattern("%v");
  logger_->set_level(ToSpdlog(config.level()));
  // A full disk must not become a stream of complaints about the log.
  logger_->set_error_handler([](const std::string&) {});
}

Log::~Log() {
  Log* self = this;
  if (grpc_log.compare_exchange_strong(self, nullptr)) {
    gpr_set_log_function(nullptr);
  }
}

void Log::CaptureGrpc() {
  grpc_log.store(this);
  gpr_set_log_function(ForwardGrpcLine);
}

// The texts share what a line takes: each gets half as much until all fit, so
// those that are short stay whole.
std::string Log::Line(v1::Log::Level level, absl::string_view event,
                      LogFields fields) const {
  for (size_t most = kMaxLogLineBytes; most >= kLeastTextBytes; most /= 2) {
    std::string line = Line(level, event, fields, most);
    if (line.size() < kMaxLogLineBytes) return line;
  }
  return Line(level, Clip(event, kLeastTextBytes),
              {{"fields_left_out", static_cast<int64_t>(fields.size())}},
              kLeastTextBytes);
}

std::string Log::Line(v1::Log::Level level, absl::string_view event,
                      LogFields fields, size_t most) const {
  const std::string now = absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(),
                                           absl::UTCTimeZone());
  std::string line;
  if (json_) {
    line = absl::StrCat("{\"ts\":\"", now, "\",\"level\":\"", LevelText(level),
                        "\",\"event\":", JsonString(event));
    for (const auto& [key, value] : fields) {
      absl::StrAppend(&line, ",", JsonString(key), ":", value.Json(most));
    }
    line += '}';
  } else {
    line = absl::StrCat(now, " ", LevelText(level), " ", event);
    for (const auto& [key, value] : fields) {
      absl::StrAppend(&line, " ", key, "=", value.Json(most));
    }
  }
  return line;
}

// A pipe that nobody empties must not stop those who log: lines that do not fit
// are counted instead.
void Log::Write(v1::Log::Level level, absl::string_view event,
                LogFields fields) {
  if (!logger_->should_log(ToSpdlog(level))) return;
  const std::string line = Line(level, event, fields);
  std::lock_guard lock(write_mutex_);
  if (lost_ > 0 && StderrHasRoom()) {
    const std::string lost =
        Line(v1::Log::LEVEL_WARNING, "log lines lost", {{"count", lost_}});
    logger_->warn(spdlog::string_view_t(lost));
    lost_ = 0;
  }
  if (StderrHasRoom()) {
    logger_->log(ToSpdlog(level), spdlog::string_view_t(line));
  } else {
    ++lost_;
  }
}

void Log::Debug(absl::string_view event, LogFields fields) {
  Write(v1::Log::LEVEL_DEBUG, event, fields);
}
void Log::Info(absl::string_view event, LogFields fields) {
  Write(v1::Log::LEVEL_INFO, event, fields);
}
void Log::Warning(absl::string_view event, LogFields fields) {
  Write(v1::Log::LEVEL_WARNING, event, fields);
}
void Log::Error(absl::string_view event, LogFields fields) {
  Write(v1::Log::LEVEL_ERROR, event, fields);
}

std::optional<int64_t> Log::AccessLine(Instant now) {
  if (!logger_->should_log(spdlog::level::info)) return std::nullopt;
  std::lock_guard lock(access_mutex_);
  if (Seconds(now - second_start_) >= 1) {
    second_start_ = now;
    lines_in_second_ = 0;
  }
  if (++lines_in_second_ > access_lines_per_second_) {
    ++skipped_;
    return std::nullopt;
  }
  return std::exchange(skipped_, 0);
}

}  // namespace attnd::server
