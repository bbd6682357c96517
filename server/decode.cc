#include "server/decode.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/float16.h"
#include "proto/wire.h"
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

// Items of a request: the batch, or the sequences packed into one.
int64_t Items(const v1::AttendRequest& request, const RequestSizes& sizes) {
  const auto& offsets = request.mask().query_offsets();
  return offsets.empty() ? sizes.batch : offsets.size() - 1;
}

// Keys of an item that lengths, offsets and validity leave.
int64_t ValidKeys(const v1::AttendRequest& request, int64_t keys,
                  int64_t item) {
  const v1::Mask& mask = request.mask();
  const int i = static_cast<int>(item);
  int64_t first = item * keys, length = keys;
  if (!mask.key_lengths().empty()) length = mask.key_lengths(i);
  if (!mask.key_offsets().empty()) {
    first = mask.key_offsets(i);
    length = mask.key_offsets(i + 1) - first;
  }
  if (mask.key_validity().empty()) return length;
  const auto begin = mask.key_validity().begin() + first;
  return length - std::count(begin, begin + length, '\0');
}

// States of the linear kind that come and go, and what its heads hold while
// they are computed.
int64_t LinearBytes(const RequestSizes& sizes, const DecodedLinear& linear,
                    int64_t items, DType output_dtype) {
  // More workers than a machine has, each with a head of its own.
  constexpr double kHeadsAtOnce = 256;
  const double heads =
      static_cast<double>(items) * static_cast<double>(sizes.kv_heads);
  // Padded, with a column for the normaliser.
  const double sums = static_cast<double>(sizes.dim + 16) *
                      static_cast<double>(sizes.value_dim + 16);
  const auto states =
      static_cast<double>(linear.parts.size() + (linear.initial ? 1 : 0) +
                          (linear.return_state ? 1 : 0));
  double bytes = 8 * heads * sums * states + 64 * heads +
                 12 * std::min(heads, kHeadsAtOnce) * sums;
  if (linear.options.bidirectional) {
    const auto rows = static_cast<double>(sizes.batch * sizes.query_heads) *
                      static_cast<double>(sizes.queries);
    bytes += 4 * rows *
             (output_dtype == DType::kF32
                  ? 1
                  : 1 + static_cast<double>(sizes.value_dim));
  }
  return bytes < 0x1p60 ? static_cast<int64_t>(bytes) : int64_t{1} << 60;
}

class Decoder {
 public:
  Decoder(const v1::AttendRequest& request, const DecodeContext& context,
          Payload payload)
      : request_(request), context_(context), payload_(payload) {}

  absl::StatusOr<DecodedRequest> Decode();

 private:
  // The encoding's name and encoder; adds what does not fit to violations_.
  absl::Status DecodeEncoding();
  absl::Status CompileEncoding(const NamedEncoding& encoding,
                               const std::string& field, EncoderCache& cache);
  void CheckDenseBlocks();
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

absl::Status Decoder::CompileEncoding(const NamedEncoding& encoding,
                                      const std::string& field,
                                      EncoderCache& cache) {
  encoding_hash_ = encoding.hash;
  if (!encoding.uses_time()) return absl::OkStatus();
  const int64_t tick_ns = RequestTick(request_);
  if (encoding.spec.unit_ns == 0 && tick_ns != 0) {
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
  const TickRatio ratio = RatioFor(tick_ns, encoding.spec.unit_ns);
  std::vector<TickRatio> further;
  for (int c = 1; c < request_.query_time().coordinates(); ++c) {
    const std::vector<int64_t>& units = encoding.spec.coordinate_unit_ns;
    const auto index = static_cast<size_t>(c - 1);
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
    if (found == nullptr) return absl::AbortedError("not compiled yet");
    return found;
  };
  auto encoder = get(0);
  // Scalings that depend on the item's own length: one encoder per item.
  if (encoder.ok() && (*encoder)->length_dependent()) {
    for (int64_t n = 0; n < Items(request_, out_.sizes) && encoder.ok(); ++n) {
      encoder = get(ValidKeys(request_, out_.sizes.keys, n));
      if (encoder.ok()) out_.problem.item_encoders.push_back(*encoder);
    }
  }
  if (IsCompilingNeeded(encoder.status()) ||
      absl::IsCancelled(encoder.status())) {
    return encoder.status();
  }
  if (!encoder.ok()) {
    violations_.Add(field, absl::StrCat("\"", out_.encoding_name,
                                        "\" does not fit the request: ",
                                        encoder.status().message()));
  } else if (!complete_visibility()) {
    out_.problem.encoder = *std::move(encoder);
  } else {
    out_.problem.item_encoders.clear();
  }
  return absl::OkStatus();
}

// Of an encoding that the request brings: compiling costs their cube.
void Decoder::CheckDenseBlocks() {
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

absl::Status Decoder::DecodeEncoding() {
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
                  "only (inline_encodings.allowed is false)");
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

// ItemGeometry holds, per row, order, time and (queries) an interval; besides,
// sums of the weight that keys receive.
int64_t PlanBytes(const v1::AttendRequest& request, const RequestSizes& sizes,
                  const OutputSet& outputs) {
  const v1::Mask& mask = request.mask();
  const bool per_item =
      request.query_time().shape_size() == 2 ||
      request.key_time().shape_size() == 2 || !mask.query_lengths().empty() ||
      !mask.key_lengths().empty() || !mask.key_validity().empty();
  const auto copies =
      static_cast<double>(per_item ? std::max<int64_t>(1, sizes.batch) : 1);
  const auto items = static_cast<double>(Items(request, sizes));
  const auto keys = static_cast<double>(sizes.keys);
  // Sorting holds a second copy for a while. In floating point because an
  // estimate's sizes are bounded by nothing but the limits.
  double bytes =
      4096 + 512 * std::max(copies, mask.query_offsets().empty() ? 1 : items) +
      copies * (48 * static_cast<double>(sizes.queries) + 24 * keys);
  if (outputs.key_mass) {
    bytes += 8 * static_cast<double>(sizes.batch) *
             static_cast<double>(sizes.query_heads) * keys;
  }
  return bytes < 0x1p60 ? static_cast<int64_t>(bytes) : int64_t{1} << 60;
}

absl::Status Decoder::DecodeLinear() {
  if (request_.kind() != v1::ATTENTION_KIND_LINEAR) return absl::OkStatus();
  out_.linear =
      ReadLinear(request_, out_.problem, encoding_hash_, payload_, violations_);
  if (absl::Status s = violations_.ToStatus(); !s.ok()) return s;
  // Without an encoding gaps count in seconds, or in positions.
  constexpr int64_t kSecondNs = 1'000'000'000;
  out_.linear->gap_ratio = RatioFor(RequestTick(request_), kSecondNs);
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
    if (absl::Status status = DecodeEncoding(); !status.ok()) return status;
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
  if (absl::Status status = DecodeTimes(); !status.ok()) return status;
  DecodeMask();
  if (absl::Status status = DecodeLinear(); !status.ok()) return status;
  out_.plan_bytes = PlanBytes(request_, out_.sizes, out_.problem.outputs);
  if (out_.linear) {
    const int64_t offsets = request_.mask().query_offsets_size();
    out_.plan_bytes += LinearBytes(out_.sizes, *out_.linear,
                                   offsets > 0 ? offsets - 1 : out_.sizes.batch,
                                   out_.problem.output_dtype);
  }
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
