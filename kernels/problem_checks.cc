#include "kernels/problem_checks.h"

#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/field_checks.h"

namespace attnd {
namespace {

std::string Text(const Shape4& s) {
  return absl::StrCat("[", s.batch, ",", s.heads, ",", s.rows, ",", s.cols,
                      "]");
}

absl::Status CheckShapes(const AttentionProblem& p) {
  const Shape4 &q = p.query.shape(), &k = p.key.shape(), &v = p.value.shape();
  if (q.heads < 1) return RefuseField("query.shape", "heads: 0, expected >= 1");
  if (q.cols < 1)
    return RefuseField("query.shape", "head dimension: 0, expected >= 1");
  if (k.heads < 1) return RefuseField("key.shape", "heads: 0, expected >= 1");
  if (k.batch != q.batch || k.cols != q.cols) {
    return RefuseField(
        "key.shape", absl::StrCat(Text(k), ", expected [", q.batch, ",Hkv,Lk,",
                                  q.cols, "] beside query ", Text(q)));
  }
  if (q.heads % k.heads != 0) {
    return RefuseField(
        "key.shape",
        absl::StrCat("heads: ", k.heads, ", expected a divisor of the query's ",
                     q.heads));
  }
  if (v.batch != k.batch || v.heads != k.heads || v.rows != k.rows) {
    return RefuseField(
        "value.shape",
        absl::StrCat(Text(v), ", expected [", k.batch, ",", k.heads, ",",
                     k.rows, ",Dv] beside key ", Text(k)));
  }
  constexpr int64_t kMaxRows = std::numeric_limits<int32_t>::max() - 64;
  if (q.rows > kMaxRows)
    return RefuseField("query.shape", "more than 2^31 rows");
  if (k.rows > kMaxRows) return RefuseField("key.shape", "more than 2^31 rows");
  return absl::OkStatus();
}

absl::Status CheckTimes(const AttentionProblem& p) {
  if (p.query_time.kind() != p.key_time.kind()) {
    return RefuseField(
        "query_time, key_time",
        "differ in kind; send both axes in one representation, or none");
  }
  if (p.query_time.kind() == TimeAxis::Kind::kPositions) {
    return absl::OkStatus();
  }
  const int64_t batch = p.query.shape().batch;
  const auto check = [batch](const TimeAxis& axis, int64_t rows,
                             absl::string_view field) {
    const bool fits =
        axis.rows() == rows && (!axis.per_item() || axis.batch() == batch);
    if (fits) return absl::OkStatus();
    return RefuseField(field, absl::StrCat("[", axis.batch(), ",", axis.rows(),
                                           "], expected [", rows, "] or [",
                                           batch, ",", rows, "]"));
  };
  absl::Status status = check(p.query_time, p.query.shape().rows, "query_time");
  if (!status.ok()) return status;
  return check(p.key_time, p.key.shape().rows, "key_time");
}

absl::Status CheckClock(const TensorRef& clock, absl::string_view field,
                        const AttentionProblem& p, int64_t rows, int channels) {
  const Shape4& s = clock.shape();
  const Shape4& k = p.key.shape();
  if (s.batch == k.batch && s.heads == k.heads && s.rows == rows &&
      s.cols >= channels && clock.layout() == Layout::kBHLD) {
    return absl::OkStatus();
  }
  return RefuseField(
      field, absl::StrCat(Text(s), ", the encoding expects [", k.batch, ",",
                          k.heads, ",", rows, ",", channels, "]"));
}

template <typename T>
absl::Status CheckWindow(const std::optional<T>& bound,
                         absl::string_view field) {
  if (!bound || *bound >= 0) return absl::OkStatus();
  return RefuseField(field, absl::StrCat(*bound, ", expected >= 0"));
}

absl::Status CheckSize(size_t size, size_t expected, absl::string_view field) {
  if (size == 0 || size == expected) return absl::OkStatus();
  return RefuseField(field,
                     absl::StrCat(size, " entries, expected ", expected));
}

// Offsets of packed items: first 0, last the row count; that they do not fall
// is checked item by item.
absl::Status CheckOffsets(absl::Span<const int64_t> offsets, int64_t rows,
                          absl::string_view field) {
  if (offsets.size() >= 2 && offsets.front() == 0 && offsets.back() == rows) {
    return absl::OkStatus();
  }
  return RefuseField(field, absl::StrCat("expected offsets from 0 to ", rows));
}

absl::Status CheckRagged(const AttentionProblem& p) {
  const MaskSpec& m = p.mask;
  if (m.query_offsets.empty() && m.key_offsets.empty()) return absl::OkStatus();
  if (m.query_offsets.size() != m.key_offsets.size()) {
    return RefuseField("mask.key_offsets",
                       absl::StrCat(m.key_offsets.size(), " entries beside ",
                                    m.query_offsets.size(), " query_offsets"));
  }
  if (p.query.shape().batch != 1) {
    return RefuseField("mask.query_offsets",
                       "packed items need tensors of B = 1");
  }
  if (!m.query_lengths.empty() || !m.key_lengths.empty()) {
    return RefuseField("mask.query_offsets",
                       "offsets and lengths exclude each other");
  }
  absl::Status status =
      CheckOffsets(m.query_offsets, p.query.shape().rows, "mask.query_offsets");
  if (!status.ok()) return status;
  return CheckOffsets(m.key_offsets, p.key.shape().rows, "mask.key_offsets");
}

absl::Status CheckRanges(const AttentionProblem& p) {
  const bool real = p.query_time.kind() == TimeAxis::Kind::kReal;
  for (size_t r = 0; r < p.mask.key_ranges.size(); ++r) {
    const TimeRange& range = p.mask.key_ranges[r];
    // False for NaN too.
    if (real ? range.begin_time <= range.end_time
             : range.begin_ticks <= range.end_ticks) {
      continue;
    }
    return RefuseField(absl::StrCat("mask.key_ranges[", r, "]"),
                       "expected begin <= end");
  }
  return absl::OkStatus();
}

absl::Status CheckMask(const AttentionProblem& p) {
  const MaskSpec& m = p.mask;
  const auto batch = static_cast<size_t>(p.query.shape().batch);
  const auto keys = static_cast<size_t>(p.key.shape().rows);
  for (const absl::Status& status :
       {CheckWindow(m.past_ticks, "mask.past_ticks"),
        CheckWindow(m.future_ticks, "mask.future_ticks"),
        CheckWindow(m.past_time, "mask.past_time"),
        CheckWindow(m.future_time, "mask.future_time"),
        CheckWindow(m.past_keys, "mask.past_keys"),
        CheckWindow(m.future_keys, "mask.future_keys"),
        CheckWindow(std::optional(m.prefix), "mask.prefix"), CheckRagged(p),
        CheckRanges(p),
        CheckSize(m.query_lengths.size(), batch, "mask.query_lengths"),
        CheckSize(m.key_lengths.size(), batch, "mask.key_lengths"),
        CheckSize(m.key_validity.size(), batch * keys, "mask.key_validity")}) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckEncoder(const AttentionProblem& p, const Encoder* encoder) {
  if (encoder == nullptr) return absl::OkStatus();
  const EncoderSizes& sizes = encoder->sizes();
  if (sizes.head_dim != p.query.shape().cols ||
      sizes.query_heads != p.query.shape().heads ||
      sizes.kv_heads != p.key.shape().heads) {
    return RefuseField(
        "encoding",
        absl::StrCat("compiled for head dimension ", sizes.head_dim, ", ",
                     sizes.query_heads, " query heads and ", sizes.kv_heads,
                     " kv heads, not for query ", Text(p.query.shape())));
  }
  for (const auto* axis : {&p.query_time, &p.key_time}) {
    if (axis->coordinates() >= encoder->coordinates()) continue;
    return RefuseField(axis == &p.query_time ? "query_time.coordinates"
                                             : "key_time.coordinates",
                       absl::StrCat(axis->coordinates(), ", the encoding uses ",
                                    encoder->coordinates()));
  }
  if (encoder->gate_weights().any()) {
    const Shape4 expected{p.query.shape().batch, p.query.shape().heads,
                          p.key.shape().rows, 1};
    if (!(p.gates.shape() == expected)) {
      const Shape4& got = p.gates.shape();
      return RefuseField(
          "gates", absl::StrCat(got == Shape4{} ? "missing" : Text(got),
                                ", the encoding expects [", expected.batch, ",",
                                expected.heads, ",", expected.rows, "]"));
    }
  }
  if (!encoder->uses_clock()) return absl::OkStatus();
  absl::Status status =
      CheckClock(p.query_clock, "query_clock", p, p.query.shape().rows,
                 encoder->clock_channels());
  if (!status.ok()) return status;
  return CheckClock(p.key_clock, "key_clock", p, p.key.shape().rows,
                    encoder->clock_channels());
}

absl::Status CheckEncoders(const AttentionProblem& p) {
  if (p.item_encoders.empty()) return CheckEncoder(p, p.encoder.get());
  if (static_cast<int64_t>(p.item_encoders.size()) != ItemCount(p)) {
    return RefuseField("encoding",
                       absl::StrCat(p.item_encoders.size(), " encoders for ",
                                    ItemCount(p), " items"));
  }
  for (const auto& encoder : p.item_encoders) {
    absl::Status status = CheckEncoder(p, encoder.get());
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckSinks(const AttentionProblem& p) {
  absl::Status status = CheckSize(
      p.sinks.size(), static_cast<size_t>(p.query.shape().heads), "mask.sinks");
  if (!status.ok()) return status;
  for (size_t h = 0; h < p.sinks.size(); ++h) {
    if (p.sinks[h] < std::numeric_limits<float>::infinity()) continue;
    return RefuseField(absl::StrCat("mask.sinks[", h, "]"),
                       absl::StrCat(p.sinks[h], ", expected finite or -inf"));
  }
  return absl::OkStatus();
}

absl::Status CheckSettings(const AttentionProblem& p) {
  if (!std::isfinite(p.scale)) {
    return RefuseField("scale", absl::StrCat(p.scale, ", expected finite"));
  }
  if (p.softcap && !(std::isfinite(*p.softcap) && *p.softcap > 0)) {
    return RefuseField("softcap",
                       absl::StrCat(*p.softcap, ", expected finite and > 0"));
  }
  if (!(p.prune_tolerance >= 0 && p.prune_tolerance < 1)) {
    return RefuseField(
        "prune_tolerance",
        absl::StrCat(p.prune_tolerance, ", expected 0 <= p < 1"));
  }
  if (p.outputs.top_k < 0) {
    return RefuseField("top_k",
                       absl::StrCat(p.outputs.top_k, ", expected >= 0"));
  }
  const Shape4& v = p.value.shape();
  return CheckSize(p.value_mask.size(),
                   static_cast<size_t>(v.batch * v.rows * v.cols),
                   "mask.value_channel_mask");
}

absl::Status CheckBiasShape(const AttentionProblem& p) {
  if (p.bias.shape() == Shape4{}) return absl::OkStatus();
  const Shape4 &b = p.bias.shape(), &q = p.query.shape();
  const auto fits = [](int64_t extent, int64_t full) {
    return extent == 1 || extent == full;
  };
  if (fits(b.batch, q.batch) && fits(b.heads, q.heads) &&
      fits(b.rows, q.rows) && fits(b.cols, p.key.shape().rows)) {
    return absl::OkStatus();
  }
  return RefuseField(
      "bias.shape",
      absl::StrCat(Text(b), ", expected each extent 1 or that of [", q.batch,
                   ",", q.heads, ",", q.rows, ",", p.key.shape().rows, "]"));
}

}  // namespace

absl::Status CheckProblem(const AttentionProblem& problem) {
  for (auto check : {CheckShapes, CheckSettings, CheckTimes, CheckMask,
                     CheckSinks, CheckEncoders, CheckBiasShape}) {
    absl::Status status = check(problem);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace attnd
