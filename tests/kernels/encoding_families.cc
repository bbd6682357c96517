#include "tests/kernels/encoding_families.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/attention.h"
#include "kernels/basis.h"

namespace attnd::testing {
namespace {

EncodingSpec Spec(std::vector<Block> blocks,
                  std::vector<BiasTerm> biases = {}) {
  EncodingSpec spec;
  spec.blocks = std::move(blocks);
  spec.biases = std::move(biases);
  spec.unit_ns = kSecond;
  return spec;
}

EncodingSpec TwoSided(EncodingSpec spec) {
  spec.absolute_lag = true;
  return spec;
}

std::vector<double> Powers(int count, double low, double high) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i) {
    values.push_back(low *
                     std::pow(high / low, i / std::max(1.0, count - 1.0)));
  }
  return values;
}

// Numbers of both signs, none like its neighbours.
double Wave(size_t i) { return static_cast<double>(i * 7 % 13) / 6 - 1; }
std::vector<float> Waves(size_t count) {
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>(Wave(i)));
  }
  return values;
}

// A stable matrix with real and complex eigenvalues far apart.
std::vector<double> StableMatrix() {
  return {-0.5, 2,    0.1, 0,    //
          -2,   -0.5, 0,   0.2,  //
          0,    0,    -3,  1,    //
          0,    0,    0,   -0.01};
}

// Irregular times with gaps over six decades, ties among them.
std::vector<int64_t> WideTimes(Random& random, int64_t count) {
  std::vector<int64_t> times;
  int64_t t = 1'700'000'000 * kSecond;
  for (int64_t i = 0; i < count; ++i) {
    times.push_back(t);
    if (random.Integer(0, 9) == 0) continue;
    t += static_cast<int64_t>(std::pow(10.0, 6 * random.Uniform() - 4) *
                              kSecond);
  }
  return times;
}

}  // namespace

std::vector<Family> OneSidedFamilies() {
  constexpr PairLayout kPairs = PairLayout::kInterleaved;
  const DampedRotationBlock damped{.frequencies = Powers(8, 0.003, 8),
                                   .rates = Powers(8, 1e-4, 30)};
  DampedRotationBlock pairs = damped;
  pairs.layout = kPairs;
  const ComplexJordanBlock jordan{.size = 2,
                                  .frequencies = {1, 0.1, 3},
                                  .rates = {0.1, 0.01, 1},
                                  .eta = 0.05};
  ComplexJordanBlock jordan4 = jordan;
  jordan4.size = 4;
  jordan4.frequencies = {2};
  jordan4.rates = {0.3};
  const Drive clock{.clock = true};
  return {
      {"decay", Spec({DecayBlock{.rates = Powers(16, 1e-5, 1e3)}})},
      {"some decay", Spec({IdentityBlock{3}, DecayBlock{.rates = {0.5, 7}}})},
      {"damped", Spec({damped})},
      {"damped pairs", Spec({pairs})},
      {"jordan 2",
       Spec({RealJordanBlock{.size = 2, .rates = {0.2}, .tau = 3}})},
      {"jordan 3",
       Spec({RealJordanBlock{
           .size = 3, .rates = Powers(5, 0.01, 5), .tau = 10, .chains = 5}})},
      {"jordan 4, unbounded",
       Spec({RealJordanBlock{.size = 4, .rates = {0}, .tau = 3000}})},
      {"complex jordan 2", Spec({jordan})},
      {"complex jordan 4", Spec({jordan4})},
      {"dense", Spec({DenseMatrixBlock{.dim = 4, .matrix = StableMatrix()}})},
      {"defective", Spec({DenseMatrixBlock{
                        .dim = 3, .matrix = {-1, 1, 0, 0, -1, 1, 0, 0, -1}}})},
      {"a sum",
       Spec({RealJordanBlock{.size = 2, .rates = {0.1}, .chains = 2},
             RotaryBlock{.rotary_dim = 4}, DecayBlock{.rates = {0.1, 3}}})},
      {"averaged decay",
       Spec({Block(DecayBlock{.rates = Powers(16, 1e-3, 10)}, {}, true)})},
      {"averaged jordan", Spec({Block(jordan, {}, true)})},
      {"clock decay", Spec({Block(damped, clock)}), true},
      {"gates", Spec({}, {CumulativeGateTerm{}}), false, true},
      {"gates per unit", Spec({}, {CumulativeGateTerm{.per_unit = true}}),
       false, true},
      {"path integral", Spec({}, {PathIntegralTerm{}}), false, true},
      {"gates and alibi", Spec({}, {CumulativeGateTerm{}, AlibiTerm{}}), false,
       true},
      {"grape additive",
       Spec({}, {GrapeAdditiveTerm{
                    .slopes = {0.3},
                    .query_direction = std::vector<float>(16, 0.1f),
                    .key_direction = std::vector<float>(16, -0.2f)}})},
  };
}

std::vector<Family> TwoSidedFamilies() {
  const Drive clock{.clock = true};
  RotaryBlock yarn;
  YarnScaling scaling;
  scaling.factor = 4;
  scaling.original_length = 64;
  yarn.scaling = scaling;
  EncodingSpec sinusoid = Spec({});
  sinusoid.absolutes = {AbsolutePart{.kind = SinusoidalPart{}}};
  EncodingSpec warm = Spec({RotaryBlock{}});
  warm.temperature = QueryTemperature{.llama4 = true, .length = 3};
  EncodingSpec longer = Spec({RotaryBlock{}});
  longer.temperature = QueryTemperature{.length = 8};
  RotaryBlock llama;
  llama.scaling = Llama3Scaling{.original_length = 64};
  // Turns around a basis of their own (STRING).
  EncodingSpec around = Spec({RotaryBlock{}});
  std::vector<double> lower(16 * 15 / 2);
  for (size_t i = 0; i < lower.size(); ++i) lower[i] = 0.1 * Wave(i);
  around.basis = *CayleyBasis(lower, 16, "basis");
  SkewRank2Block plane{.a = {}, .b = {}, .frequency = 0.2};
  for (size_t i = 0; i < 16; ++i) {
    plane.a.push_back(Wave(i));
    plane.b.push_back(Wave(i + 5));
  }
  EncodingSpec rows = Spec({});
  rows.absolutes = {AbsolutePart{
      .kind = LearnedTablePart{
          .rows = 4,
          .dim = 16,
          .table = Waves(4 * 16),
          .step = 500,
          .boundary = LearnedTablePart::Boundary::kWrap,
          .interpolation = LearnedTablePart::Interpolation::kLinear}}};
  EncodingSpec hawkes = Spec({});
  hawkes.absolutes = {AbsolutePart{.kind = HawkesPart{}}};
  std::vector<Family> families = {
      {"rope", Spec({RotaryBlock{}})},
      {"averaged, but still",
       Spec({Block(DecayBlock{.rates = {0}}, {}, true)})},
      {"yarn", Spec({yarn})},
      {"clock rope", Spec({Block(RotaryBlock{}, clock)}), true},
      {"kerple log", Spec({}, {KerpleTerm{.r1 = {1}, .r2 = {0.5}}})},
      {"kerple power",
       Spec({}, {KerpleTerm{.power = true, .r1 = {0.2}, .r2 = {0.5}}})},
      {"sandwich", Spec({}, {SandwichTerm{.dim = 64}})},
      {"t5", Spec({}, {T5Term{.bidirectional = true, .table = Waves(2 * 32)}})},
      {"hstu", Spec({}, {HstuTerm{.table = Waves(2 * 129)}})},
      {"lag table", Spec({}, {LagTableTerm{.lags = {-10, 0, 5, 100},
                                           .values = {-1, 0.5, 0, -2}}})},
      {"fire", Spec({}, {FireTerm{.hidden = 2,
                                  .w1 = {1, -1},
                                  .b1 = {0, 0.5f},
                                  .w2 = {-2, 1, 1, 0.5f},
                                  .b2 = {0.25f, 0}}})},
      {"alibi of both sides",
       Spec({}, {AlibiTerm{.slopes = {0.3, 1e-4}, .two_sided = true}})},
      {"llama 3", Spec({llama})},
      {"turns in a plane", Spec({plane})},
      {"turns in a basis", around},
      {"sinusoidal", sinusoid},
      {"rows of a table", rows},
      {"hawkes", hawkes},
      {"temperature", warm},
      {"temperature of length", longer},
  };
  for (const Family& family : OneSidedFamilies()) {
    if (family.name == "jordan 4, unbounded") continue;
    families.push_back({family.name + ", two-sided", TwoSided(family.spec),
                        family.clock, family.gates});
  }
  return families;
}

std::vector<float> ClockAt(const std::vector<int64_t>& times, int64_t heads) {
  std::vector<float> clock;
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t t : times) {
      const double seconds =
          static_cast<double>(t - 1'700'000'000 * kSecond) / kSecond;
      clock.push_back(static_cast<float>(std::floor(seconds) * (1 + 0.5 * h)));
    }
  }
  return clock;
}

ProblemSpec FamilyProblem(const Family& family, uint64_t seed, int64_t queries,
                          int64_t keys, bool causal) {
  Random random(seed);
  ProblemSpec spec;
  spec.seed = seed;
  spec.query_heads = 2;
  spec.kv_heads = 1;
  spec.queries = queries;
  spec.keys = keys;
  spec.dim = 16;
  spec.value_dim = 8;
  spec.Fill(random);
  spec.kind = TimeAxis::Kind::kTicks;
  spec.key_ticks = WideTimes(random, keys);
  spec.query_ticks = spec.key_ticks;
  if (queries != keys) {
    spec.query_ticks.clear();
    for (int64_t i = 0; i < queries; ++i) {
      spec.query_ticks.push_back(random.Pick(spec.key_ticks) +
                                 random.Integer(0, kSecond));
    }
  }
  spec.encoding = family.spec;
  spec.ratio = {.tick_ns = 1, .unit_ns = kSecond};
  spec.causal = causal;
  spec.scale = 0.25f;
  if (family.clock) {
    spec.query_clock = ClockAt(spec.query_ticks, spec.kv_heads);
    spec.key_clock = ClockAt(spec.key_ticks, spec.kv_heads);
  }
  if (family.gates) {
    for (int64_t g = 0; g < spec.query_heads * keys; ++g) {
      spec.gates.push_back(-static_cast<float>(random.Uniform()));
    }
  }
  return spec;
}

double Slack(const EncodingSpec& spec) {
  std::vector<Block> blocks = spec.blocks;
  for (const std::vector<Block>& head : spec.per_head) {
    blocks.insert(blocks.end(), head.begin(), head.end());
  }
  const bool jordan =
      std::any_of(blocks.begin(), blocks.end(), [](const Block& block) {
        return std::holds_alternative<RealJordanBlock>(block.kind) ||
               std::holds_alternative<ComplexJordanBlock>(block.kind);
      });
  return jordan ? kJordanSlack : 1;
}

}  // namespace attnd::testing
