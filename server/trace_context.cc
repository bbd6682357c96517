#include "server/trace_context.h"

namespace attnd::server {
namespace {

bool IsHex(absl::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == absl::string_view::npos;
}

bool IsId(absl::string_view text) {
  return IsHex(text) && text.find_first_not_of('0') != absl::string_view::npos;
}

}  // namespace

absl::string_view TraceIdOf(absl::string_view text) {
  // Later versions may append fields. It goes back among trailers, for which a
  // client has 8 KiB in all.
  constexpr size_t kMostBytes = 256;
  if (text.size() < 55 || text.size() > kMostBytes || text[2] != '-' ||
      text[35] != '-' || text[52] != '-') {
    return {};
  }
  const absl::string_view version = text.substr(0, 2);
  const absl::string_view trace = text.substr(3, 32);
  if (!IsHex(version) || version == "ff" || !IsId(trace) ||
      !IsId(text.substr(36, 16)) || !IsHex(text.substr(53, 2))) {
    return {};
  }
  if (version == "00" ? text.size() != 55
                      : text.size() > 55 && text[55] != '-') {
    return {};
  }
  return trace;
}

}  // namespace attnd::server
