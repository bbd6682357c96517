// Blocks and RoPE's scalings against the vectors of an independent program.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/basis.h"
#include "kernels/free_turns.h"
#include "kernels/generator.h"
#include "kernels/presets.h"
#include "kernels/rotary_scaling.h"
#include "tests/golden/golden_file.h"
#include "tests/kernels/matrix_oracle.h"

namespace attnd::testing {
namespace {

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();

double NumberOr(const GoldenRecord& record, const char* key, double otherwise) {
  const GoldenRecord::Line* line = record.Find(key);
  return line == nullptr ? otherwise : line->Number(0);
}

std::optional<double> Optional(const GoldenRecord& record, const char* key) {
  const GoldenRecord::Line* line = record.Find(key);
  if (line == nullptr) return std::nullopt;
  return line->Number(0);
}

std::vector<double> NumbersOrNone(const GoldenRecord& record, const char* key) {
  const GoldenRecord::Line* line = record.Find(key);
  return line == nullptr ? std::vector<double>{} : line->Numbers();
}

RotaryScaling ScalingOf(const GoldenRecord& r) {
  const std::string kind = r.Get("scaling").values[0];
  const double factor = NumberOr(r, "factor", kind == "llama3" ? 8 : 1);
  const double length = NumberOr(r, "original_length", 8192);
  if (kind == "linear") return LinearScaling{.factor = factor};
  if (kind == "ntk") return NtkScaling{.factor = factor};
  if (kind == "dynamic_ntk") {
    return DynamicNtkScaling{.factor = factor, .original_length = length};
  }
  if (kind == "yarn") {
    return YarnScaling{.factor = factor,
                       .original_length = length,
                       .beta_fast = NumberOr(r, "beta_fast", 32),
                       .beta_slow = NumberOr(r, "beta_slow", 1),
                       .attention_factor = Optional(r, "attention_factor"),
                       .mscale = Optional(r, "mscale"),
                       .mscale_all_dim = Optional(r, "mscale_all_dim"),
                       .truncate = NumberOr(r, "truncate", 1) != 0,
                       .paper_ramp = NumberOr(r, "paper_ramp", 0) != 0};
  }
  if (kind == "longrope") {
    return LongRopeScaling{.short_factor = r.Get("short_factor").Numbers(),
                           .long_factor = r.Get("long_factor").Numbers(),
                           .original_length = length,
                           .factor = factor,
                           .attention_factor = Optional(r, "attention_factor")};
  }
  if (kind == "llama3") {
    return Llama3Scaling{.factor = factor,
                         .low_freq_factor = NumberOr(r, "low_freq_factor", 1),
                         .high_freq_factor = NumberOr(r, "high_freq_factor", 4),
                         .original_length = length};
  }
  if (kind == "proportional") {
    return ProportionalScaling{.fraction = r.Get("fraction").Number(0),
                               .factor = factor};
  }
  EXPECT_EQ(kind, "none");
  return {};
}

class RotaryGolden : public ::testing::TestWithParam<GoldenRecord> {};

TEST_P(RotaryGolden, FrequenciesAndAmplitude) {
  const GoldenRecord& record = GetParam();
  const RotaryBlock block{.base = record.Get("base").Number(0),
                          .scaling = ScalingOf(record)};
  const int dim = static_cast<int>(record.Get("dim").Integer(0));
  const auto generator =
      Generator::Make({block}, dim, NumberOr(record, "length", 0));
  ASSERT_TRUE(generator.ok()) << generator.status();
  const std::vector<double> expected = record.Get("frequencies").Numbers();
  ASSERT_EQ(generator->planes().size(), expected.size());
  for (size_t j = 0; j < expected.size(); ++j) {
    // pow(), and the ramp's share of it.
    EXPECT_NEAR(generator->planes()[j].omega, expected[j], 1e-14 * expected[j])
        << "plane " << j;
  }
  const double amplitude = record.Get("amplitude").Number(0);
  if (amplitude == 1) {
    EXPECT_TRUE(generator->channel_scale().empty());
  } else {
    ASSERT_EQ(generator->channel_scale().size(), static_cast<size_t>(dim));
    for (double scale : generator->channel_scale()) {
      EXPECT_NEAR(scale, amplitude, 4 * kEpsilon);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, RotaryGolden,
                         ::testing::ValuesIn(ReadGoldenFile("rotary.txt")));

BlockKind KindOf(const GoldenRecord& r, int dim) {
  const std::string kind = r.Get("kind").values[0];
  const std::vector<double> frequencies = NumbersOrNone(r, "frequencies");
  const std::vector<double> rates = NumbersOrNone(r, "rates");
  const GoldenRecord::Line* layout_line = r.Find("layout");
  const PairLayout layout =
      layout_line != nullptr && layout_line->values[0] == "half"
          ? PairLayout::kHalfSplit
          : PairLayout::kInterleaved;
  if (kind == "rotation") {
    return RotationBlock{.frequencies = frequencies, .layout = layout};
  }
  if (kind == "component_decay") return DecayBlock{.rates = rates};
  if (kind == "damped_rotation") {
    return DampedRotationBlock{
        .frequencies = frequencies, .rates = rates, .layout = layout};
  }
  if (kind == "real_jordan") {
    return RealJordanBlock{.size = static_cast<int>(r.Get("size").Integer(0)),
                           .rates = rates,
                           .tau = r.Get("tau").Number(0)};
  }
  if (kind == "complex_jordan") {
    return ComplexJordanBlock{
        .size = static_cast<int>(r.Get("size").Integer(0)),
        .frequencies = frequencies,
        .rates = rates,
        .eta = r.Get("eta").Number(0)};
  }
  if (kind == "skew_rank2") {
    return SkewRank2Block{.a = r.Get("a").Numbers(),
                          .b = r.Get("b").Numbers(),
                          .frequency = r.Get("frequency").Number(0)};
  }
  EXPECT_EQ(kind, "dense");
  return DenseMatrixBlock{.dim = dim, .matrix = r.Get("matrix").Numbers()};
}

class GeneratorGolden : public ::testing::TestWithParam<GoldenRecord> {};

TEST_P(GeneratorGolden, Exp) {
  const GoldenRecord& record = GetParam();
  const int dim = static_cast<int>(record.Get("dim").Integer(0));
  Block block;
  block.kind = KindOf(record, dim);
  block.averaged = NumberOr(record, "averaged", 0) != 0;
  const auto generator = Generator::Make({block}, dim);
  ASSERT_TRUE(generator.ok()) << generator.status();
  const double norm = FrobeniusNorm(GeneratorMatrix(*generator));
  for (const GoldenRecord::Line& line : record.lines()) {
    if (line.key != "exp") continue;
    const double lag = line.Number(0);
    const std::vector<double> expected = line.Numbers(1);
    // Of D X only the rounding of X counts, which a decay damps: lambda D times
    // e^(-lambda D) is below 1.
    const double rounding = generator->planes().empty() ? 1 : 1 + norm * lag;
    EXPECT_LE(Difference(generator->Exp(lag), expected),
              16 * kEpsilon * generator->condition() * rounding *
                  std::max(1.0, LargestEntry(expected)))
        << "lag " << lag;
  }
}

INSTANTIATE_TEST_SUITE_P(All, GeneratorGolden,
                         ::testing::ValuesIn(ReadGoldenFile("generators.txt")));

// The blocks of one head, and the basis around them.
EncodingSpec FamilyOf(const GoldenRecord& r, int dim) {
  const std::string family = r.Get("family").values[0];
  if (family == "xpos") {
    return *XPos({.scale_base = r.Get("scale_base").Number(0),
                  .gamma = r.Get("gamma").Number(0)},
                 dim);
  }
  if (family == "retnet") {
    const int head = static_cast<int>(r.Get("head").Integer(0));
    EncodingSpec spec = *RetNet({}, dim, head + 1);
    spec.blocks = spec.per_head[head];
    return spec;
  }
  EXPECT_EQ(family, "cayley");
  EncodingSpec spec;
  spec.blocks = {RotationBlock{.frequencies = r.Get("frequencies").Numbers(),
                               .layout = PairLayout::kInterleaved}};
  spec.basis = *CayleyBasis(r.Get("lower").Numbers(), dim, "cayley");
  return spec;
}

class FamilyGolden : public ::testing::TestWithParam<GoldenRecord> {};

TEST_P(FamilyGolden, Exp) {
  const GoldenRecord& record = GetParam();
  const int dim = static_cast<int>(record.Get("dim").Integer(0));
  if (record.Get("family").values[0] == "liere") {
    const auto spec = LieRe(dim, 2, record.Get("lower").Numbers(), dim);
    ASSERT_TRUE(spec.ok()) << spec.status();
    const auto generator = Generator::Make(spec->blocks, dim);
    ASSERT_TRUE(generator.ok()) << generator.status();
    const FreeTurn turn =
        MakeFreeTurn(dim, generator->free_rotations()[0].generators);
    for (const GoldenRecord::Line& line : record.lines()) {
      if (line.key != "at") continue;
      std::vector<float> matrix(dim * dim);
      FreeTurnMatrix(turn, {line.Number(0), line.Number(1)}, matrix.data());
      const Matrix turned =
          Transpose(Matrix(matrix.begin(), matrix.end()), dim);
      EXPECT_LE(Difference(turned, line.Numbers(2)), kFreeTurnError)
          << "at " << line.Number(0) << ", " << line.Number(1);
    }
    return;
  }
  const EncodingSpec spec = FamilyOf(record, dim);
  const auto generator = Generator::Make(spec.blocks, dim, 0, spec.basis);
  ASSERT_TRUE(generator.ok()) << generator.status();
  const double norm = FrobeniusNorm(GeneratorMatrix(*generator));
  for (const GoldenRecord::Line& line : record.lines()) {
    if (line.key != "at") continue;
    const double lag = line.Number(0);
    EXPECT_LE(Difference(generator->Exp(lag), line.Numbers(1)),
              16 * kEpsilon * generator->condition() * (1 + norm * lag))
        << "lag " << lag;
  }
}

INSTANTIATE_TEST_SUITE_P(All, FamilyGolden,
                         ::testing::ValuesIn(ReadGoldenFile("families.txt")));

}  // namespace
}  // namespace attnd::testing
