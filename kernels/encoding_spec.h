// What an encoding IS, before any size or tick is known: generator blocks over
// the head dimension, bias terms, absolute parts, options. Plain data; the
// meaning of each is in kernels/README.md, checks are in Validate.
//
// Conventions: lag D = t_query - t_key in units; logit = scale * q^T A(D) k +
// bias(D), A(D) = exp(D X). A rotation plane with frequency w has X = -w J, J =
// [[0,-1],[1,0]]: the score of RoFormer and Hugging Face.
#ifndef ATTND_KERNELS_ENCODING_SPEC_H_
#define ATTND_KERNELS_ENCODING_SPEC_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"

namespace attnd {

// Channels of a plane within a block of n channels: half-split (j, j + n/2)
// (GPT-NeoX, Hugging Face), interleaved (2j, 2j + 1) (RoFormer, GPT-J).
enum class PairLayout : uint8_t { kHalfSplit, kInterleaved };

// Coordinates, and clock channels, that an encoding may name: as many as there
// may be channels.
inline constexpr int kMaxDrives = 1024;

// What a block advances along: a coordinate of the time axis, or a channel of
// the request's learned clock.
struct Drive {
  int coordinate = 0;
  bool clock = false;
  int clock_channel = 0;
  friend bool operator==(const Drive&, const Drive&) = default;
  friend auto operator<=>(const Drive&, const Drive&) = default;  // NOLINT
};

// ---- generator blocks -------------------------------------------------------

// Channels that see no time.
struct IdentityBlock {
  int width = 1;
};

// w / factor (position interpolation).
struct LinearScaling {
  double factor = 1;
};
// base' = base * factor^(r/(r-2)); r = 2 is refused.
struct NtkScaling {
  double factor = 1;
};
// The same with factor * n / original_length - (factor - 1), n = max(valid keys
// of the item, original_length).
struct DynamicNtkScaling {
  double factor = 1;
  double original_length = 0;
};
// Peng et al. 2023. The ramp of every implementation is linear in the plane
// index between rounded borders; the paper's is linear in turns per original
// length.
struct YarnScaling {
  double factor = 1;
  double original_length = 0;
  double beta_fast = 32, beta_slow = 1;
  std::optional<double> attention_factor = {}, mscale = {}, mscale_all_dim = {};
  bool truncate = true;
  bool paper_ramp = false;
};
// One divisor per plane, chosen by the item's own length.
struct LongRopeScaling {
  std::vector<double> short_factor = {}, long_factor = {};
  double original_length = 0;
  double factor = 0;
  std::optional<double> attention_factor = {};
};
struct Llama3Scaling {
  double factor = 8, low_freq_factor = 1, high_freq_factor = 4;
  double original_length = 8192;
};
// Keeps the floor(fraction * d/2) highest frequencies of a ladder over the
// whole head (p-RoPE).
struct ProportionalScaling {
  double fraction = 1;
  double factor = 1;
};
using RotaryScaling =
    std::variant<std::monostate, LinearScaling, NtkScaling, DynamicNtkScaling,
                 YarnScaling, LongRopeScaling, Llama3Scaling,
                 ProportionalScaling>;

// Distribution of planes over coordinates (M-RoPE, axial RoPE), counted from
// the block's drive: section a follows its coordinate (or clock channel) + a.
// kInterleaved deals planes in turn, 0 1 2 0 1 2 ..., skips to 0 where the
// section in turn is used up.
struct AxisSections {
  enum class Order : uint8_t { kContiguous, kInterleaved, kAxial };
  std::vector<int> sections = {};  // planes per coordinate; empty = one axis
  Order order = Order::kContiguous;
};

// RoPE (Su et al. 2021): plane j of r/2 turns by base^(-2j/r) rad per unit.
struct RotaryBlock {
  double base = 10000;
  int rotary_dim = 0;  // r, even; 0 = rotary_fraction of the channels left
  double rotary_fraction = 1;  // r = floor(fraction * channels left)
  PairLayout layout = PairLayout::kHalfSplit;
  RotaryScaling scaling = {};
  AxisSections axes = {};
  // base^(2j/r) and its inverse rounded to float32, as in models of Hugging
  // Face; the Encoder sets it under hf_fp32_angles.
  bool float_powers = false;
};

// Planes with given frequencies, rad per unit; or, with coordinates > 1, one
// frequency vector per plane (plane-major), angle = sum_a w_a p_a. p_a is the
// a-th coordinate, or clock channel, counted from the block's drive.
struct RotationBlock {
  std::vector<double> frequencies = {};
  PairLayout layout = PairLayout::kHalfSplit;
  int coordinates = 1;
};

// e^{-rate D} per channel inside the logit.
struct DecayBlock {
  std::vector<double> rates = {};  // per channel, or one for `width` channels
  int width = 0;  // with one rate: 0 = all channels that are left
};

// Planes e^{-rate D} R(-w D).
struct DampedRotationBlock {
  std::vector<double> frequencies = {};
  std::vector<double> rates = {};  // one per plane, or one
  PairLayout layout = PairLayout::kHalfSplit;
  // What the decay advances along, when not along the block's drive (Mamba-3:
  // phases and decays are learned apart).
  std::optional<Drive> decay_drive = {};
};

// Chains of `size` neighbouring channels: e^{-rate D} sum_r (D/tau)^r / r! N^r,
// N the upper shift.
struct RealJordanBlock {
  int size = 2;                    // 2 to 4
  std::vector<double> rates = {};  // one per chain, or one
  double tau = 1;
  int chains = 0;  // 0 = as many as fit
};

// Chains of `size` planes, channels (re, im) of jet 0, then jet 1, ...:
// exp(D((-rate + i w) I + eta N)) in our direction (rotation R(-w D)).
struct ComplexJordanBlock {
  int size = 2;  // 2 to 4
  std::vector<double> frequencies = {};
  std::vector<double> rates = {};  // one per chain, or one
  double eta = 1;
};

// Any X, row-major dim x dim, per unit.
struct DenseMatrixBlock {
  int dim = 0;
  std::vector<double> matrix = {};
};

// exp(D frequency (a b^T - b a^T)) (GRAPE multiplicative).
struct SkewRank2Block {
  std::vector<double> a = {}, b = {};
  double frequency = 1;
};

// exp(sum_a p_a A_a) on q and on k, A_a skew with the strictly lower triangles
// `generators`, row by row: [coordinates, dim (dim - 1) / 2] (LieRE). Of the
// class with one coordinate; with more the A_a need not commute, and scores
// depend on positions, not on lags alone.
struct LieReBlock {
  int dim = 0;
  int coordinates = 1;  // counted from the block's drive
  std::vector<double> generators = {};
};

using BlockKind =
    std::variant<IdentityBlock, RotaryBlock, RotationBlock, DecayBlock,
                 DampedRotationBlock, RealJordanBlock, ComplexJordanBlock,
                 DenseMatrixBlock, SkewRank2Block, LieReBlock>;

struct Block {
  Block() = default;
  // From any kind, so that a list of blocks can be written as a list of kinds.
  template <typename Kind, typename = std::enable_if_t<
                               std::is_constructible_v<BlockKind, Kind&&>>>
  Block(Kind kind, Drive drive = {}, bool averaged = false)  // NOLINT
      : kind(std::move(kind)), drive(drive), averaged(averaged) {}

  BlockKind kind;
  Drive drive;
  // phi1(DX) = (exp(DX) - 1)/(DX) instead of exp(DX).
  bool averaged = false;
};

// ---- biases -----------------------------------------------------------------
// Lists named "per head" have one entry per query head, or one for all.

// -slope * D, or -slope * |D| when two-sided (Press et al. 2022).
struct AlibiTerm {
  std::vector<double> slopes;  // per head; empty = published
  bool two_sided = false;
  double bias_max = 8;
};
// Sum of the request's log gates between key and query (FoX).
struct CumulativeGateTerm {
  bool per_unit = false;  // gates are rates, multiplied by the gap in units
};
struct T5Term {
  int buckets = 32;
  double max_distance = 128;
  bool bidirectional = false;
  std::vector<float> table;  // [heads, buckets]
};
struct HstuTerm {
  int max_bucket = 128;
  double log_step = 0.301;
  std::vector<float> table;  // [heads, max_bucket + 1]
};
struct KerpleTerm {
  bool power = false;          // -r1 |D|^r2, else -r1 ln(1 + r2 |D|)
  std::vector<double> r1, r2;  // per head
};
struct FireTerm {
  double c = 0.1, threshold = 512;
  int hidden = 0;
  std::vector<float> w1, b1, w2, b2;  // [h] [h] [heads,h] [heads]
};
struct SandwichTerm {
  int dim = 128;
  double base = 10000;
};
struct GrapeAdditiveTerm {
  std::vector<double> slopes;                         // per head
  std::vector<float> query_direction, key_direction;  // [D] or empty
};
struct PathIntegralTerm {
  bool quadrature = true;
};
struct LagTableTerm {
  std::vector<double> lags;   // units, strictly increasing
  std::vector<float> values;  // [heads, knots] or [knots]
  bool absolute_lag = false;
};

using BiasTerm =
    std::variant<AlibiTerm, CumulativeGateTerm, T5Term, HstuTerm, KerpleTerm,
                 FireTerm, SandwichTerm, GrapeAdditiveTerm, PathIntegralTerm,
                 LagTableTerm>;

// ---- absolute parts ---------------------------------------------------------

struct SinusoidalPart {
  enum class Order : uint8_t { kInterleaved, kConcatenated, kEndpoints };
  double base = 10000;
  Order order = Order::kInterleaved;
  double amplitude = 1;
};
struct LearnedTablePart {
  enum class Boundary : uint8_t { kError, kClamp, kWrap };
  enum class Interpolation : uint8_t { kExact, kNearest, kLinear, kCubic };
  int rows = 0, dim = 0;
  std::vector<float> table;
  double step = 1;
  int row_offset = 0;
  Boundary boundary = Boundary::kError;
  Interpolation interpolation = Interpolation::kExact;
};
struct Time2VecPart {
  std::vector<double> frequencies, phases;  // one per channel
};
struct MultiTimePart {
  std::vector<Time2VecPart> embedding;                  // per head, or one
  std::vector<float> query_projection, key_projection;  // [D, embedding]
};
struct HawkesPart {
  bool index_form = false;  // SAHP: sin(w_k i + w'_k t); else THP
  std::vector<double> index_frequencies, time_frequencies;
};
struct AbsolutePart {
  std::variant<SinusoidalPart, LearnedTablePart, Time2VecPart, MultiTimePart,
               HawkesPart>
      kind;
  int64_t origin_ticks = 0;
  bool on_query = true, on_key = true;
};

struct QueryTemperature {
  bool llama4 = false;  // else max(1, ln n / ln length)
  double length = 8192, scale = 0.1, offset = 0;
};

// ---- the whole --------------------------------------------------------------

// A complete encoding. Default: NoPE.
struct EncodingSpec {
  std::vector<Block> blocks;  // from channel 0 on; the rest is identity
  std::vector<BiasTerm> biases;
  int64_t unit_ns = 0;        // length of a unit; 0 = positions
  bool absolute_lag = false;  // two-sided rule of one-sided parts: use |D|
  // One list of blocks per kv head; exclusive with `blocks`.
  std::vector<std::vector<Block>> per_head;
  std::vector<AbsolutePart> absolutes;
  // P, dim x dim row-major: A(D) = P exp(DX) P^-1. Empty = none.
  std::vector<double> basis;
  std::optional<QueryTemperature> temperature;
  bool hf_fp32_angles = false;
  std::vector<int64_t> coordinate_unit_ns;  // of coordinates 1, 2, ...

  bool uses_time() const {
    return !blocks.empty() || !biases.empty() || !per_head.empty() ||
           !absolutes.empty() || temperature.has_value();
  }
};

// Checks all that can be checked without sizes: finite numbers, ranges, even
// dims. INVALID_ARGUMENT with the path of the first offending field
// ("blocks[1].rotary.base: ..."). CANCELLED soon after `stop` becomes true:
// dense blocks take time (dense.h).
absl::Status Validate(const EncodingSpec& spec,
                      const std::atomic<bool>* stop = nullptr);

}  // namespace attnd

#endif  // ATTND_KERNELS_ENCODING_SPEC_H_
