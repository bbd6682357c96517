// LieRE with several axes: turns by places. The matrices against the power
// series in long double, whole problems against the reference.
#include "kernels/free_turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/presets.h"
#include "tests/kernels/answer.h"
#include "tests/kernels/matrix_oracle.h"
#include "tests/kernels/problem_builder.h"

namespace attnd::testing {
namespace {

using ::testing::HasSubstr;

Matrix RandomSkew(int n, Random& random) {
  Matrix skew(static_cast<size_t>(n) * n);
  for (int i = 1; i < n; ++i) {
    for (int j = 0; j < i; ++j) {
      skew[i * n + j] = random.Normal();
      skew[j * n + i] = -skew[i * n + j];
    }
  }
  return skew;
}

// exp(sum p_a A_a) as the kernel has it, transposed back.
Matrix TurnAt(const FreeTurn& turn, const std::vector<double>& places) {
  std::vector<float> matrix(turn.size * turn.size);
  FreeTurnMatrix(turn, places, matrix.data());
  return Transpose(Matrix(matrix.begin(), matrix.end()), turn.size);
}

TEST(FreeTurn, IsTheSeriesOfTheSum) {
  Random random(1);
  for (const int n : {3, 4, 5, 8, 17, 32}) {
    const Matrix a = RandomSkew(n, random), b = RandomSkew(n, random);
    Matrix both = a;
    both.insert(both.end(), b.begin(), b.end());
    const FreeTurn turn = MakeFreeTurn(n, both);
    for (const double size : {0.0, 1e-300, 1e-9, 1e-3, 1.0, 30.0, 500.0}) {
      const double x = size * random.Normal(), y = size * random.Normal();
      Matrix sum(a.size());
      for (size_t e = 0; e < sum.size(); ++e) sum[e] = x * a[e] + y * b[e];
      EXPECT_LE(Difference(TurnAt(turn, {x, y}), SeriesExp(sum, n, 1)),
                kFreeTurnError)
          << n << " channels at " << x << ", " << y;
      EXPECT_LE(FrobeniusNorm(sum),
                std::sqrt(2) * LargestAngle(turn, {x, y}) * (1 + 1e-12));
    }
  }
}

TEST(FreeTurn, IsExactlyTheIdentityAtZero) {
  Random random(2);
  const FreeTurn turn = MakeFreeTurn(6, RandomSkew(6, random));
  EXPECT_EQ(TurnAt(turn, {0}), Identity(6));
  const FreeTurn still = MakeFreeTurn(4, Matrix(16));
  EXPECT_EQ(TurnAt(still, {1e300}), Identity(4));
}

// Planes with known frequencies in a basis of their own, so that the angle is
// known however large: up to kMaxFreeAngle nothing is lost, and rows keep their
// norms.
TEST(FreeTurn, HoldsItsErrorUpToTheLargestAngle) {
  Random random(3);
  constexpr int kPlanes = 4, kDim = 2 * kPlanes;
  const double frequencies[kPlanes] = {1, 0.5, 0.25, 0.0078125};
  const Matrix basis = RandomTurn(kDim, random);
  const auto in_basis = [&](auto entries) {
    Matrix inner(kDim * kDim);
    for (int p = 0; p < kPlanes; ++p) {
      const auto [same, across] = entries(frequencies[p]);
      inner[2 * p * kDim + 2 * p] = same;
      inner[(2 * p + 1) * kDim + 2 * p + 1] = same;
      inner[(2 * p + 1) * kDim + 2 * p] = across;
      inner[2 * p * kDim + 2 * p + 1] = -across;
    }
    return Product(Product(basis, inner, kDim), Transpose(basis, kDim), kDim);
  };
  Matrix skew = in_basis([](double w) { return std::pair(0.0, w); });
  for (int i = 0; i < kDim; ++i) {
    for (int j = 0; j <= i; ++j) skew[j * kDim + i] = -skew[i * kDim + j];
  }
  const FreeTurn turn = MakeFreeTurn(kDim, skew);
  for (const double place : {1e3, -65536.0, 1e6 + 0.5, 33'554'432.0, 5.8e7}) {
    ASSERT_LE(LargestAngle(turn, {place}), kMaxFreeAngle);
    const Matrix expected = in_basis([&](double w) {
      const long double angle = static_cast<long double>(w) * place;
      return std::pair(static_cast<double>(std::cos(angle)),
                       static_cast<double>(std::sin(angle)));
    });
    const Matrix value = TurnAt(turn, {place});
    EXPECT_LE(Difference(value, expected), kFreeTurnError) << place;
    EXPECT_LE(Difference(Product(value, Transpose(value, kDim), kDim),
                         Identity(kDim)),
              4e-7)
        << place;
  }
}

// ---- whole problems ---------------------------------------------------------

// Tiles of `tile` channels over `axes` axes, after 4 channels of RoPE.
EncodingSpec Encoding(Random& random, int tile, int tiles, int axes) {
  EncodingSpec spec;
  spec.unit_ns = 1'000'000'000;
  spec.blocks = {RotaryBlock{.rotary_dim = 4}};
  for (int t = 0; t < tiles; ++t) {
    LieReBlock block{.dim = tile, .coordinates = axes};
    for (int e = 0; e < axes * tile * (tile - 1) / 2; ++e) {
      block.generators.push_back(random.Normal());
    }
    spec.blocks.push_back(block);
  }
  return spec;
}

// Queries and keys at places of a plane, in ms.
ProblemSpec Problem(uint64_t seed, const EncodingSpec& encoding,
                    int64_t queries, int64_t keys, int64_t dim) {
  Random random(seed);
  ProblemSpec spec;
  spec.seed = seed;
  spec.query_heads = 4;
  spec.kv_heads = 2;
  spec.queries = queries;
  spec.keys = keys;
  spec.dim = dim;
  spec.value_dim = 8;
  spec.Fill(random);
  spec.kind = TimeAxis::Kind::kTicks;
  spec.coordinates = 2;
  for (auto* ticks : {&spec.query_ticks, &spec.key_ticks}) {
    const int64_t rows = ticks == &spec.query_ticks ? queries : keys;
    for (int64_t i = 0; i < 2 * rows; ++i) {
      ticks->push_back(random.Integer(-20'000, 20'000));
    }
  }
  spec.encoding = encoding;
  spec.ratio = {.tick_ns = 1'000'000, .unit_ns = 1'000'000'000};
  spec.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(dim)));
  return spec;
}

TEST(LieReKernel, KeepsTheContractOverShapesAndTiles) {
  Random random(4);
  uint64_t seed = 0;
  const std::vector<std::pair<int64_t, int64_t>> shapes =
      kSanitized ? std::vector<std::pair<int64_t, int64_t>>{{30, 70}}
                 : std::vector<std::pair<int64_t, int64_t>>{
                       {70, 70}, {3, 200}, {150, 20}, {1, 1}};
  for (const auto& [tile, tiles] :
       {std::pair(3, 2), std::pair(8, 2), std::pair(20, 1)}) {
    const EncodingSpec encoding = Encoding(random, tile, tiles, 2);
    for (const auto& [queries, keys] : shapes) {
      for (const int64_t more : {0, 5}) {
        ProblemSpec spec =
            Problem(++seed, encoding, queries, keys, 4 + tile * tiles + more);
        EXPECT_EQ(Judge(spec), "") << "tile " << tile;
        spec.causal = true;
        spec.kind = TimeAxis::Kind::kReal;
        spec.query_real = {spec.query_ticks.begin(), spec.query_ticks.end()};
        spec.key_real = {spec.key_ticks.begin(), spec.key_ticks.end()};
        for (double& t : spec.key_real) t += 0.25;
        EXPECT_EQ(Judge(spec), "") << "tile " << tile << ", real";
      }
    }
  }
}

// Beside decays, whose tiles move keys to references, biases and absolute
// parts; a generator per head; packed sequences.
TEST(LieReKernel, CombinesWithEverythingElse) {
  Random random(5);
  EncodingSpec encoding = Encoding(random, 5, 1, 2);
  encoding.blocks.push_back(DecayBlock{.rates = {0.5, 3}});
  encoding.biases = {AlibiTerm{}};
  encoding.absolutes = {AbsolutePart{.kind = SinusoidalPart{}}};
  ProblemSpec spec = Problem(6, encoding, 70, 70, 12);
  spec.query_ticks = spec.key_ticks;
  spec.causal = true;
  EXPECT_EQ(Judge(spec), "");

  encoding.per_head = {encoding.blocks, encoding.blocks};
  std::swap(encoding.per_head[1][0], encoding.per_head[1][1]);
  encoding.blocks.clear();
  spec.encoding = encoding;
  EXPECT_EQ(Judge(spec), "") << "per head";

  spec.query_offsets = spec.key_offsets = {0, 30, 70};
  EXPECT_EQ(Judge(spec), "") << "packed";
}

TEST(LieReKernel, FollowsLearnedClocks) {
  Random random(7);
  EncodingSpec encoding = Encoding(random, 6, 1, 2);
  encoding.blocks[1].drive = {.clock = true};
  ProblemSpec spec = Problem(8, encoding, 20, 90, 10);
  spec.clock_channels = 2;
  spec.query_clock = random.Normals(2 * 20 * 2);
  spec.key_clock = random.Normals(2 * 90 * 2);
  EXPECT_EQ(Judge(spec), "");
}

// Heads share matrices where they have one generator, and make their own where
// they do not: the same bits.
TEST(LieReKernel, SharedMatricesGiveTheSameBits) {
  Random random(9);
  EncodingSpec encoding = Encoding(random, 16, 2, 2);
  ProblemSpec spec = Problem(10, encoding, 20, 150, 36);
  const Answer shared = RunSpec(spec);
  encoding.per_head = {encoding.blocks, encoding.blocks};
  encoding.blocks.clear();
  spec.encoding = encoding;
  EXPECT_EQ(CompareBits(shared, RunSpec(spec)), "");
}

// Scores see places: a common shift changes them, which is what several axes
// that do not commute cost. A row at 0 is what it was sent as.
TEST(LieReKernel, IsNotAFunctionOfLags) {
  Random random(11);
  const EncodingSpec encoding = Encoding(random, 4, 1, 2);
  ProblemSpec spec = Problem(12, encoding, 4, 4, 8);
  const Answer before = RunSpec(spec);
  ProblemSpec shifted = spec;
  for (auto* ticks : {&shifted.query_ticks, &shifted.key_ticks}) {
    for (int64_t& t : *ticks) t += 3'000;
  }
  EXPECT_EQ(Judge(shifted), "");
  const Answer after = RunSpec(shifted);
  double difference = 0;
  for (size_t e = 0; e < before.scores.size(); ++e) {
    difference = std::max<double>(difference,
                                  std::abs(before.scores[e] - after.scores[e]));
  }
  EXPECT_GT(difference, 0.1);

  ProblemSpec still = spec;
  for (auto* ticks : {&still.query_ticks, &still.key_ticks}) {
    std::fill(ticks->begin(), ticks->end(), 0);
  }
  ProblemSpec plain = still;
  plain.encoding = EncodingSpec{};
  const Answer a = RunSpec(still), b = RunSpec(plain);
  for (size_t e = 0; e < a.scores.size(); ++e) {
    EXPECT_NEAR(a.scores[e], b.scores[e], 1e-6);
  }
}

// Turns of one plane commute: tiles of two channels are RoPE-mixed, exact at
// any distance and shift.
TEST(LieReKernel, TilesOfTwoAreRotationsOfTheClass) {
  EncodingSpec encoding;
  encoding.unit_ns = 1'000'000'000;
  encoding.blocks = {
      LieReBlock{.dim = 2, .coordinates = 2, .generators = {0.7, -1.3}}};
  EncodingSpec mixed = encoding;
  mixed.blocks = {RotationBlock{.frequencies = {0.7, -1.3},
                                .layout = PairLayout::kInterleaved,
                                .coordinates = 2}};
  ProblemSpec spec = Problem(13, encoding, 9, 40, 4);
  const Answer answer = RunSpec(spec);
  EXPECT_EQ(Judge(spec), "");
  spec.encoding = mixed;
  EXPECT_EQ(CompareBits(answer, RunSpec(spec)), "");
  for (auto* ticks : {&spec.query_ticks, &spec.key_ticks}) {
    for (int64_t& t : *ticks) t += 1'700'000'000'000;
  }
  spec.encoding = encoding;
  EXPECT_EQ(CompareBits(answer, RunSpec(spec)), "");
}

TEST(LieReKernel, RefusesPlacesThatHaveLostTheirAngle) {
  EncodingSpec encoding;
  encoding.unit_ns = 1'000'000'000;
  encoding.blocks = {LieReBlock{
      .dim = 3, .coordinates = 2, .generators = {1, 0, 0, 0, 0.5, 0}}};
  ProblemSpec spec = Problem(14, encoding, 4, 5, 4);
  // 2^26 s turn by 2^26 rad.
  spec.key_ticks[2 * 3] = 67'108'864'000;
  spec.key_ticks[2 * 3 + 1] = 0;
  EXPECT_EQ(Judge(spec), "");
  spec.key_ticks[2 * 3] += 1;
  spec.key_ticks[2 * 4] = 1'700'000'000'000;
  const auto owned = OwnedProblem::Build(spec);
  ASSERT_TRUE(owned.ok()) << owned.status();
  const auto plan = Plan::Make(owned->problem());
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(plan.status().message()),
              HasSubstr("key_time: row 3 turns by up to 6.71089e+07 rad"));
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("2 such rows"));
}

TEST(LieReKernel, RefusesABasisAround) {
  EncodingSpec encoding;
  encoding.unit_ns = 1;
  encoding.blocks = {LieReBlock{
      .dim = 3, .coordinates = 2, .generators = {1, 0, 0, 0, 0.5, 0}}};
  encoding.basis = {0, 1, 0, 1, 0, 0, 0, 0, 1};
  const auto encoder = Encoder::Compile(
      encoding, {.head_dim = 3, .query_heads = 1, .kv_heads = 1}, {});
  EXPECT_THAT(std::string(encoder.status().message()), HasSubstr("basis"));
}

}  // namespace
}  // namespace attnd::testing
