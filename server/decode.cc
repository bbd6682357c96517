#include "server/decode.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/float16.h"
#include "proto/wire.h"
#include "server/encoding_choice.h"
#include "server/plan_bytes.h"
#include "server/status.h"
#include "server/violations.h"

namespace attnd::server {
namespace {

Layout ToLayout(v1::Layout layout) {
  return layout == v1::LAYOUT_BLHD ? Layout::kBLHD : Layout::kBHLD;
}

DType ToDType(v1::DType dtype) {
  switch (dtype) {
    case v1::DTYPE_BF16:
      return DType::kBF16;
    case v1::DTYPE_F16:
      return DType::kF16;
    default:
      return DType::kF32;
  }
}

absl::StatusOr<TensorRef> ToTensor(const v1::Tensor& tensor, Payload payload) {
  const bool blhd = tensor.layout() == v1::LAYOUT_BLHD;
  const Shape4 shape = {.batch = tensor.shape(0),
                        .heads = tensor.shape(blhd ? 2 : 1),
                        .rows = tensor.shape(blhd ? 1 : 2),
                        .cols = tensor.shape(3)};
  absl::Span<const char> bytes(tensor.data().data(), tensor.data().size());
  if (payload == Payload::kAbsent) {
    // Plan::Make reads shapes and never these bytes.
    bytes = absl::Span<const char>(
        static_cast<const char*>(nullptr),
        static_cast<size_t>(*wire::ElementCount(tensor.shape()) *
                            wire::ElementBytes(tensor.dtype())));
  }
  return TensorRef::Make(bytes, ToDType(tensor.dtype()),
                         ToLayout(tensor.layout()), shape);
}

// A clock [B,H,L] or [B,H,L,channels], or gates [B,H,L], as [B,H,L,channels].
absl::StatusOr<TensorRef> ToRowTensor(const v1::Tensor& tensor) {
  return TensorRef::Make(
      absl::Span<const char>(tensor.data().data(), tensor.data().size()),
      DType::kF32, Layout::kBHLD,
      {.batch = tensor.shape(0),
       .heads = tensor.shape(1),
       .rows = tensor.shape(2),
       .cols = tensor.shape_size() == 4 ? tensor.shape(3) : 1});
}

class Decoder {
 public:
  Decoder(const v1::AttendRequest& request, const DecodeContext& context,
          Payload payload)
      : request_(request), context_(context), payload_(payload) {}

  absl::StatusOr<DecodedRequest> Decode();

 private:
  absl::Status DecodeTensors();
  absl::Status DecodeTimes();
  void DecodeMask();
  absl::Status DecodeLinear();
  void DecodeOutputs();

  // Estimate without times' data: every key counts as visible.
  bool complete_visibility() const {
    return payload_ == Payload::kAbsent && request_.has_query_time() &&
           request_.query_time().data().empty();
  }

  const v1::AttendRequest& request_;
  const DecodeContext& context_;
  const Payload payload_;
  Violations violations_;
  std::string encoding_hash_;  // empty without one
  DecodedRequest out_;
};

absl::Status Decoder::DecodeTensors() {
  const struct {
    const v1::Tensor& tensor;
    TensorRef& ref;
    bool present;
  } tensors[] = {
      {request_.query(), out_.problem.query, true},
      {request_.key(), out_.problem.key, true},
      {request_.value(), out_.problem.value, true},
      // An estimate's bias has no bytes; adding it costs next to nothing.
      {request_.bias(), out_.problem.bias,
       request_.has_bias() && payload_ == Payload::kPresent},
  };
  for (const auto& t : tensors) {
    if (!t.present) continue;
    absl::StatusOr<TensorRef> ref = ToTensor(t.tensor, payload_);
    if (!ref.ok()) return Refuse(Reason::kInternal, ref.status().message());
    t.ref = *ref;
  }
  const struct {
    const v1::Tensor& tensor;
    TensorRef& ref;
    bool present;
  } rows[] = {
      {request_.query_clock(), out_.problem.query_clock,
       request_.has_query_clock()},
      {request_.key_clock(), out_.problem.key_clock, request_.has_key_clock()},
      {request_.gates(), out_.problem.gates, request_.has_gates()},
  };
  for (const auto& t : rows) {
    if (!t.present || payload_ == Payload::kAbsent) continue;
    absl::StatusOr<TensorRef> ref = ToRowTensor(t.tensor);
    if (!ref.ok()) return Refuse(Reason::kInternal, ref.status().message());
    t.ref = *ref;
  }
  if (request_.has_softcap()) out_.problem.softcap = request_.softcap();
  out_.problem.prune_tolerance = request_.prune_tolerance();
  out_.problem.bf16_compute = request_.compute() == v1::COMPUTE_PRECISION_BF16;
  out_.problem.scale =
      request_.has_scale()
          ? request_.scale()
          : static_cast<float>(1 /
                               std::sqrt(static_cast<double>(out_.sizes.dim)));
  return absl::OkStatus();
}

absl::Status Decoder::DecodeTimes() {
  if (!request_.has_query_time() || complete_visibility()) {
    return absl::OkStatus();
  }
  const auto decode = [&](const v1::TimeAxis& axis, int64_t rows) {
    return TimeAxis::Make(
        axis.type() == v1::TIME_TYPE_F64 ? TimeAxis::Kind::kReal
                                         : TimeAxis::Kind::kTicks,
        absl::Span<const char>(axis.data().data(), axis.data().size()),
        out_.sizes.batch, rows,
        axis.shape_size() == (axis.coordinates() > 1 ? 3 : 2),
        std::max(1, axis.coordinates()));
  };
  const auto query = decode(request_.query_time(), out_.sizes.queries);
  const auto key = decode(request_.key_time(), out_.sizes.keys);
  for (const absl::Status& status : {query.status(), key.status()}) {
    if (!status.ok()) return Refuse(Reason::kInternal, status.message());
  }
  out_.problem.query_time = *query;
  out_.problem.key_time = *key;
  return absl::OkStatus();
}

void Decoder::DecodeMask() {
  const v1::Mask& in = request_.mask();
  MaskSpec& mask = out_.problem.mask;
  const auto lengths = [](const auto& field) {
    return absl::Span<const int64_t>(field.data(),
                                     static_cast<size_t>(field.size()));
  };
  mask.query_lengths = lengths(in.query_lengths());
  mask.key_lengths = lengths(in.key_lengths());
  mask.key_validity = absl::Span<const char>(in.key_validity().data(),
                                             in.key_validity().size());
  mask.query_offsets = lengths(in.query_offsets());
  mask.key_offsets = lengths(in.key_offsets());
  out_.problem.sinks = absl::Span<const float>(
      in.sinks().data(), static_cast<size_t>(in.sinks_size()));
  out_.problem.value_mask = absl::Span<const char>(
      in.value_channel_mask().data(), in.value_channel_mask().size());
  if (complete_visibility()) return;
  mask.causal = in.causal() == v1::CAUSALITY_TIME;
  mask.causal_index = in.causal() == v1::CAUSALITY_INDEX;
  mask.strict = in.strict();
  if (in.has_past_keys()) mask.past_keys = in.past_keys();
  if (in.has_future_keys()) mask.future_keys = in.future_keys();
  mask.prefix = in.prefix();
  for (const v1::TimeRange& range : in.key_ranges()) {
    mask.key_ranges.push_back({.begin_ticks = range.begin_ticks(),
                               .end_ticks = range.end_ticks(),
                               .begin_time = range.begin_time(),
                               .end_time = range.end_time()});
  }
  if (in.has_past_ticks()) mask.past_ticks = in.past_ticks();
  if (in.has_future_ticks()) mask.future_ticks = in.future_ticks();
  if (in.has_past_time()) mask.past_time = in.past_time();
  if (in.has_future_time()) mask.future_time = in.future_time();
}

void Decoder::DecodeOutputs() {
  OutputSet& outputs = out_.problem.outputs;
  outputs = {.output = request_.outputs().empty()};
  for (const int output : request_.outputs()) {
    outputs.output |= output == v1::OUTPUT_OUTPUT;
    outputs.lse |= output == v1::OUTPUT_LSE;
    outputs.scores |= output == v1::OUTPUT_SCORES;
    outputs.weights |= output == v1::OUTPUT_WEIGHTS;
    outputs.entropy |= output == v1::OUTPUT_ENTROPY;
    outputs.key_mass |= output == v1::OUTPUT_KEY_MASS;
    if (output == v1::OUTPUT_TOP_K) outputs.top_k = request_.top_k();
  }
  out_.problem.output_dtype =
      ToDType(request_.output_dtype() == v1::DTYPE_UNSPECIFIED
                  ? request_.query().dtype()
                  : request_.output_dtype());
}

absl::Status Decoder::DecodeLinear() {
  if (request_.kind() != v1::ATTENTION_KIND_LINEAR) return absl::OkStatus();
  out_.linear =
      ReadLinear(request_, out_.problem, encoding_hash_, payload_, violations_);
  if (absl::Status s = violations_.ToStatus(); !s.ok()) return s;
  // Without an encoding gaps count in seconds, or in positions.
  constexpr int64_t kSecondNs = 1'000'000'000;
  out_.linear->gap_ratio = RequestRatio(request_, kSecondNs);
  out_.reply.bytes += out_.linear->reply_bytes;
  if (out_.reply.bytes > context_.limits.message_bytes()) {
    return RefuseSize(
        "the reply with the final state", static_cast<double>(out_.reply.bytes),
        "limits.message_bytes",
        static_cast<double>(context_.limits.message_bytes()), "bytes");
  }
  return absl::OkStatus();
}

absl::StatusOr<DecodedRequest> Decoder::Decode() {
  out_.sizes = CheckRequest(request_, context_.limits, payload_, violations_);
  // An encoding can be tried against sizes only if these are right.
  if (violations_.empty()) {
    if (absl::Status status = DecodeTimes(); !status.ok()) return status;
    DecodeMask();
    const absl::Status status =
        ChooseEncoding(request_, context_, complete_visibility(), violations_,
                       out_, encoding_hash_);
    if (!status.ok()) return status;
  } else if (request_.has_encoding() &&
             context_.encodings.Find(request_.encoding()) == nullptr) {
    violations_.Add("encoding", absl::StrCat("\"", request_.encoding(),
                                             "\" is not configured"));
  }
  if (absl::Status status = violations_.ToStatus(); !status.ok()) return status;
  DecodeOutputs();
  const auto reply =
      MeasureReply(out_.sizes, out_.problem.outputs, out_.problem.output_dtype,
                   context_.limits.message_bytes());
  if (!reply.ok()) return reply.status();
  out_.reply = *reply;
  if (absl::Status status = DecodeTensors(); !status.ok()) return status;
  if (absl::Status status = DecodeLinear(); !status.ok()) return status;
  out_.plan_bytes = PlanBytes(request_, out_);
  out_.plan_seconds = PlanSeconds(request_, out_.sizes);
  return std::move(out_);
}

// Elements of a bias that are NaN or +inf, hidden pairs' too.
int64_t CountRefused(const TensorRef& bias) {
  const auto step = static_cast<size_t>(ElementBytes(bias.dtype()));
  int64_t count = 0;
  for (size_t i = 0; i + step <= bias.bytes().size(); i += step) {
    const float value = LoadElement(bias.dtype(), bias.bytes().data() + i);
    count += !(value < std::numeric_limits<float>::infinity());
  }
  return count;
}

}  // namespace

DecodeContext DecodeContextOf(const Settings& settings, Compiling compiling,
                              const std::atomic<bool>* stop) {
  const v1::InlineEncodings& inlined =
      settings.config.effective.inline_encodings();
  return {.encodings = settings.encodings,
          .limits = settings.limits(),
          .inline_encodings_allowed = inlined.allowed(),
          .inline_dense_dim = inlined.dense_dim(),
          .compiling = compiling,
          .stop = stop};
}

absl::StatusOr<DecodedRequest> Decode(const v1::AttendRequest& request,
                                      const DecodeContext& context,
                                      Payload payload) {
  return Decoder(request, context, payload).Decode();
}

absl::Status FromPlan(const absl::Status& status,
                      const AttentionProblem& problem) {
  if (status.code() != absl::StatusCode::kInvalidArgument) {
    return Refuse(Reason::kInternal, status.message());
  }
  std::string message(status.message());
  // The plan stops at the first element of a bias that is refused.
  if (absl::StartsWith(message, "bias: ")) {
    absl::StrAppend(&message, "; NaN or +inf elements in all: ",
                    CountRefused(problem.bias));
  }
  Violations violations;
  violations.AddStatus(absl::InvalidArgumentError(message), "", "request");
  return violations.ToStatus();
}

}  // namespace attnd::server
