#include "tests/kernels/random_encoding.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "kernels/basis.h"
#include "tests/kernels/answer.h"
#include "tests/kernels/encoding_families.h"

namespace attnd::testing {
namespace {

using Kind = TimeAxis::Kind;

double LogUniform(Random& random, double low, double high) {
  return low * std::pow(high / low, random.Uniform());
}

bool Rarely(Random& random, int64_t one_in) {
  return random.Integer(1, one_in) == 1;
}

// Times of an item's rows in ticks: gaps over decades or alike, with ties,
// queries among the keys or between them.
struct Times {
  std::vector<int64_t> query, key;
};

Times RandomTicks(Random& random, int64_t queries, int64_t keys, int64_t epoch,
                  double span) {
  std::vector<double> at = {0};
  const double decades = random.Coin() ? 9 * random.Uniform() : 0;
  for (int64_t j = 1; j < keys; ++j) {
    const double gap = random.Integer(0, 6) == 0
                           ? 0
                           : std::pow(10.0, -decades * random.Uniform());
    at.push_back(at.back() + gap);
  }
  const double scale = at.back() > 0 ? span / at.back() : 0;
  Times times;
  for (double t : at) {
    times.key.push_back(epoch + static_cast<int64_t>(std::round(scale * t)));
  }
  const bool between = random.Coin();
  for (int64_t i = 0; i < queries; ++i) {
    const int64_t t = queries == keys ? times.key[i] : random.Pick(times.key);
    times.query.push_back(
        between ? t + static_cast<int64_t>(span * random.Uniform() / 100) : t);
  }
  if (random.Coin()) {
    for (auto* rows : {&times.query, &times.key}) {
      for (size_t i = rows->size(); i > 1; --i) {
        std::swap((*rows)[i - 1],
                  (*rows)[random.Integer(0, static_cast<int64_t>(i) - 1)]);
      }
    }
  }
  return times;
}

// The span in units.
double SetTimes(Random& random, ProblemSpec& spec) {
  if (spec.kind == Kind::kPositions) {
    spec.ratio = {};
    return static_cast<double>(std::max(spec.queries, spec.keys));
  }
  const double span_ticks = LogUniform(random, 1, 3e18);
  const double units = LogUniform(random, 1e-3, 1e6);
  const auto unit_ns = static_cast<int64_t>(
      std::min(9e18, std::max(1.0, std::round(span_ticks / units))));
  spec.query_ticks.clear();
  spec.key_ticks.clear();
  spec.query_real.clear();
  spec.key_real.clear();
  spec.coordinates = 1;
  const int64_t epoch = random.Pick(std::vector<int64_t>{
      0, 1'700'000'000'000'000'000, -5'000'000'000'000'000'000});
  const bool per_item = random.Coin();
  for (int64_t b = 0; b < (per_item ? spec.batch : 1); ++b) {
    const Times times =
        RandomTicks(random, spec.queries, spec.keys, epoch, span_ticks);
    spec.query_ticks.insert(spec.query_ticks.end(), times.query.begin(),
                            times.query.end());
    spec.key_ticks.insert(spec.key_ticks.end(), times.key.begin(),
                          times.key.end());
  }
  spec.kind = Kind::kTicks;
  spec.ratio = {.tick_ns = 1, .unit_ns = unit_ns};
  return span_ticks / static_cast<double>(unit_ns);
}

// One of the encoding's parts, for spans of `span` units.
class Parts {
 public:
  Parts(Random& random, const ProblemSpec& spec, double span)
      : random_(random), spec_(spec), span_(span) {}

  std::vector<Block> Blocks();
  BiasTerm Bias();
  AbsolutePart Absolute();
  bool one_sided() const { return one_sided_; }
  bool gates() const { return gates_; }
  int clock_channels() const { return clock_channels_; }

 private:
  double Rate() {
    return Rarely(random_, 5) ? 0 : LogUniform(random_, 1e-4, 1e6) / span_;
  }
  // Clocks are floats, up to a hundred times the span: they turn by doubles.
  double Frequency(bool clock) {
    return (random_.Coin() ? 1 : -1) *
           LogUniform(random_, 1e-3, clock ? 1e4 : 1e9) / span_;
  }
  std::vector<double> Rates(int64_t count) {
    std::vector<double> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(Rate());
    return values;
  }
  std::vector<double> OneOrSeveralRates(int64_t count) {
    return Rates(random_.Coin() ? 1 : count);
  }
  std::vector<double> Frequencies(int64_t count, bool clock) {
    std::vector<double> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(Frequency(clock));
    return values;
  }
  std::vector<double> PerHead(double low, double high) {
    std::vector<double> values;
    const int64_t count = random_.Coin() ? 1 : spec_.query_heads;
    for (int64_t h = 0; h < count; ++h) {
      values.push_back(LogUniform(random_, low, high));
    }
    return values;
  }
  PairLayout Layout() {
    return random_.Coin() ? PairLayout::kHalfSplit : PairLayout::kInterleaved;
  }
  RotaryScaling Scaling(int planes);
  Block OneBlock(int left, int* width);
  std::vector<double> StableMatrix(int n);
  Drive RandomDrive();

  Random& random_;
  const ProblemSpec& spec_;
  const double span_;
  bool one_sided_ = false, gates_ = false;
  int clock_channels_ = 0;
};

Drive Parts::RandomDrive() {
  if (!Rarely(random_, 5)) return {};
  const auto channel = static_cast<int>(random_.Integer(0, 2));
  clock_channels_ = std::max(clock_channels_, channel + 1);
  return {.clock = true, .clock_channel = channel};
}

RotaryScaling Parts::Scaling(int planes) {
  const double factor = LogUniform(random_, 1, 64);
  const double length = LogUniform(random_, 4, 1e5);
  switch (random_.Integer(0, 8)) {
    case 0:
      return LinearScaling{.factor = factor};
    case 1:
      if (planes < 2) return {};
      return NtkScaling{.factor = factor};
    case 2:
      if (planes < 2) return {};
      return DynamicNtkScaling{.factor = factor, .original_length = length};
    case 3:
      return YarnScaling{.factor = factor,
                         .original_length = length,
                         .truncate = random_.Coin(),
                         .paper_ramp = random_.Coin()};
    case 4: {
      LongRopeScaling scaling{.original_length = length, .factor = factor};
      for (int p = 0; p < planes; ++p) {
        scaling.short_factor.push_back(LogUniform(random_, 1, 4));
        scaling.long_factor.push_back(LogUniform(random_, 1, 64));
      }
      return scaling;
    }
    case 5:
      return Llama3Scaling{.original_length = length};
    case 6:
      return ProportionalScaling{.fraction = random_.Uniform(),
                                 .factor = factor};
    default:
      return {};
  }
}

// Eigenvalues of the left half plane in a basis of mild condition.
std::vector<double> Parts::StableMatrix(int n) {
  std::vector<double> x(n * n);
  const double rate = LogUniform(random_, 1e-3, 1e4) / span_;
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      x[i * n + j] = rate * random_.Normal() / std::sqrt(n);
    }
    x[i * n + i] -= 2 * rate;
  }
  return x;
}

Block Parts::OneBlock(int left, int* width) {
  const auto most_planes = left / 2;
  const auto planes =
      static_cast<int>(random_.Integer(1, std::max(1, most_planes)));
  const Drive drive = RandomDrive();
  switch (random_.Integer(0, 9)) {
    case 0:
      *width = static_cast<int>(random_.Integer(1, left));
      return IdentityBlock{.width = *width};
    case 1:
      if (most_planes == 0) break;
      *width = 2 * planes;
      return Block(RotaryBlock{.base = LogUniform(random_, 10, 1e7),
                               .rotary_dim = 2 * planes,
                               .layout = Layout(),
                               .scaling = drive.clock ? RotaryScaling()
                                                      : Scaling(planes)},
                   drive);
    case 2:
      if (most_planes == 0) break;
      *width = 2 * planes;
      return Block(
          RotationBlock{.frequencies = Frequencies(planes, drive.clock),
                        .layout = Layout()},
          drive);
    case 3:
      if (most_planes == 0) break;
      one_sided_ = true;
      *width = 2 * planes;
      return Block(
          DampedRotationBlock{.frequencies = Frequencies(planes, drive.clock),
                              .rates = OneOrSeveralRates(planes),
                              .layout = Layout()},
          drive);
    case 4: {
      const auto size = static_cast<int>(random_.Integer(2, 4));
      const auto chains = static_cast<int>(random_.Integer(1, 3));
      if (size * chains > left) break;
      one_sided_ = true;
      *width = size * chains;
      return Block(
          RealJordanBlock{.size = size,
                          .rates = OneOrSeveralRates(chains),
                          .tau = span_ * LogUniform(random_, 1e-6, 1e6),
                          .chains = chains},
          drive);
    }
    case 5: {
      const auto size = static_cast<int>(random_.Integer(2, 4));
      const auto chains = static_cast<int>(random_.Integer(1, 2));
      if (2 * size * chains > left) break;
      one_sided_ = true;
      *width = 2 * size * chains;
      return Block(
          ComplexJordanBlock{.size = size,
                             .frequencies = Frequencies(chains, drive.clock),
                             .rates = OneOrSeveralRates(chains),
                             .eta = LogUniform(random_, 1e-6, 1e6) / span_},
          drive);
    }
    case 6: {
      const auto n = static_cast<int>(random_.Integer(1, std::min(left, 6)));
      one_sided_ = true;
      *width = n;
      return Block(DenseMatrixBlock{.dim = n, .matrix = StableMatrix(n)},
                   drive);
    }
    case 7: {
      const auto n = static_cast<int>(random_.Integer(2, std::max(2, left)));
      if (n > left) break;
      *width = n;
      SkewRank2Block block{.frequency = Frequency(drive.clock) / n};
      for (int i = 0; i < n; ++i) {
        block.a.push_back(random_.Normal());
        block.b.push_back(random_.Normal());
      }
      return Block(block, drive);
    }
    default:
      break;
  }
  one_sided_ = true;
  const auto n = static_cast<int>(random_.Integer(1, left));
  *width = n;
  if (random_.Coin()) {
    return Block(DecayBlock{.rates = {Rate()}, .width = n}, drive);
  }
  return Block(DecayBlock{.rates = Rates(n)}, drive);
}

std::vector<Block> Parts::Blocks() {
  std::vector<Block> blocks;
  const bool averaged = Rarely(random_, 8);
  for (auto left = static_cast<int>(spec_.dim); left > 0;) {
    int width = 0;
    Block block = OneBlock(left, &width);
    block.averaged =
        averaged && !std::holds_alternative<IdentityBlock>(block.kind);
    blocks.push_back(std::move(block));
    left -= width;
    if (Rarely(random_, 3)) break;
  }
  return blocks;
}

BiasTerm Parts::Bias() {
  const bool two_sided = !spec_.causal;
  const auto heads = static_cast<size_t>(spec_.query_heads);
  const auto values = [&](size_t count) {
    return random_.Normals(static_cast<int64_t>(count), 2);
  };
  switch (random_.Integer(0, 9)) {
    case 0:
      gates_ = true;
      return CumulativeGateTerm{.per_unit = random_.Coin()};
    case 1:
      return T5Term{.buckets = 32,
                    .max_distance = std::max(20.0, span_),
                    .bidirectional = random_.Coin(),
                    .table = values(heads * 32)};
    case 2:
      return HstuTerm{.max_bucket = 40,
                      .log_step = LogUniform(random_, 0.1, 2),
                      .table = values(heads * 41)};
    case 3:
      return KerpleTerm{.power = false,
                        .r1 = PerHead(1e-2, 10),
                        .r2 = PerHead(1e-6 / span_, 1e6 / span_)};
    case 4:
      return KerpleTerm{.power = true,
                        .r1 = {LogUniform(random_, 1e-3, 10)},
                        .r2 = PerHead(0.05, 2)};
    case 5: {
      const auto hidden = static_cast<int>(random_.Integer(1, 5));
      return FireTerm{.c = LogUniform(random_, 1e-3, 1e3) / span_,
                      .threshold = LogUniform(random_, 1e-3, 1e3) * span_,
                      .hidden = hidden,
                      .w1 = values(hidden),
                      .b1 = values(hidden),
                      .w2 = values(heads * hidden),
                      .b2 = values(heads)};
    }
    case 6:
      return SandwichTerm{.dim = 2 * static_cast<int>(random_.Integer(1, 40)),
                          .base = LogUniform(random_, 10, 1e6)};
    case 7: {
      one_sided_ = true;
      GrapeAdditiveTerm term{.slopes = PerHead(1e-3 / span_, 10 / span_),
                             .query_direction = {},
                             .key_direction = {}};
      if (random_.Coin()) {
        term.query_direction = random_.Normals(spec_.dim, 0.3F);
      }
      if (random_.Coin()) {
        term.key_direction = random_.Normals(spec_.dim, 0.3F);
      }
      return term;
    }
    case 8: {
      LagTableTerm term{
          .lags = {}, .values = {}, .absolute_lag = random_.Coin()};
      const int64_t knots = random_.Integer(1, 20);
      double lag = random_.Coin() ? -span_ * random_.Uniform() : 0;
      for (int64_t k = 0; k < knots; ++k) {
        term.lags.push_back(lag);
        lag += span_ * LogUniform(random_, 1e-6, 1);
      }
      if (term.absolute_lag && term.lags[0] < 0) term.absolute_lag = false;
      term.values =
          values(static_cast<size_t>(knots) * (random_.Coin() ? heads : 1));
      return term;
    }
    default:
      return AlibiTerm{.slopes = PerHead(1e-3 / span_, 1e3 / span_),
                       .two_sided = two_sided};
  }
}

AbsolutePart Parts::Absolute() {
  AbsolutePart part;
  const auto dim = static_cast<size_t>(spec_.dim);
  part.on_key = !Rarely(random_, 4);
  part.on_query = !part.on_key || !Rarely(random_, 4);
  if (spec_.kind == Kind::kTicks) {
    part.origin_ticks = random_.Pick(spec_.key_ticks);
  }
  switch (random_.Integer(0, 3)) {
    case 0:
      part.kind = SinusoidalPart{
          .base = LogUniform(random_, 10, 1e6),
          .order = random_.Coin() ? SinusoidalPart::Order::kInterleaved
                                  : SinusoidalPart::Order::kConcatenated};
      break;
    case 1: {
      const auto rows = static_cast<int>(random_.Integer(1, 50));
      part.kind = LearnedTablePart{
          .rows = rows,
          .dim = static_cast<int>(dim),
          .table = random_.Normals(rows * spec_.dim),
          .step = std::max(1.0, span_ * LogUniform(random_, 1e-3, 1)),
          .boundary = random_.Coin() ? LearnedTablePart::Boundary::kClamp
                                     : LearnedTablePart::Boundary::kWrap,
          .interpolation =
              random_.Pick(std::vector<LearnedTablePart::Interpolation>{
                  LearnedTablePart::Interpolation::kNearest,
                  LearnedTablePart::Interpolation::kLinear,
                  LearnedTablePart::Interpolation::kCubic})};
      break;
    }
    case 2: {
      Time2VecPart time2vec;
      for (size_t c = 0; c < dim; ++c) {
        // The first is the linear one.
        time2vec.frequencies.push_back(c == 0 ? 1 / span_ : Frequency(false));
        time2vec.phases.push_back(6 * random_.Uniform());
      }
      part.kind = time2vec;
      break;
    }
    default: {
      HawkesPart hawkes;
      hawkes.index_form = random_.Coin();
      for (size_t c = 0; hawkes.index_form && c < dim / 2; ++c) {
        hawkes.index_frequencies.push_back(random_.Normal());
        hawkes.time_frequencies.push_back(Frequency(false));
      }
      part.kind = hawkes;
      break;
    }
  }
  return part;
}

// Functions of time that never run backwards, one per channel, head and item.
void SetClocks(Random& random, double span, int channels, ProblemSpec& spec) {
  spec.query_clock.clear();
  spec.key_clock.clear();
  spec.clock_channels = std::max(1, channels);
  if (channels == 0) return;
  const int64_t count = spec.batch * spec.kv_heads * channels;
  std::vector<double> speeds, grids;
  for (int64_t n = 0; n < count; ++n) {
    speeds.push_back(LogUniform(random, 1e-2, 1e2));
    grids.push_back(random.Coin() ? span / 20 : 0);
  }
  const auto fill = [&](const std::vector<int64_t>& ticks, int64_t rows,
                        std::vector<float>& clock) {
    for (int64_t bg = 0; bg < spec.batch * spec.kv_heads; ++bg) {
      const int64_t item = bg / spec.kv_heads;
      const bool per_item = static_cast<int64_t>(ticks.size()) > rows;
      for (int64_t r = 0; r < rows; ++r) {
        double at = static_cast<double>(r);
        if (spec.kind == Kind::kTicks) {
          const int64_t t = ticks[(per_item ? item * rows : 0) + r];
          at = static_cast<double>(static_cast<__int128>(t) -
                                   spec.key_ticks[0]) *
               spec.ratio.units_per_tick();
        }
        for (int c = 0; c < channels; ++c) {
          const double grid = grids[bg * channels + c];
          clock.push_back(static_cast<float>(
              speeds[bg * channels + c] *
              (grid > 0 ? grid * std::floor(at / grid) : at)));
        }
      }
    }
  };
  fill(spec.query_ticks, spec.queries, spec.query_clock);
  fill(spec.key_ticks, spec.keys, spec.key_clock);
}

}  // namespace

void SetRandomEncoding(ProblemSpec& spec) {
  Random random(spec.seed ^ 0x656e63);
  if (spec.kind == Kind::kReal) spec.kind = Kind::kTicks;
  spec.key_ranges.clear();
  const double span = SetTimes(random, spec);
  if (spec.past_ticks) {
    spec.past_ticks = static_cast<int64_t>(LogUniform(random, 1e-3, 1) * span /
                                           spec.ratio.units_per_tick());
  }
  if (spec.future_ticks) {
    spec.future_ticks = static_cast<int64_t>(
        LogUniform(random, 1e-3, 1) * span / spec.ratio.units_per_tick());
  }
  Parts parts(random, spec, span);
  EncodingSpec& encoding = spec.encoding.emplace();
  if (random.Integer(0, 3) > 0) {
    if (spec.kv_heads > 1 && Rarely(random, 4)) {
      for (int64_t g = 0; g < spec.kv_heads; ++g) {
        encoding.per_head.push_back(parts.Blocks());
      }
    } else {
      encoding.blocks = parts.Blocks();
    }
  }
  while (random.Coin()) encoding.biases.push_back(parts.Bias());
  if (Rarely(random, 5)) encoding.absolutes.push_back(parts.Absolute());
  if (Rarely(random, 8) && spec.dim <= 32) {
    std::vector<double> lower(spec.dim * (spec.dim - 1) / 2);
    for (double& entry : lower) entry = 0.3 * random.Normal();
    encoding.basis = *CayleyBasis(lower, static_cast<int>(spec.dim), "basis");
  }
  if (Rarely(random, 8)) {
    encoding.temperature =
        QueryTemperature{.llama4 = random.Coin(),
                         .length = LogUniform(random, 2, 1e4),
                         .scale = random.Uniform()};
  }
  if (spec.kind == Kind::kTicks) encoding.unit_ns = spec.ratio.unit_ns;
  if (parts.one_sided() && !spec.causal) {
    if (random.Coin()) {
      encoding.absolute_lag = true;
    } else {
      spec.causal = true;
    }
  }
  SetClocks(random, span, parts.clock_channels(), spec);
  spec.gates.clear();
  if (parts.gates()) {
    const double most = LogUniform(random, 1e-4, 30);
    for (int64_t e = 0; e < spec.batch * spec.query_heads * spec.keys; ++e) {
      spec.gates.push_back(static_cast<float>(-most * random.Uniform()));
    }
  }
}

std::string JudgeIfDefined(const ProblemSpec& spec, double slack,
                           bool* defined) {
  if (defined != nullptr) *defined = false;
  const absl::StatusOr<OwnedProblem> owned = OwnedProblem::Build(spec);
  if (!owned.ok()) {
    return absl::IsInvalidArgument(owned.status()) ? ""
                                                   : owned.status().ToString();
  }
  const absl::StatusOr<Plan> plan = Plan::Make(owned->problem());
  if (absl::IsInvalidArgument(plan.status())) return "";
  if (defined != nullptr) *defined = true;
  double condition = 1;
  const Encoder& encoder = *owned->problem().encoder;
  const int64_t heads = encoder.one_generator() ? 1 : spec.kv_heads;
  for (int64_t g = 0; g < heads; ++g) {
    condition = std::max(condition, encoder.head(g).generator().condition());
  }
  slack *= condition * Slack(*spec.encoding);
  const absl::StatusOr<ReferenceAnswer> reference =
      ReferenceAttention(owned->problem());
  if (!reference.ok()) return reference.status().ToString();
  // The output alone takes another way than scores and lse.
  for (const OutputSet& outputs :
       {kAllOutputs, OutputSet{.output = true},
        OutputSet{
            .output = true, .entropy = true, .key_mass = true, .top_k = 2}}) {
    const absl::StatusOr<Answer> answer = Run(owned->problem(), outputs);
    if (!answer.ok()) return answer.status().ToString();
    const std::string why = Compare(spec, *answer, *reference, slack);
    if (!why.empty()) {
      return absl::StrCat(outputs.scores ? "" : "without scores: ", why, "\n",
                          spec.Describe());
    }
  }
  return "";
}

}  // namespace attnd::testing
