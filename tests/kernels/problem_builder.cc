#include "tests/kernels/problem_builder.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace attnd::testing {
namespace {

template <typename T>
std::vector<char> Bytes(const std::vector<T>& values) {
  std::vector<char> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<char> TensorBytes(const std::vector<float>& values, DType dtype) {
  if (dtype == DType::kF32) return Bytes(values);
  std::vector<uint16_t> halves;
  halves.reserve(values.size());
  for (float v : values) {
    halves.push_back(dtype == DType::kBF16 ? ToBFloat16(v) : ToFloat16(v));
  }
  return Bytes(halves);
}

// BHLD values in the order of `layout`.
std::vector<float> Arranged(const std::vector<float>& values, Layout layout,
                            const Shape4& s) {
  if (layout == Layout::kBHLD || values.empty()) return values;
  std::vector<float> out(values.size());
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      for (int64_t r = 0; r < s.rows; ++r) {
        const int64_t from = ((b * s.heads + h) * s.rows + r) * s.cols;
        const int64_t to = ((b * s.rows + r) * s.heads + h) * s.cols;
        for (int64_t c = 0; c < s.cols; ++c) out[to + c] = values[from + c];
      }
    }
  }
  return out;
}

absl::StatusOr<TimeAxis> Axis(TimeAxis::Kind kind,
                              const std::vector<char>& bytes, int64_t batch,
                              int64_t rows, int coordinates) {
  if (kind == TimeAxis::Kind::kPositions) return TimeAxis();
  const bool per_item = batch > 1 && static_cast<int64_t>(bytes.size()) ==
                                         8 * batch * rows * coordinates;
  return TimeAxis::Make(kind, absl::MakeConstSpan(bytes), batch, rows, per_item,
                        coordinates);
}

absl::string_view KindText(TimeAxis::Kind kind) {
  switch (kind) {
    case TimeAxis::Kind::kPositions:
      return "positions";
    case TimeAxis::Kind::kTicks:
      return "ticks";
    case TimeAxis::Kind::kReal:
      return "real";
  }
  return "?";
}

// " rotary4/10000half".
struct BlockText {
  std::string operator()(const auto&) const { return " block"; }
  std::string operator()(const IdentityBlock& b) const {
    return absl::StrCat(" identity", b.width);
  }
  std::string operator()(const RotaryBlock& b) const {
    return absl::StrCat(" rotary", b.rotary_dim, "/", b.base,
                        b.layout == PairLayout::kHalfSplit ? "half" : "pairs");
  }
  std::string operator()(const RotationBlock& b) const {
    return absl::StrCat(" rotation", b.frequencies.size(),
                        b.layout == PairLayout::kHalfSplit ? "half" : "pairs");
  }
};

}  // namespace

uint64_t Random::Bits() {
  uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

double Random::Uniform() { return std::ldexp(Bits() >> 11, -53); }

int64_t Random::Integer(int64_t low, int64_t high) {
  const uint64_t count =
      static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1;
  const uint64_t drawn = count == 0 ? Bits() : Bits() % count;
  return static_cast<int64_t>(static_cast<uint64_t>(low) + drawn);
}

float Random::Normal() {
  // 1 - u is never 0.
  const double radius = std::sqrt(-2 * std::log(1 - Uniform()));
  return static_cast<float>(radius * std::cos(2 * M_PI * Uniform()));
}

std::vector<float> Random::Normals(int64_t count, float scale) {
  std::vector<float> out(count);
  for (float& v : out) v = scale * Normal();
  return out;
}

void ProblemSpec::SetLayouts(Layout layout) {
  query_layout = key_layout = value_layout = layout;
}

void ProblemSpec::Fill(Random& random) {
  query = random.Normals(batch * query_heads * queries * dim);
  key = random.Normals(batch * kv_heads * keys * dim);
  value = random.Normals(batch * kv_heads * keys * value_dim);
}

std::string ProblemSpec::Describe() const {
  std::string text = absl::StrCat(
      "seed ", seed, ": B", batch, " H", query_heads, "/", kv_heads, " Lq",
      queries, " Lk", keys, " D", dim, " Dv", value_dim, " ", KindText(kind),
      coordinates > 1 ? absl::StrCat(" along ", coordinates) : "", " layouts ",
      static_cast<int>(query_layout), static_cast<int>(key_layout),
      static_cast<int>(value_layout), " dtype ", static_cast<int>(dtype),
      causal ? " causal" : "", strict ? " strict" : "");
  if (past_ticks) absl::StrAppend(&text, " past ", *past_ticks);
  if (future_ticks) absl::StrAppend(&text, " future ", *future_ticks);
  if (past_time) absl::StrAppend(&text, " past ", *past_time);
  if (future_time) absl::StrAppend(&text, " future ", *future_time);
  if (causal_index) absl::StrAppend(&text, " causal by index");
  if (past_keys) absl::StrAppend(&text, " past keys ", *past_keys);
  if (future_keys) absl::StrAppend(&text, " future keys ", *future_keys);
  if (prefix > 0) absl::StrAppend(&text, " prefix ", prefix);
  if (!key_ranges.empty())
    absl::StrAppend(&text, " ranges ", key_ranges.size());
  if (!query_offsets.empty()) {
    absl::StrAppend(&text, " packed ", query_offsets.size() - 1);
  }
  if (softcap) absl::StrAppend(&text, " softcap ", *softcap);
  if (bf16_compute) absl::StrAppend(&text, " in bf16");
  if (prune_tolerance > 0) {
    absl::StrAppend(&text, " pruned by ", prune_tolerance);
  }
  if (!sinks.empty()) absl::StrAppend(&text, " sinks");
  if (!value_mask.empty()) absl::StrAppend(&text, " value mask");
  if (!query_lengths.empty()) absl::StrAppend(&text, " query_lengths");
  if (!key_lengths.empty()) absl::StrAppend(&text, " key_lengths");
  if (!key_validity.empty()) absl::StrAppend(&text, " validity");
  if (!bias.empty()) {
    absl::StrAppend(&text, " bias ", bias_shape.batch, "x", bias_shape.heads,
                    "x", bias_shape.rows, "x", bias_shape.cols);
  }
  if (encoding) {
    for (const Block& block : encoding->blocks) {
      text += std::visit(BlockText(), block.kind);
    }
    for (const BiasTerm& bias : encoding->biases) {
      const auto* alibi = std::get_if<AlibiTerm>(&bias);
      if (alibi == nullptr) continue;
      absl::StrAppend(&text, " alibi", alibi->slopes.size(),
                      alibi->two_sided ? "two-sided" : "");
    }
  }
  // Few rows: the times tell most.
  if (queries <= 4 && keys <= 4) {
    for (const auto& [name, ticks, real] :
         {std::tie("t_q", query_ticks, query_real),
          std::tie("t_k", key_ticks, key_real)}) {
      absl::StrAppend(&text, " ", name);
      for (int64_t t : ticks) absl::StrAppend(&text, " ", t);
      for (double t : real) absl::StrAppend(&text, " ", t);
    }
  }
  return text;
}

absl::StatusOr<OwnedProblem> OwnedProblem::Build(const ProblemSpec& spec) {
  OwnedProblem owned;
  AttentionProblem& problem = owned.problem_;
  const Shape4 q{spec.batch, spec.query_heads, spec.queries, spec.dim};
  const Shape4 k{spec.batch, spec.kv_heads, spec.keys, spec.dim};
  const Shape4 v{spec.batch, spec.kv_heads, spec.keys, spec.value_dim};

  struct Tensor {
    TensorRef* ref;
    std::vector<char>* bytes;
    const std::vector<float>* values;
    Layout layout;
    Shape4 shape;
    DType dtype;
  };
  std::vector<Tensor> tensors = {
      {&problem.query, &owned.query_, &spec.query, spec.query_layout, q,
       spec.dtype},
      {&problem.key, &owned.key_, &spec.key, spec.key_layout, k,
       spec.key_dtype.value_or(spec.dtype)},
      {&problem.value, &owned.value_, &spec.value, spec.value_layout, v,
       spec.value_dtype.value_or(spec.dtype)}};
  if (spec.bias_shape != Shape4{}) {
    tensors.push_back({&problem.bias, &owned.bias_, &spec.bias,
                       spec.bias_layout, spec.bias_shape, spec.bias_dtype});
  }
  if (!spec.query_clock.empty()) {
    tensors.push_back(
        {&problem.query_clock,
         &owned.query_clock_,
         &spec.query_clock,
         Layout::kBHLD,
         {spec.batch, spec.kv_heads, spec.queries, spec.clock_channels},
         DType::kF32});
    tensors.push_back(
        {&problem.key_clock,
         &owned.key_clock_,
         &spec.key_clock,
         Layout::kBHLD,
         {spec.batch, spec.kv_heads, spec.keys, spec.clock_channels},
         DType::kF32});
  }
  if (!spec.gates.empty()) {
    tensors.push_back({&problem.gates,
                       &owned.gates_,
                       &spec.gates,
                       Layout::kBHLD,
                       {spec.batch, spec.query_heads, spec.keys, 1},
                       DType::kF32});
  }
  for (Tensor& t : tensors) {
    *t.bytes = TensorBytes(Arranged(*t.values, t.layout, t.shape), t.dtype);
    auto ref = TensorRef::Make(absl::MakeConstSpan(*t.bytes), t.dtype, t.layout,
                               t.shape);
    if (!ref.ok()) return ref.status();
    *t.ref = *ref;
  }

  const bool real = spec.kind == TimeAxis::Kind::kReal;
  owned.query_time_ = real ? Bytes(spec.query_real) : Bytes(spec.query_ticks);
  owned.key_time_ = real ? Bytes(spec.key_real) : Bytes(spec.key_ticks);
  auto query_time = Axis(spec.kind, owned.query_time_, spec.batch, spec.queries,
                         spec.coordinates);
  if (!query_time.ok()) return query_time.status();
  auto key_time =
      Axis(spec.kind, owned.key_time_, spec.batch, spec.keys, spec.coordinates);
  if (!key_time.ok()) return key_time.status();
  problem.query_time = *query_time;
  problem.key_time = *key_time;

  if (spec.encoding) {
    auto encoder =
        Encoder::Compile(*spec.encoding,
                         {.head_dim = static_cast<int>(spec.dim),
                          .query_heads = static_cast<int>(spec.query_heads),
                          .kv_heads = static_cast<int>(spec.kv_heads),
                          .length = spec.keys},
                         spec.ratio);
    if (!encoder.ok()) return encoder.status();
    problem.encoder = *std::move(encoder);
  }

  owned.query_lengths_ = spec.query_lengths;
  owned.key_lengths_ = spec.key_lengths;
  owned.query_offsets_ = spec.query_offsets;
  owned.key_offsets_ = spec.key_offsets;
  owned.validity_ = spec.key_validity;
  problem.mask = {.causal = spec.causal,
                  .strict = spec.strict,
                  .causal_index = spec.causal_index,
                  .past_ticks = spec.past_ticks,
                  .future_ticks = spec.future_ticks,
                  .past_time = spec.past_time,
                  .future_time = spec.future_time,
                  .past_keys = spec.past_keys,
                  .future_keys = spec.future_keys,
                  .prefix = spec.prefix,
                  .query_lengths = owned.query_lengths_,
                  .key_lengths = owned.key_lengths_,
                  .query_offsets = owned.query_offsets_,
                  .key_offsets = owned.key_offsets_,
                  .key_validity = owned.validity_,
                  .key_ranges = spec.key_ranges};
  owned.sinks_ = spec.sinks;
  owned.value_mask_ = spec.value_mask;
  problem.sinks = owned.sinks_;
  problem.value_mask = owned.value_mask_;
  problem.softcap = spec.softcap;
  problem.bf16_compute = spec.bf16_compute;
  problem.prune_tolerance = spec.prune_tolerance;
  problem.output_dtype = spec.output_dtype;
  problem.scale = spec.scale;
  return owned;
}

uint16_t ToBFloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

uint16_t ToFloat16(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(static_cast<double>(value));
  if (std::isnan(value)) return sign | 0x7E00;
  if (magnitude >= 65520) return sign | 0x7C00;
  if (magnitude == 0) return sign;
  // The step of the format at this size; nearbyint rounds ties to even.
  const int exponent = std::max(std::ilogb(magnitude), -14);
  const auto steps =
      static_cast<int>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  // A carry into the next binade and the hidden bit both add up by themselves.
  return static_cast<uint16_t>(sign + ((exponent + 14) << 10) + steps);
}

}  // namespace attnd::testing
