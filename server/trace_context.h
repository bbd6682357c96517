// The W3C trace context of a call.
#ifndef ATTND_SERVER_TRACE_CONTEXT_H_
#define ATTND_SERVER_TRACE_CONTEXT_H_

#include "absl/strings/string_view.h"

namespace attnd::server {

inline constexpr char kTraceParentKey[] = "traceparent";

// Of "00-<trace id>-<parent id>-<flags>"; empty unless the text has that form
// with ids that are not all zero.
absl::string_view TraceIdOf(absl::string_view traceparent);

}  // namespace attnd::server

#endif  // ATTND_SERVER_TRACE_CONTEXT_H_
