#include "server/list_encodings.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/status.h"
#include "server/violations.h"

namespace attnd::server {

absl::Status CheckListing(const v1::ListEncodingsRequest& request,
                          const v1::Limits& limits) {
  Violations violations;
  if (request.names_size() > kMaxListNames) {
    violations.Add("names",
                   absl::StrCat(request.names_size(),
                                " entries, expected at most ", kMaxListNames));
  }
  const auto check = [&](absl::string_view field, int64_t value, int64_t most) {
    if (value < 0 || value > most) {
      violations.Add(field, absl::StrCat(value, ", expected 0 to ", most));
    }
  };
  check("head_dim", request.head_dim(), limits.dim());
  check("query_heads", request.query_heads(), limits.heads());
  check("kv_heads", request.kv_heads(), limits.heads());
  check("length", request.length(), limits.rows());
  if (request.kv_heads() > 0 && request.query_heads() % request.kv_heads()) {
    violations.Add("kv_heads",
                   absl::StrCat(request.kv_heads(), ", expected a divisor of ",
                                "query_heads (", request.query_heads(), ")"));
  }
  return violations.ToStatus();
}

namespace {

// The sizes asked for; what is not, from the encoding.
EncoderSizes ListSizes(const v1::ListEncodingsRequest& request,
                       const EncodingSpec& spec) {
  EncoderSizes sizes = NominalSizes(spec);
  if (request.head_dim() > 0) sizes.head_dim = request.head_dim();
  if (request.kv_heads() > 0) {
    sizes.query_heads = sizes.kv_heads = request.kv_heads();
  }
  if (request.query_heads() > 0) {
    sizes.query_heads = request.query_heads();
    if (request.kv_heads() == 0) sizes.kv_heads = sizes.query_heads;
  }
  sizes.length = request.length();
  return sizes;
}

}  // namespace

absl::Status ListEncodings(const EncodingCatalog& catalog,
                           const v1::Limits& limits,
                           const v1::ListEncodingsRequest& request,
                           v1::ListEncodingsResponse& reply,
                           const std::atomic<bool>* stop) {
  const absl::Status checked = CheckListing(request, limits);
  if (!checked.ok()) return checked;
  std::vector<const NamedEncoding*> wanted;
  std::set<absl::string_view> seen;
  for (const std::string& name : request.names()) {
    if (!seen.insert(name).second) continue;
    wanted.push_back(catalog.Find(name));
    if (wanted.back() == nullptr) {
      return RefuseEncoding(name, catalog.names());
    }
  }
  const auto most = static_cast<size_t>(limits.message_bytes());
  size_t bytes = reply.ByteSizeLong();
  if (wanted.empty()) {
    for (const NamedEncoding& encoding : catalog.encodings()) {
      wanted.push_back(&encoding);
    }
  }
  for (const NamedEncoding* encoding : wanted) {
    if (stop != nullptr && *stop) return absl::CancelledError("stopped");
    absl::StatusOr<v1::ResolvedEncoding> resolved =
        Resolve(*encoding, ListSizes(request, encoding->spec));
    if (!resolved.ok() && request.names_size() > 0) {
      Violations violations;
      violations.Add("head_dim",
                     absl::StrCat("\"", encoding->name, "\" does not fit: ",
                                  resolved.status().message()));
      return violations.ToStatus();
    }
    // One that does not fit must not hide the others.
    if (!resolved.ok()) resolved = Misfit(*encoding, resolved.status());
    // With its tag and length.
    bytes += resolved->ByteSizeLong() + 10;
    if (bytes > most) {
      reply.clear_encodings();
      return RefuseSize(absl::StrCat("the list up to \"", encoding->name, "\""),
                        static_cast<double>(bytes), "limits.message_bytes",
                        static_cast<double>(most), "bytes");
    }
    *reply.add_encodings() = *std::move(resolved);
  }
  return absl::OkStatus();
}

}  // namespace attnd::server
