#include "kernels/rotation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "kernels/block_pack.h"
#include "kernels/clock.h"
#include "kernels/gemm.h"
#include "kernels/phase_rows.h"
#include "kernels/tensor.h"
#include "tests/kernels/problem_builder.h"

namespace attnd {
namespace {

std::shared_ptr<const Encoder> Compile(std::vector<Block> blocks, int dim) {
  EncodingSpec spec;
  spec.blocks = std::move(blocks);
  return *Encoder::Compile(
      spec, {.head_dim = dim, .query_heads = 1, .kv_heads = 1}, {});
}

// Planes of random frequencies of every size and sign.
std::shared_ptr<const Encoder> RandomPlanes(int planes, uint64_t seed,
                                            bool clock = false) {
  testing::Random random(seed);
  RotationBlock block{.frequencies = {}};
  for (int p = 0; p < planes; ++p) {
    block.frequencies.push_back((random.Coin() ? 1 : -1) *
                                std::exp(30 * random.Uniform() - 25));
  }
  return Compile({Block(block, {.clock = clock})}, 2 * planes);
}

class Table {
 public:
  Table(const Encoder& encoder, int64_t ticks)
      : Table(encoder, {.kind = PhasePoint::Kind::kTicks, .ticks = ticks}) {}
  Table(const Encoder& encoder, double ticks)
      : Table(encoder, {.kind = PhasePoint::Kind::kReal, .real = ticks}) {}
  Table(const Encoder& encoder, float clock)
      : Table(encoder, {.kind = PhasePoint::Kind::kClock, .real = clock}) {}
  float *cosine, *sine;

 private:
  Table(const Encoder& encoder, const PhasePoint& point) {
    const int64_t stride = encoder.head(0).table_size();
    cosine = buffer_.Reserve(2 * stride);
    sine = cosine + stride;
    PhaseRows(encoder.head(0), &point, 1, cosine);
  }

  AlignedBuffer buffer_;
};

double AngleOf(uint64_t word) {
  return std::ldexp(static_cast<double>(static_cast<int64_t>(word)), -64) * 2 *
         M_PI;
}

template <typename Ticks>
void ExpectExactPhases(const Encoder& encoder, Ticks ticks) {
  const Table table(encoder, ticks);
  const HeadEncoder::Frequencies& all = encoder.head(0).frequencies()[0];
  const size_t planes = encoder.head(0).generator().planes().size();
  for (size_t p = 0; p < planes; ++p) {
    const TurnFrequency f{all.hi[p], all.lo[p], all.whole[p]};
    const double angle = AngleOf(PhaseWord(f, ticks));
    ASSERT_NEAR(table.cosine[p], std::cos(angle), kTrigError)
        << "plane " << p << " at " << ticks;
    ASSERT_NEAR(table.sine[p], std::sin(angle), kTrigError)
        << "plane " << p << " at " << ticks;
  }
}

TEST(PhaseRows, FollowsTheExactPhaseAtEveryInt64) {
  testing::Random random(1);
  for (int planes : {1, 7, 8, 15, 16, 17, 32, 40}) {
    const auto encoder = RandomPlanes(planes, planes);
    for (int64_t ticks : {int64_t{0}, int64_t{1}, INT64_MAX, int64_t{-1},
                          INT64_MIN, int64_t{1} << 32, int64_t{0xFFFFFFFF}}) {
      ExpectExactPhases(*encoder, ticks);
    }
    for (int trial = 0; trial < 200; ++trial) {
      ExpectExactPhases(*encoder, static_cast<int64_t>(random.Bits()) >>
                                      random.Integer(0, 62));
    }
  }
}

TEST(PhaseRows, FollowsTheExactPhaseAtRealTicks) {
  testing::Random random(2);
  for (int planes : {1, 16, 17}) {
    const auto encoder = RandomPlanes(planes, planes);
    for (int trial = 0; trial < 200; ++trial) {
      const double size = std::exp(40 * random.Uniform() - 10);
      ExpectExactPhases(*encoder, random.Coin() ? size : -size);
    }
  }
}

// A clock that began long ago turns as exactly as one that begins now, up to
// 2^48 turns.
TEST(PhaseRows, FollowsTheExactPhaseAtEveryClock) {
  testing::Random random(3);
  for (int planes : {1, 16, 17, 40}) {
    const auto encoder = RandomPlanes(planes, planes, /*clock=*/true);
    for (int trial = 0; trial < 400; ++trial) {
      const auto clock =
          static_cast<float>(std::exp(45 * random.Uniform() - 15));
      ExpectExactPhases(*encoder, random.Coin() ? clock : -clock);
    }
  }
}

TEST(PhaseRows, KeepsItsErrorAllRoundTheCircle) {
  // One tick is a 2^-16th of a turn.
  const auto encoder =
      Compile({RotationBlock{.frequencies = {2 * M_PI / 65536}}}, 2);
  for (int64_t ticks = 0; ticks < 65536; ++ticks) {
    ExpectExactPhases(*encoder, ticks);
  }
}

// dst = R src in double, from the planes.
std::vector<double> Rotated(const Encoder& encoder, const Table& table,
                            const std::vector<float>& src, double scale) {
  std::vector<double> out(src.begin(), src.end());
  for (double& v : out) v *= scale;
  const std::vector<Plane>& planes = encoder.head(0).generator().planes();
  for (size_t p = 0; p < planes.size(); ++p) {
    const double x = scale * src[planes[p].first];
    const double y = scale * src[planes[p].second];
    out[planes[p].first] = x * table.cosine[p] - y * table.sine[p];
    out[planes[p].second] = x * table.sine[p] + y * table.cosine[p];
  }
  return out;
}

std::vector<float> Encode(const Encoder* encoder, const Table* table,
                          const std::vector<float>& src, float scale) {
  const auto dim = static_cast<int64_t>(src.size());
  const int64_t padded = PaddedDim(dim);
  AlignedBuffer in, out, scratch;
  std::copy(src.begin(), src.end(), in.Reserve(padded));
  std::fill_n(out.Reserve(padded), padded, 77.0f);
  EncodeRow(encoder ? &encoder->head(0) : nullptr, true,
            table ? table->cosine : nullptr, scale, in.data(), dim, padded,
            scratch.Reserve(padded), out.data());
  return {out.data(), out.data() + padded};
}

TEST(EncodeRow, RotatesEveryPlaneAndPadsWithZeros) {
  testing::Random random(3);
  constexpr PairLayout kPairs = PairLayout::kInterleaved;
  for (int dim : {2, 6, 16, 18, 64, 66, 128, 130}) {
    for (const std::vector<Block>& blocks : std::vector<std::vector<Block>>{
             {RotaryBlock{}},
             {RotaryBlock{.layout = kPairs}},
             {RotaryBlock{.rotary_dim = 2}},
             {IdentityBlock{.width = 1},
              RotationBlock{.frequencies = {0.5}, .layout = kPairs}}}) {
      if (dim == 2 && blocks.size() > 1) continue;
      const auto encoder = Compile(blocks, dim);
      const Table table(*encoder, int64_t{12345});
      const std::vector<float> src = random.Normals(dim);
      const std::vector<double> expected = Rotated(*encoder, table, src, 0.75);
      const std::vector<float> got = Encode(encoder.get(), &table, src, 0.75f);
      for (int c = 0; c < dim; ++c) {
        EXPECT_NEAR(got[c], expected[c], 1e-6) << "dim " << dim << ", " << c;
      }
      for (size_t c = dim; c < got.size(); ++c) EXPECT_EQ(got[c], 0);
    }
  }
}

TEST(EncodeRow, WithoutAnEncoderItScales) {
  for (int dim : {1, 3, 16, 31}) {
    const std::vector<float> got =
        Encode(nullptr, nullptr, std::vector<float>(dim, 3), -2);
    for (int c = 0; c < dim; ++c) EXPECT_EQ(got[c], -6);
    for (size_t c = dim; c < got.size(); ++c) EXPECT_EQ(got[c], 0);
  }
}

// Blocks of every way that rows go: halves, pairs, another order, a basis.
std::vector<std::vector<Block>> BlocksOf(int dim) {
  DenseMatrixBlock dense{.dim = dim};
  testing::Random random(6);
  for (int e = 0; e < dim * dim; ++e) {
    dense.matrix.push_back(e % (dim + 1) == 0 ? -1 - e / (2.0 * dim * dim)
                                              : 0.01 * random.Normal());
  }
  return {{RotaryBlock{.layout = PairLayout::kHalfSplit}},
          {RotaryBlock{.rotary_dim = 4, .layout = PairLayout::kHalfSplit}},
          {RotaryBlock{.layout = PairLayout::kInterleaved}},
          {DecayBlock{.rates = {0.5}, .width = 2}, RotaryBlock{}},
          {dense}};
}

TEST(EncodeRows, AreTheRowsOneByOneAtAnyStride) {
  testing::Random random(4);
  for (int dim : {4, 18, 32, 40, 64}) {
    for (const std::vector<Block>& blocks : BlocksOf(dim)) {
      const auto encoder = Compile(blocks, dim);
      const HeadEncoder& head = encoder->head(0);
      constexpr int kRows = 5;
      const bool turns = head.turns();
      std::vector<PhasePoint> points;
      for (int64_t r = 0; r < kRows; ++r) points.push_back({.ticks = 1000 * r});
      AlignedBuffer phases, scratch, out;
      const int64_t padded = PaddedDim(dim), stride = dim + 3;
      phases.Reserve(head.phase_floats() * kRows + 1);
      if (turns) PhaseRows(head, points.data(), kRows, phases.data());
      std::vector<float> src = random.Normals(kRows * stride);
      src[3 * stride + dim - 1] = std::numeric_limits<float>::infinity();
      EncodeRows({.head = &head,
                  .query = true,
                  .src = src.data(),
                  .stride = stride,
                  .phases = turns ? phases.data() : nullptr,
                  .rows = kRows,
                  .dim = dim,
                  .padded = padded,
                  .scale = 0.75f,
                  .scratch = scratch.Reserve(kRows * padded),
                  .dst = out.Reserve(kRows * padded)});
      for (int64_t r = 0; r < kRows; ++r) {
        const Table table(*encoder, points[r].ticks);
        const auto row = src.begin() + r * stride;
        const std::vector<float> expected = Encode(
            encoder.get(), turns ? &table : nullptr, {row, row + dim}, 0.75f);
        for (int64_t c = 0; c < padded; ++c) {
          const float got = out.data()[r * padded + c];
          if (r == 3) {
            EXPECT_TRUE(std::isnan(got));
          } else {
            EXPECT_NEAR(got, expected[c], 3e-6) << "dim " << dim << ", " << c;
          }
        }
      }
    }
  }
}

TEST(EncodeRow, ARowWithABadElementIsAllNaN) {
  const auto encoder = Compile({RotaryBlock{}}, 20);
  const Table table(*encoder, int64_t{7});
  for (float bad : {std::numeric_limits<float>::quiet_NaN(),
                    std::numeric_limits<float>::infinity(),
                    -std::numeric_limits<float>::infinity()}) {
    for (int at : {0, 15, 16, 19}) {
      std::vector<float> src(20, 1);
      src[at] = bad;
      for (float scale : {1.0f, 0.0f}) {
        for (float v : Encode(encoder.get(), &table, src, scale)) {
          EXPECT_TRUE(std::isnan(v)) << at;
        }
      }
    }
  }
}

TEST(EncodeRow, LargeFiniteRowsStayFinite) {
  const std::vector<float> got =
      Encode(nullptr, nullptr, std::vector<float>(5, 3e38f), 1);
  for (int c = 0; c < 5; ++c) EXPECT_EQ(got[c], 3e38f);
}

TEST(PackBlock, TransposesSixtyFourRows) {
  for (int64_t padded : {16, 48}) {
    AlignedBuffer rows, block;
    float* in = rows.Reserve(64 * padded);
    for (int64_t e = 0; e < 64 * padded; ++e) in[e] = static_cast<float>(e);
    PackBlock(in, 64, padded, block.Reserve(64 * padded));
    for (int64_t j = 0; j < 64; ++j) {
      for (int64_t c = 0; c < padded; ++c) {
        EXPECT_EQ(block.data()[c * 64 + j], in[j * padded + c]);
      }
    }
  }
}

}  // namespace
}  // namespace attnd
