#include "server/request_check.h"

#include <cmath>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "proto/wire.h"
#include "server/time_check.h"

namespace attnd::server {
namespace {

constexpr size_t kMaxRequestIdBytes = 128;

absl::Span<const int64_t> ToSpan(
    const google::protobuf::RepeatedField<int64_t>& field) {
  return absl::MakeConstSpan(field.data(), static_cast<size_t>(field.size()));
}

// Extents of a 4-axis tensor by meaning, whatever the layout.
struct Extents {
  int64_t batch = 0, heads = 0, rows = 0, cols = 0;
};

class Checker {
 public:
  Checker(const v1::AttendRequest& request, const v1::Limits& limits,
          Payload payload, Violations& violations)
      : request_(request),
        limits_(limits),
        payload_(payload),
        violations_(violations) {}

  RequestSizes Check();

 private:
  // Extents of query, key or value, after checking all that concerns it alone;
  // nullopt if its shape means nothing.
  std::optional<Extents> CheckTensor(bool present, const v1::Tensor& tensor,
                                     const std::string& field);
  void CheckLimits(const Extents& extents, const std::string& field);
  void CheckBytes(const v1::Tensor& tensor, const std::string& field);
  void CheckAgreement(const Extents& query, const Extents& key,
                      const Extents& value);
  void CheckBias();
  void CheckRowTensor(const v1::Tensor& tensor, const std::string& field,
                      int64_t heads, int64_t rows, bool channels);
  void CheckRowTensors();
  void Expect(bool ok, absl::string_view field, absl::string_view description) {
    if (!ok) violations_.Add(field, description);
  }

  const v1::AttendRequest& request_;
  const v1::Limits& limits_;
  const Payload payload_;
  Violations& violations_;
  RequestSizes sizes_;
};

void Checker::CheckLimits(const Extents& extents, const std::string& field) {
  const struct {
    absl::string_view axis;
    int64_t extent, least, most;
    absl::string_view limit;
  } axes[] = {
      {"B", extents.batch, 0, limits_.batch(), "limits.batch"},
      {"H", extents.heads, 1, limits_.heads(), "limits.heads"},
      {"L", extents.rows, 0, limits_.rows(), "limits.rows"},
      {"D", extents.cols, field == "value" ? 0 : 1, limits_.dim(),
       "limits.dim"},
  };
  for (const auto& a : axes) {
    if (a.extent < a.least || a.extent > a.most) {
      violations_.Add(
          field + ".shape",
          absl::StrCat("axis ", a.axis, " is ", a.extent, ", expected ",
                       a.least, " to ", a.most, " (", a.limit, ")"));
    }
  }
}

void Checker::CheckBytes(const v1::Tensor& tensor, const std::string& field) {
  const auto bytes = wire::TensorBytes(tensor.dtype(), ToSpan(tensor.shape()));
  const auto what = [&] {
    return absl::StrCat(wire::DTypeText(tensor.dtype()), " ",
                        wire::ShapeText(ToSpan(tensor.shape())));
  };
  if (!bytes) {
    violations_.Add(
        field + ".shape",
        absl::StrCat(what(), " has more bytes than can be counted"));
  } else if (payload_ == Payload::kAbsent) {
    Expect(tensor.data().empty(), field + ".data",
           "expected empty: an estimate needs shapes alone");
  } else if (*bytes != static_cast<int64_t>(tensor.data().size())) {
    violations_.Add(field + ".data",
                    absl::StrCat(tensor.data().size(), " bytes, expected ",
                                 *bytes, " (", what(), ")"));
  }
}

std::optional<Extents> Checker::CheckTensor(bool present,
                                            const v1::Tensor& tensor,
                                            const std::string& field) {
  if (!present) {
    violations_.Add(field, "required");
    return std::nullopt;
  }
  bool known = true;
  if (wire::ElementBytes(tensor.dtype()) == 0) {
    violations_.Add(field + ".dtype",
                    absl::StrCat(static_cast<int>(tensor.dtype()),
                                 ", expected DTYPE_F32, DTYPE_BF16 or "
                                 "DTYPE_F16"));
    known = false;
  }
  if (!v1::Layout_IsValid(tensor.layout())) {
    violations_.Add(
        field + ".layout",
        absl::StrCat("unknown value ", static_cast<int>(tensor.layout())));
  }
  if (tensor.shape_size() != 4) {
    violations_.Add(field + ".shape",
                    absl::StrCat(tensor.shape_size(), " axes, expected 4"));
    return std::nullopt;
  }
  const bool blhd = tensor.layout() == v1::LAYOUT_BLHD;
  const Extents extents = {.batch = tensor.shape(0),
                           .heads = tensor.shape(blhd ? 2 : 1),
                           .rows = tensor.shape(blhd ? 1 : 2),
                           .cols = tensor.shape(3)};
  if (field != "bias") CheckLimits(extents, field);
  if (known) CheckBytes(tensor, field);
  return extents;
}

void Checker::CheckAgreement(const Extents& query, const Extents& key,
                             const Extents& value) {
  const auto agree = [&](int64_t extent, int64_t expected,
                         const std::string& field, absl::string_view axis,
                         absl::string_view of) {
    if (extent != expected) {
      violations_.Add(field + ".shape",
                      absl::StrCat("axis ", axis, " is ", extent,
                                   ", but that of ", of, " is ", expected));
    }
  };
  agree(key.batch, query.batch, "key", "B", "query");
  agree(value.batch, query.batch, "value", "B", "query");
  agree(key.cols, query.cols, "key", "D", "query");
  agree(value.rows, key.rows, "value", "L", "key");
  agree(value.heads, key.heads, "value", "H", "key");
  if (key.heads > 0 && query.heads % key.heads != 0) {
    violations_.Add(
        "key.shape",
        absl::StrCat("axis H is ", key.heads,
                     ", which does not divide the query's ", query.heads));
  }
  sizes_ = {.batch = query.batch,
            .query_heads = query.heads,
            .kv_heads = key.heads,
            .queries = query.rows,
            .keys = key.rows,
            .dim = query.cols,
            .value_dim = value.cols};
}

void Checker::CheckBias() {
  const auto extents = CheckTensor(true, request_.bias(), "bias");
  if (!extents) return;
  const auto fits = [](int64_t extent, int64_t full) {
    return extent == 1 || extent == full;
  };
  Expect(fits(extents->batch, sizes_.batch) &&
             fits(extents->heads, sizes_.query_heads) &&
             fits(extents->rows, sizes_.queries) &&
             fits(extents->cols, sizes_.keys),
         "bias.shape",
         absl::StrCat(wire::ShapeText(ToSpan(request_.bias().shape())),
                      ", expected B|1=", sizes_.batch,
                      ", Hq|1=", sizes_.query_heads, ", Lq|1=", sizes_.queries,
                      ", Lk|1=", sizes_.keys));
}

// f32 [B,H,L] or, with channels, [B,H,L,C].
void Checker::CheckRowTensor(const v1::Tensor& tensor, const std::string& field,
                             int64_t heads, int64_t rows, bool channels) {
  const auto shape = ToSpan(tensor.shape());
  const bool fits = (shape.size() == 3 || (channels && shape.size() == 4)) &&
                    shape[0] == sizes_.batch && shape[1] == heads &&
                    shape[2] == rows && (shape.size() < 4 || shape[3] >= 1);
  if (tensor.dtype() != v1::DTYPE_F32) {
    violations_.Add(
        field + ".dtype",
        absl::StrCat(wire::DTypeText(tensor.dtype()), ", expected DTYPE_F32"));
  } else if (!fits) {
    violations_.Add(
        field + ".shape",
        absl::StrCat(wire::ShapeText(shape), ", expected [", sizes_.batch, ",",
                     heads, ",", rows,
                     channels ? "] or with channels as a last axis" : "]"));
  } else {
    CheckBytes(tensor, field);
  }
}

void Checker::CheckRowTensors() {
  if (request_.has_query_clock()) {
    CheckRowTensor(request_.query_clock(), "query_clock", sizes_.kv_heads,
                   sizes_.queries, true);
  }
  if (request_.has_key_clock()) {
    CheckRowTensor(request_.key_clock(), "key_clock", sizes_.kv_heads,
                   sizes_.keys, true);
  }
  if (request_.has_gates()) {
    CheckRowTensor(request_.gates(), "gates", sizes_.query_heads, sizes_.keys,
                   false);
  }
}

RequestSizes Checker::Check() {
  if (request_.request_id().size() > kMaxRequestIdBytes) {
    violations_.Add("request_id", absl::StrCat(request_.request_id().size(),
                                               " bytes, expected at most ",
                                               kMaxRequestIdBytes));
  }
  const auto query =
      CheckTensor(request_.has_query(), request_.query(), "query");
  const auto key = CheckTensor(request_.has_key(), request_.key(), "key");
  const auto value =
      CheckTensor(request_.has_value(), request_.value(), "value");
  if (query && key && value) {
    CheckAgreement(*query, *key, *value);
    CheckTimes(request_, sizes_, payload_, violations_);
    if (request_.has_bias()) CheckBias();
    CheckRowTensors();
  }
  if (!v1::TwoSidedRule_IsValid(request_.two_sided())) {
    violations_.Add(
        "two_sided",
        absl::StrCat("unknown value ", static_cast<int>(request_.two_sided())));
  }
  Expect(!request_.has_scale() || std::isfinite(request_.scale()), "scale",
         "expected finite");
  return sizes_;
}

}  // namespace

RequestSizes CheckRequest(const v1::AttendRequest& request,
                          const v1::Limits& limits, Payload payload,
                          Violations& violations) {
  const RequestSizes sizes =
      Checker(request, limits, payload, violations).Check();
  CheckOptions(request, violations);
  return sizes;
}

}  // namespace attnd::server
