#include "server/encoding_choice.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/visibility.h"
#include "server/plan_bytes.h"
#include "server/status.h"

namespace attnd::server {
namespace {

int64_t TickNanoseconds(v1::TickUnit unit) {
  switch (unit) {
    case v1::TICK_UNIT_NANOSECONDS:
      return 1;
    case v1::TICK_UNIT_MICROSECONDS:
      return 1000;
    case v1::TICK_UNIT_MILLISECONDS:
      return 1000 * 1000;
    case v1::TICK_UNIT_POSITIONS:
      return 0;
    default:
      return 1000 * 1000 * 1000;
  }
}

// Nanoseconds of a tick of the request (of a unit of F64 times) along one
// coordinate; 0 for positions and without times.
int64_t RequestTick(const v1::AttendRequest& request, int coordinate = 0) {
  if (!request.has_query_time()) return 0;
  const v1::TimeAxis& axis = request.query_time();
  if (axis.units().empty()) return TickNanoseconds(v1::TICK_UNIT_UNSPECIFIED);
  return TickNanoseconds(
      axis.units(std::min(coordinate, axis.units_size() - 1)));
}

// One tick is one unit where the request counts in positions.
TickRatio RatioFor(int64_t tick_ns, int64_t unit_ns) {
  return tick_ns == 0 ? kPositionRatio
                      : TickRatio{.tick_ns = tick_ns, .unit_ns = unit_ns};
}

class Chooser {
 public:
  Chooser(const v1::AttendRequest& request, const DecodeContext& context,
          bool complete_visibility, Violations& violations, DecodedRequest& out,
          std::string& hash)
      : request_(request),
        context_(context),
        complete_visibility_(complete_visibility),
        violations_(violations),
        out_(out),
        hash_(hash) {}

  absl::Status Choose();

 private:
  absl::Status CompileEncoding(const NamedEncoding& encoding,
                               const std::string& field, EncoderCache& cache);
  void CheckDenseBlocks();

  const v1::AttendRequest& request_;
  const DecodeContext& context_;
  const bool complete_visibility_;
  Violations& violations_;
  DecodedRequest& out_;
  std::string& hash_;
};

absl::Status Chooser::CompileEncoding(const NamedEncoding& encoding,
                                      const std::string& field,
                                      EncoderCache& cache) {
  hash_ = encoding.hash;
  if (!encoding.uses_time()) return absl::OkStatus();
  const int64_t tick_ns = RequestTick(request_);
  // Without a unit an encoding counts keys alone (log_length).
  const bool counts_units = !encoding.definition.time_unit().empty();
  if (counts_units && encoding.spec.unit_ns == 0 && tick_ns != 0) {
    violations_.Add(field,
                    absl::StrCat("\"", out_.encoding_name,
                                 "\" counts in positions, but the times have a "
                                 "real unit: send ticks in POSITIONS (or no "
                                 "times), or give the encoding a time_unit"));
    return absl::OkStatus();
  }
  bool absolute_lag = encoding.spec.absolute_lag;
  if (request_.two_sided() != v1::TWO_SIDED_RULE_UNSPECIFIED) {
    absolute_lag = request_.two_sided() == v1::TWO_SIDED_RULE_ABSOLUTE_LAG;
  }
  EncoderSizes sizes = {.head_dim = static_cast<int>(out_.sizes.dim),
                        .query_heads = static_cast<int>(out_.sizes.query_heads),
                        .kv_heads = static_cast<int>(out_.sizes.kv_heads)};
  const TickRatio ratio =
      counts_units ? RatioFor(tick_ns, encoding.spec.unit_ns) : kPositionRatio;
  std::vector<TickRatio> further;
  for (int c = 1; c < request_.query_time().coordinates(); ++c) {
    const std::vector<int64_t>& units = encoding.spec.coordinate_unit_ns;
    const auto index = static_cast<size_t>(c - 1);
    if (!counts_units) {
      further.push_back(kPositionRatio);
      continue;
    }
    further.push_back(
        RatioFor(RequestTick(request_, c),
                 index < units.size() ? units[index] : encoding.spec.unit_ns));
  }
  using Found = absl::StatusOr<std::shared_ptr<const Encoder>>;
  const auto get = [&](int64_t length) -> Found {
    sizes.length = length;
    if (context_.compiling == Compiling::kYes) {
      return cache.Get(encoding, absolute_lag, sizes, ratio, further,
                       context_.stop);
    }
    auto found = cache.Find(encoding, absolute_lag, sizes, ratio, further);
    if (found == nullptr) return WorkerNeeded("not compiled yet");
    return found;
  };
  auto encoder = get(0);
  // Scalings that depend on the item's own length: one encoder per item.
  if (encoder.ok() && (*encoder)->length_dependent()) {
    for (int64_t n = 0; n < Items(request_, out_.sizes) && encoder.ok(); ++n) {
      encoder = get(ValidKeyCount(out_.problem.key_time, out_.problem.mask, n,
                                  out_.sizes.keys));
      if (encoder.ok()) out_.problem.item_encoders.push_back(*encoder);
    }
  }
  if (IsWorkerNeeded(encoder.status()) || absl::IsCancelled(encoder.status())) {
    return encoder.status();
  }
  if (!encoder.ok()) {
    violations_.Add(field, absl::StrCat("\"", out_.encoding_name,
                                        "\" does not fit the request: ",
                                        encoder.status().message()));
  } else if (!complete_visibility_) {
    out_.problem.encoder = *std::move(encoder);
  } else {
    out_.problem.item_encoders.clear();
  }
  return absl::OkStatus();
}

// Of an encoding that the request brings: compiling costs their cube.
void Chooser::CheckDenseBlocks() {
  const auto check = [&](const auto& blocks, const std::string& path) {
    for (int i = 0; i < blocks.size(); ++i) {
      const int dim = blocks[i].dense().dim();
      if (dim <= context_.inline_dense_dim) continue;
      violations_.Add(
          absl::StrCat(path, ".blocks[", i, "].dense.dim"),
          absl::StrCat(dim, ", more than inline_encodings.dense_dim = ",
                       context_.inline_dense_dim));
    }
  };
  const v1::Encoding& encoding = request_.inline_encoding();
  check(encoding.blocks(), "inline_encoding");
  for (int i = 0; i < encoding.per_head_size(); ++i) {
    check(encoding.per_head(i).blocks(),
          absl::StrCat("inline_encoding.per_head[", i, "]"));
  }
}

absl::Status Chooser::Choose() {
  switch (request_.encoding_choice_case()) {
    case v1::AttendRequest::ENCODING_CHOICE_NOT_SET:
      out_.encoding_name = kNopeName;
      return absl::OkStatus();
    case v1::AttendRequest::kEncoding: {
      const NamedEncoding* encoding =
          context_.encodings.Find(request_.encoding());
      if (encoding == nullptr) {
        return RefuseEncoding(request_.encoding(), context_.encodings.names());
      }
      out_.encoding_name = encoding->name;
      return CompileEncoding(*encoding, "encoding",
                             context_.encodings.configured_encoders());
    }
    case v1::AttendRequest::kInlineEncoding:
      break;
  }
  if (!context_.inline_encodings_allowed) {
    return Refuse(Reason::kForbidden,
                  "inline_encoding: this server takes configured encodings "
                  "only (inline_encodings.allowed is false); name one of them "
                  "in `encoding`, or have whoever runs it allow others");
  }
  out_.encoding_name = "inline";
  const size_t known = violations_.list().size();
  CheckDenseBlocks();
  // What is in the cache was checked, and all else is checked when it is
  // compiled.
  const auto checks = context_.compiling == Compiling::kYes
                          ? EncodingChecks::kAll
                          : EncodingChecks::kAllButEigenvalues;
  const NamedEncoding encoding =
      ReadEncoding(request_.inline_encoding(), "inline_encoding.", violations_,
                   checks, context_.stop);
  if (violations_.list().size() > known) return absl::OkStatus();
  return CompileEncoding(encoding, "inline_encoding",
                         context_.encodings.inline_encoders());
}

}  // namespace

absl::Status ChooseEncoding(const v1::AttendRequest& request,
                            const DecodeContext& context,
                            bool complete_visibility, Violations& violations,
                            DecodedRequest& out, std::string& hash) {
  return Chooser(request, context, complete_visibility, violations, out, hash)
      .Choose();
}

TickRatio RequestRatio(const v1::AttendRequest& request, int64_t unit_ns) {
  return RatioFor(RequestTick(request), unit_ns);
}

}  // namespace attnd::server
