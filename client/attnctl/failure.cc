#include "client/attnctl/failure.h"

#include <iostream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/duration_text.h"
#include "client/error_details.h"

namespace attnd::client {
namespace {

// What to do about it, where the server does not say.
const char* Advice(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
      return "check --target, that attnd is running and SERVING (attnctl "
             "health), and whether it wants TLS or a client certificate "
             "(--tls-ca, --tls-cert)";
    case absl::StatusCode::kDeadlineExceeded:
      return "allow more time with --timeout or ask for less; attnctl health "
             "tells whether --target answers at all";
    case absl::StatusCode::kUnimplemented:
      return "this server does not offer it; compare the versions";
    case absl::StatusCode::kPermissionDenied:
      // Whoever asks: the server says itself what to do instead.
      if (absl::StartsWith(status.message(), "inline_encoding")) return nullptr;
      [[fallthrough]];
    case absl::StatusCode::kUnauthenticated:
      return "send credentials with --tls-cert and --tls-key, or --metadata "
             "'authorization=Bearer ...'";
    case absl::StatusCode::kNotFound:
      return "attnctl encodings lists the names this server knows";
    default:
      return nullptr;
  }
}

ExitCode Print(const std::string& text, ExitCode code) {
  std::cerr << "attnctl: " << text << "\n";
  return code;
}

}  // namespace

std::string FailureText(const absl::Status& status) {
  std::string text = absl::StrCat(absl::StatusCodeToString(status.code()), ": ",
                                  status.message());
  const ErrorDetails details = GetErrorDetails(status);
  for (const FieldViolation& violation : details.field_violations) {
    const std::string line =
        absl::StrCat(violation.field, ": ", violation.description);
    // A single one is usually the status' text as well.
    if (!absl::StrContains(text, line)) absl::StrAppend(&text, "\n  ", line);
  }
  for (const QuotaViolation& violation : details.quota_violations) {
    absl::StrAppend(&text, "\n  quota of ", violation.subject, ": ",
                    violation.description);
  }
  if (details.retry_delay) {
    absl::StrAppend(
        &text, "\n  the server asks to wait ",
        DurationText(absl::ToDoubleNanoseconds(*details.retry_delay)),
        " before the next attempt");
  } else if (const char* advice = Advice(status)) {
    absl::StrAppend(&text, "\n  ", advice);
  }
  return text;
}

ExitCode ServiceExitCode(const absl::Status& status) {
  const bool unreachable = absl::IsUnavailable(status) ||
                           absl::IsDeadlineExceeded(status) ||
                           absl::IsCancelled(status);
  return unreachable ? kUnreachable : kRefused;
}

ExitCode FailedCall(const absl::Status& status) {
  return Print(FailureText(status), ServiceExitCode(status));
}

ExitCode FailedInput(const absl::Status& status) {
  return Print(std::string(status.message()), kUsage);
}

ExitCode FailedOutput(const absl::Status& status) {
  return Print(std::string(status.message()), kOutput);
}

}  // namespace attnd::client
