#include "client/load/verify_kept.h"

#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/files.h"

namespace attnd::client {
namespace {

// What is wrong with an answer; empty = nothing.
std::string Fault(const v1::AttendRequest& request, grpc::ByteBuffer* bytes,
                  const resolved::Answer& reference, Verification* found) {
  v1::AttendResponse answer;
  grpc::ProtoBufferReader reader(bytes);
  if (!answer.ParseFromZeroCopyStream(&reader)) return "no AttendResponse";
  const absl::StatusOr<double> share = ErrorShare(request, answer, reference);
  if (!share.ok()) return std::string(share.status().message());
  found->largest_error_share = std::max(found->largest_error_share, *share);
  if (*share <= 1) return "";
  return absl::StrFormat("error %.3g times the contract's bound", *share);
}

}  // namespace

std::string SavedRequestPath(const std::string& prefix, int number) {
  return absl::StrCat(prefix, "-", number, ".pb");
}

absl::StatusOr<Verification> VerifyKept(
    std::vector<KeptAnswer> kept,
    const std::vector<const v1::AttendRequest*>& requests, const Client& client,
    const std::string& prefix, const std::atomic<bool>* stop) {
  Verification found;
  // One reference serves all answers to a request.
  std::stable_sort(kept.begin(), kept.end(),
                   [](const KeptAnswer& a, const KeptAnswer& b) {
                     return a.request < b.request;
                   });
  std::optional<resolved::Answer> reference;
  int reference_of = -1;
  for (KeptAnswer& answer : kept) {
    const v1::AttendRequest& request = *requests[answer.request];
    if (reference_of != answer.request) {
      if (stop != nullptr && *stop) {
        found.not_kept += static_cast<int64_t>(&kept.back() - &answer) + 1;
        break;
      }
      auto computed = Reference(request, client);
      if (!computed.ok()) return computed.status();
      reference = *std::move(computed);
      reference_of = answer.request;
    }
    ++found.checked;
    const std::string fault =
        Fault(request, &answer.answer, *reference, &found);
    if (fault.empty()) continue;
    ++found.wrong;
    if (found.mismatches.size() == kSavedRequests) continue;
    const std::string path =
        SavedRequestPath(prefix, static_cast<int>(found.mismatches.size()) + 1);
    absl::Status written = WriteFile(path, request.SerializeAsString());
    found.mismatches.push_back(
        written.ok() ? absl::StrCat(fault, "; attnctl attend --replay ", path,
                                    " sends it again")
                     : absl::StrCat(fault, "; its request could not be saved: ",
                                    written.message()));
  }
  return found;
}

}  // namespace attnd::client
