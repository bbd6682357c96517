#include "server/violations.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "attnd/rpc/v1/error_details.pb.h"
#include "server/status.h"
#include "server/text.h"

namespace attnd::server {
namespace {

// Room for the code, the message and ErrorInfo beside BadRequest.
constexpr size_t kMaxViolationBytes = kMaxDetailsBytes - 1400;
constexpr size_t kMaxFieldBytes = 120;
constexpr size_t kMaxDescriptionBytes = 300;

std::string Describe(const Violations::Violation& violation) {
  std::string text = Clip(violation.description, kMaxDescriptionBytes);
  if (violation.count > 1) {
    absl::StrAppend(&text, " (first of ", violation.count, ")");
  }
  return text;
}

// "text; text; and N more", within kMaxMessageBytes.
std::string JoinWithinLimit(absl::Span<const Violations::Violation> list) {
  std::string message;
  size_t shown = 0;
  for (const auto& violation : list) {
    const std::string part = absl::StrCat(shown == 0 ? "" : "; ",
                                          Clip(violation.field, kMaxFieldBytes),
                                          ": ", Describe(violation));
    if (message.size() + part.size() > kMaxMessageBytes - 32) break;
    message += part;
    ++shown;
  }
  if (shown < list.size()) {
    absl::StrAppend(&message, "; and ", list.size() - shown, " more");
  }
  return message;
}

rpc::v1::BadRequest ToBadRequest(absl::Span<const Violations::Violation> list) {
  rpc::v1::BadRequest bad;
  size_t bytes = 0, shown = 0;
  for (const auto& violation : list) {
    const std::string field = Clip(violation.field, kMaxFieldBytes);
    const std::string description = Describe(violation);
    bytes += field.size() + description.size() + 8;
    if (bytes > kMaxViolationBytes) break;
    auto* out = bad.add_field_violations();
    out->set_field(field);
    out->set_description(description);
    ++shown;
  }
  if (shown < list.size()) {
    bad.add_field_violations()->set_description(
        absl::StrCat("and ", list.size() - shown, " more"));
  }
  return bad;
}

}  // namespace

void Violations::Add(absl::string_view field, absl::string_view description,
                     int64_t count) {
  if (const auto known = places_.find(field); known != places_.end()) {
    list_[known->second].count += count;
    return;
  }
  Append({.field = std::string(field),
          .description = std::string(description),
          .count = count});
}

void Violations::Append(const Violation& violation) {
  places_.try_emplace(violation.field, list_.size());
  list_.push_back(violation);
}

bool Violations::HasEntry(absl::string_view prefix) const {
  for (auto it = places_.lower_bound(prefix);
       it != places_.end() && absl::StartsWith(it->first, prefix); ++it) {
    if (absl::EndsWith(it->first, "]")) return true;
  }
  return false;
}

void Violations::AddStatus(const absl::Status& status, absl::string_view prefix,
                           absl::string_view field) {
  if (status.ok()) return;
  const absl::string_view message = status.message();
  const size_t colon = message.find(": ");
  const absl::string_view path = message.substr(0, colon);
  const bool has_path =
      colon != absl::string_view::npos &&
      path.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.[], ") ==
          absl::string_view::npos;
  if (has_path) {
    Add(absl::StrCat(prefix, path), message.substr(colon + 2));
  } else {
    Add(absl::StrCat(prefix, field), message);
  }
}

absl::Status Violations::ToStatus(Reason reason) const {
  if (list_.empty()) return absl::OkStatus();
  absl::Status status = Refuse(reason, JoinWithinLimit(list_));
  AttachDetail("BadRequest", ToBadRequest(list_), status);
  return status;
}

}  // namespace attnd::server
