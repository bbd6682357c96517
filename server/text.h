// Small things about text in messages.
#ifndef ATTND_SERVER_TEXT_H_
#define ATTND_SERVER_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace attnd::server {

// The candidate nearest to `name` by edit distance, or "" when none is near.
absl::string_view Nearest(absl::string_view name,
                          absl::Span<const std::string> candidates);

// At most `bytes` of `text`, cut between UTF-8 characters and marked "...".
std::string Clip(absl::string_view text, size_t bytes);

// Bytes of the UTF-8 character at the start of `text`, which is not empty; 0 if
// there is none.
size_t Utf8Length(absl::string_view text);

// Whether `text` is UTF-8 throughout, as strings of proto3 must be.
bool IsUtf8(absl::string_view text);

}  // namespace attnd::server

#endif  // ATTND_SERVER_TEXT_H_
