// Products of operands rounded to bf16: the packed format, the library's
// products, and what a whole computation is allowed to lose.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/attention.h"
#include "kernels/block_pack.h"
#include "kernels/gemm.h"
#include "kernels/softmax.h"
#include "tests/kernels/answer.h"
#include "tests/kernels/each_target.h"
#include "tests/kernels/problem_builder.h"
#include "tests/kernels/random_problem.h"

namespace attnd::testing {
namespace {

float FromBits(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// Where gemm.h says that element (row, column) of a block stands.
int64_t Place(int64_t row, int64_t column) {
  return row / 2 * 128 + column * 2 + row % 2;
}

TEST(Bf16Pack, EachElementIsRoundedAndStandsInItsPair) {
  constexpr int64_t kStride = 70;
  Random random(1);
  OnEachTarget([&] {
    for (int64_t depth : {1, 16, 31, 32, 64}) {
      for (int64_t columns : {1, 16, 48, 63, 64}) {
        std::vector<float> rows = random.Normals(depth * kStride);
        rows[0] = std::numeric_limits<float>::quiet_NaN();
        if (depth > 1) rows[kStride] = std::numeric_limits<float>::infinity();
        const int64_t words = Bf16Depth(depth) * kKeyBlock;
        std::vector<uint16_t> packed(words + 1, 0x1234);
        PackBf16(rows.data(), kStride, depth, columns, packed.data());
        EXPECT_EQ(packed[words], 0x1234) << "written beyond the block";
        for (int64_t r = 0; r < Bf16Depth(depth); ++r) {
          for (int64_t c = 0; c < kKeyBlock; ++c) {
            const float got = FromBits(packed[Place(r, c)]);
            const float from =
                r < depth && c < columns ? rows[r * kStride + c] : 0;
            if (std::isnan(from)) {
              EXPECT_TRUE(std::isnan(got));
            } else {
              EXPECT_EQ(got, FromBits(ToBFloat16(from))) << r << "," << c;
            }
          }
        }
      }
    }
  });
}

// Random operands that are bf16 already, so that products are exact.
struct Operand {
  Operand(Random& random, int64_t rows, int64_t columns)
      : columns(columns), floats(random.Normals(rows * columns)) {
    for (float& x : floats) {
      bits.push_back(ToBFloat16(x));
      x = FromBits(bits.back());
    }
  }
  double At(int64_t r, int64_t c) const { return floats[r * columns + c]; }

  int64_t columns;
  std::vector<float> floats;
  std::vector<uint16_t> bits;
};

// Block after block of 64 rows, as values are packed.
std::vector<uint16_t> PackedRows(const Operand& rows, int64_t count) {
  std::vector<uint16_t> packed(count * kKeyBlock);
  for (int64_t r = 0; r < count; r += kKeyBlock) {
    PackBf16(rows.floats.data() + r * rows.columns, rows.columns, kKeyBlock,
             rows.columns, packed.data() + r * kKeyBlock);
  }
  return packed;
}

// The transpose of 64 rows each, as keys are packed.
std::vector<uint16_t> PackedColumns(const Operand& keys, int64_t count) {
  const int64_t dim = keys.columns;
  std::vector<uint16_t> packed(count * Bf16Depth(dim));
  std::vector<float> block(dim * kKeyBlock);
  for (int64_t j = 0; j < count; j += kKeyBlock) {
    for (int64_t c = 0; c < dim; ++c) {
      for (int64_t i = 0; i < kKeyBlock; ++i) {
        block[c * kKeyBlock + i] = static_cast<float>(keys.At(j + i, c));
      }
    }
    PackBf16(block.data(), kKeyBlock, dim, kKeyBlock,
             packed.data() + j * Bf16Depth(dim));
  }
  return packed;
}

TEST(TileGemm, Bf16ProductsAreThoseOfAPlainLoopForEveryTileShape) {
  if (!TileGemm::NativeBf16()) GTEST_SKIP() << "no native bf16 here";
  const auto gemm = TileGemm::Create();
  ASSERT_TRUE(gemm.ok()) << gemm.status();
  Random random(2);
  for (int64_t dim : {16, 32, 48, 64, 80, 144}) {
    for (int rows : kRowSteps) {
      for (int keys : {64, 128, 256}) {
        const Operand q(random, rows, dim), k(random, keys, dim);
        AlignedBuffer s;
        s.Reserve(rows * keys);
        ASSERT_TRUE((*gemm)
                        ->QueryKey(rows, keys, dim, q.bits.data(),
                                   PackedColumns(k, keys).data(), s.data())
                        .ok());
        for (int r = 0; r < rows; ++r) {
          for (int j = 0; j < keys; ++j) {
            double dot = 0;
            for (int64_t c = 0; c < dim; ++c) dot += q.At(r, c) * k.At(j, c);
            ASSERT_NEAR(s.data()[r * keys + j], dot, 5e-5);
          }
        }
        if (dim > kKeyBlock) continue;
        const Operand p(random, rows, keys), v(random, keys, dim);
        const std::vector<uint16_t> packed = PackedRows(v, keys);
        AlignedBuffer o;
        std::fill_n(o.Reserve(rows * dim), rows * dim, 1e30f);
        for (bool accumulate : {false, true}) {
          ASSERT_TRUE((*gemm)
                          ->WeightValue(rows, keys, dim, p.bits.data(),
                                        packed.data(), accumulate, o.data())
                          .ok());
          for (int r = 0; r < rows; ++r) {
            for (int64_t c = 0; c < dim; ++c) {
              double sum = 0;
              for (int j = 0; j < keys; ++j) sum += p.At(r, j) * v.At(j, c);
              ASSERT_NEAR(o.data()[r * dim + c], accumulate ? 2 * sum : sum,
                          5e-4);
            }
          }
        }
      }
    }
  }
}

TEST(Bf16, ExponentialsAreThoseOfF32Rounded) {
  constexpr int kRows = 5, kKeys = 128;
  Random random(3);
  const int32_t begin[kRows] = {0, 3, 20, 64, 90};
  const int32_t end[kRows] = {128, 90, 21, 127, 90};
  OnEachTarget([&] {
    const std::vector<float> logits = random.Normals(kRows * kKeys, 4);
    AlignedBuffer floats, sums;
    float max[2][kRows], rescale[kRows];
    SoftmaxTile tile{.rows = kRows,
                     .stride = kKeys,
                     .begin = begin,
                     .end = end,
                     .rescale = rescale};
    HalfBuffer halves;
    std::fill_n(halves.Reserve(kRows * kKeys), kRows * kKeys, 0x1234);
    for (int half : {0, 1}) {
      std::copy(logits.begin(), logits.end(), floats.Reserve(kRows * kKeys));
      std::fill_n(sums.Reserve(kRows * kSumLanes), kRows * kSumLanes, 0.0f);
      std::fill_n(max[half], kRows, -std::numeric_limits<float>::infinity());
      tile.logits = floats.data();
      tile.sums = sums.data();
      tile.max = max[half];
      tile.halves = half == 0 ? halves.data() : nullptr;
      UpdateSoftmax(tile);
    }
    for (int r = 0; r < kRows; ++r) EXPECT_EQ(max[0][r], max[1][r]);
    for (int e = 0; e < kRows * kKeys; ++e) {
      EXPECT_EQ(halves.data()[e], ToBFloat16(floats.data()[e])) << e;
    }
  });
}

ProblemSpec InBf16(ProblemSpec spec) {
  spec.bf16_compute = true;
  return spec;
}

// With all outputs, and with the output alone: then queries and keys are
// rounded too.
std::string JudgeBoth(const ProblemSpec& spec) {
  std::string why = Judge(spec);
  if (!why.empty()) return why;
  why = Compare(spec, RunSpec(spec, {.output = true}), Reference(spec));
  return why.empty() ? why
                     : absl::StrCat("alone: ", why, "\n", spec.Describe());
}

TEST(Bf16, RandomProblemsKeepTheContract) {
  for (uint64_t seed = 1; seed <= (kSanitized ? 20 : 120); ++seed) {
    const RandomLimits limits = {.pairs = 60'000, .max_rows = 400};
    ProblemSpec spec =
        InBf16(seed % 2 == 0 ? RandomProblem(seed, limits)
                             : RandomMaskedProblem(seed, limits));
    // Few terms need not average out: see the worst case.
    if (spec.dim < 16) continue;
    EXPECT_EQ(JudgeBoth(spec), "") << "seed " << seed;
  }
}

// One head that sees the past of irregular times.
ProblemSpec Causal(uint64_t seed, int64_t length, int64_t dim,
                   int64_t value_dim) {
  Random random(seed);
  ProblemSpec spec;
  spec.seed = seed;
  spec.queries = spec.keys = length;
  spec.dim = dim;
  spec.value_dim = value_dim;
  spec.Fill(random);
  spec.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(dim)));
  SetRandomTimes(random, TimeAxis::Kind::kTicks, false, 1000, spec);
  spec.ratio = {.tick_ns = 1, .unit_ns = 1'000'000'000};
  spec.causal = true;
  return InBf16(std::move(spec));
}

TEST(Bf16, EverySizeKeepsTheContract) {
  const std::vector<int64_t> few = {33, 130};
  for (int64_t length : kSanitized ? few : std::vector<int64_t>{64, 130, 257}) {
    for (int64_t dim :
         kSanitized ? few : std::vector<int64_t>{16, 33, 80, 200}) {
      for (int64_t value_dim :
           kSanitized ? few : std::vector<int64_t>{1, 64, 65, 130}) {
        EXPECT_EQ(JudgeBoth(Causal(length + dim, length, dim, value_dim)), "");
      }
    }
  }
}

TEST(Bf16, EncodingsThatDecayKeepTheContract) {
  DecayBlock decay;
  DampedRotationBlock damped;
  for (int c = 0; c < 64; ++c) {
    decay.rates.push_back(std::pow(10.0, c / 10.0 - 4));
  }
  for (int c = 0; c < 32; ++c) {
    damped.rates.push_back(std::pow(10.0, c / 8.0 - 3));
    damped.frequencies.push_back(std::pow(10.0, -c / 8.0));
  }
  for (const Block& block : {Block(decay), Block(damped)}) {
    ProblemSpec spec = Causal(7, 400, 64, 64);
    spec.encoding.emplace();
    spec.encoding->blocks = {block};
    EXPECT_EQ(JudgeBoth(spec), "");
  }
}

TEST(Bf16, TheWorstCaseIsTheOneThatIsStated) {
  if (!TileGemm::NativeBf16()) GTEST_SKIP() << "no native bf16 here";
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    ProblemSpec spec = Causal(seed, 200, 64, 8);
    // One channel is all of the logit.
    for (std::vector<float>* rows : {&spec.query, &spec.key}) {
      for (size_t e = 0; e < rows->size(); ++e) {
        if (e % 64 != 0) (*rows)[e] = 0;
      }
    }
    spec.scale = static_cast<float>(seed) / 4;
    const Answer answer = RunSpec(spec, {.output = true});
    const ReferenceAnswer reference = Reference(spec);
    for (int64_t r = 0; r < spec.queries; ++r) {
      const double size = reference.logit_size[r];
      const double share = std::expm1(size / 64) + 1.0 / 128;
      for (int64_t c = 0; c < spec.value_dim; ++c) {
        EXPECT_NEAR(answer.output[r * spec.value_dim + c],
                    reference.output[r * spec.value_dim + c],
                    share * reference.value_size[r]);
      }
    }
  }
}

TEST(Bf16, WhatIsNotFiniteShowsWhereItIsSeen) {
  ProblemSpec spec = Causal(3, 300, 64, 70);
  spec.value[100 * 70 + 66] = std::numeric_limits<float>::infinity();
  spec.value[290 * 70 + 3] = std::numeric_limits<float>::quiet_NaN();
  spec.key[150 * 64 + 1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(JudgeBoth(spec), "");
}

TEST(Bf16, OnlyWhereItIsNativeAndAskedFor) {
  ProblemSpec spec = Causal(5, 100, 64, 64);
  for (bool asked : {false, true}) {
    spec.bf16_compute = asked;
    const auto owned = OwnedProblem::Build(spec);
    ASSERT_TRUE(owned.ok()) << owned.status();
    const auto plan = Plan::Make(owned->problem());
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->bf16(), asked && TileGemm::NativeBf16());
  }
}

TEST(Bf16, ElsewhereTheBytesAreThoseOfF32) {
  if (TileGemm::NativeBf16()) GTEST_SKIP() << "bf16 is native here";
  ProblemSpec spec = Causal(6, 300, 64, 64);
  const Answer half = RunSpec(spec);
  spec.bf16_compute = false;
  EXPECT_EQ(CompareBits(half, RunSpec(spec)), "");
}

}  // namespace
}  // namespace attnd::testing
