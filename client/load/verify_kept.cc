#include "client/load/verify_kept.h"

#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <utility>

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

void Save(const v1::AttendRequest& request, const std::string& reason,
          const std::string& prefix, Verification* found,
          std::vector<std::string>* texts) {
  const size_t saved = found->mismatches.size() + found->unverified.size();
  if (saved == kSavedRequests) return;
  const std::string path =
      SavedRequestPath(prefix, static_cast<int>(saved) + 1);
  const absl::Status written = WriteFile(path, request.SerializeAsString());
  texts->push_back(
      written.ok() ? absl::StrCat(reason, "; attnctl attend --replay ", path,
                                  " sends it again")
                   : absl::StrCat(reason, "; its request could not be saved: ",
                                  written.message()));
}

// What requests should be answered, one after the other.
class References {
 public:
  explicit References(const Client& client) : client_(client) {}

  const absl::StatusOr<resolved::Answer>& latest() const { return latest_; }

  void Compute(const v1::AttendRequest& request) {
    if (!unreachable_.ok() && !request.encoding().empty()) {
      latest_ = unreachable_;
      return;
    }
    latest_ = Reference(request, client_);
    if (absl::IsUnavailable(latest_.status()) ||
        absl::IsDeadlineExceeded(latest_.status())) {
      unreachable_ = latest_.status();
    }
  }

 private:
  const Client& client_;
  absl::StatusOr<resolved::Answer> latest_ = absl::UnknownError("none yet");
  // Why the server will not be asked again.
  absl::Status unreachable_;
};

}  // namespace

std::string SavedRequestPath(const std::string& prefix, int number) {
  return absl::StrCat(prefix, "-", number, ".pb");
}

Verification VerifyKept(std::vector<KeptAnswer> kept,
                        const std::vector<const v1::AttendRequest*>& requests,
                        const Client& client, const std::string& prefix,
                        const std::atomic<bool>* stop) {
  Verification found;
  // One reference serves all answers to a request.
  std::stable_sort(kept.begin(), kept.end(),
                   [](const KeptAnswer& a, const KeptAnswer& b) {
                     return a.request < b.request;
                   });
  References references(client);
  int number = -1;
  for (KeptAnswer& answer : kept) {
    const v1::AttendRequest& request = *requests[answer.request];
    const bool next = number != answer.request;
    if (next && stop != nullptr && *stop) {
      found.not_kept += static_cast<int64_t>(&kept.back() - &answer) + 1;
      break;
    }
    if (next) references.Compute(request);
    number = answer.request;
    const absl::StatusOr<resolved::Answer>& reference = references.latest();
    if (!reference.ok()) {
      ++found.unverifiable;
      if (next) {
        const absl::Status& why = reference.status();
        Save(request,
             absl::StrCat(absl::StatusCodeToString(why.code()), ": ",
                          why.message()),
             prefix, &found, &found.unverified);
      }
      continue;
    }
    ++found.checked;
    const std::string fault =
        Fault(request, &answer.answer, *reference, &found);
    if (fault.empty()) continue;
    ++found.wrong;
    Save(request, fault, prefix, &found, &found.mismatches);
  }
  return found;
}

}  // namespace attnd::client
