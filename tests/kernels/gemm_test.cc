#include "kernels/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/block_pack.h"
#include "kernels/rotation.h"
#include "kernels/tensor.h"
#include "tests/kernels/problem_builder.h"

namespace attnd {
namespace {

TEST(Gemm, RowsArePaddedToTheNextStep) {
  int64_t rows = 1;
  for (int step : kRowSteps) {
    for (; rows <= step; ++rows) EXPECT_EQ(PaddedRows(rows), step) << rows;
  }
  EXPECT_EQ(rows, kMaxTileRows + 1);
}

TEST(Gemm, TilesTakeTheLargestStepThatFits) {
  EXPECT_EQ(TileKeys(64), 64);
  EXPECT_EQ(TileKeys(128), 128);
  EXPECT_EQ(TileKeys(192), 128);
  EXPECT_EQ(TileKeys(256), 256);
  EXPECT_EQ(TileKeys(1024), 256);
}

TEST(Gemm, DimsArePaddedTo16) {
  EXPECT_EQ(PaddedDim(0), 0);
  EXPECT_EQ(PaddedDim(1), 16);
  EXPECT_EQ(PaddedDim(16), 16);
  EXPECT_EQ(PaddedDim(129), 144);
}

float* Fill(AlignedBuffer& buffer, int64_t count, testing::Random& random) {
  float* data = buffer.Reserve(count);
  for (int64_t e = 0; e < count; ++e) data[e] = random.Normal();
  return data;
}

TEST(TileGemm, ProductsAreThoseOfAPlainLoopForEveryTileShape) {
  const auto gemm = TileGemm::Create();
  ASSERT_TRUE(gemm.ok()) << gemm.status();
  testing::Random random(1);
  for (int64_t dim : {16, 48, 64}) {
    for (int rows : kRowSteps) {
      for (int keys : {64, 128, 256}) {
        AlignedBuffer q, k, pack, s, p, v, o;
        Fill(q, rows * dim, random);
        Fill(k, keys * dim, random);
        pack.Reserve(keys * dim);
        for (int64_t block = 0; block < keys; block += kKeyBlock) {
          PackBlock(k.data() + block * dim, kKeyBlock, dim,
                    pack.data() + block * dim);
        }
        s.Reserve(rows * keys);
        ASSERT_TRUE(
            (*gemm)
                ->QueryKey(rows, keys, dim, q.data(), pack.data(), s.data())
                .ok());
        for (int r = 0; r < rows; ++r) {
          for (int j = 0; j < keys; ++j) {
            double dot = 0;
            for (int64_t c = 0; c < dim; ++c) {
              dot += double{q.data()[r * dim + c]} * k.data()[j * dim + c];
            }
            ASSERT_NEAR(s.data()[r * keys + j], dot, 2e-5);
          }
        }
        Fill(p, rows * keys, random);
        Fill(v, keys * dim, random);
        std::fill_n(o.Reserve(rows * dim), rows * dim, 1e30f);
        for (bool accumulate : {false, true}) {
          ASSERT_TRUE((*gemm)
                          ->WeightValue(rows, keys, dim, p.data(), v.data(),
                                        accumulate, o.data())
                          .ok());
          for (int r = 0; r < rows; ++r) {
            for (int64_t c = 0; c < dim; ++c) {
              double sum = 0;
              for (int j = 0; j < keys; ++j) {
                sum += double{p.data()[r * keys + j]} * v.data()[j * dim + c];
              }
              ASSERT_NEAR(o.data()[r * dim + c], accumulate ? 2 * sum : sum,
                          2e-4);
            }
          }
        }
      }
    }
  }
}

TEST(TileGemm, ProductsThatWerePreparedAreNotBuiltAgain) {
  const auto gemm = TileGemm::Create();
  ASSERT_TRUE(gemm.ok()) << gemm.status();
  ASSERT_TRUE((*gemm)->Prepare(32, 48).ok());
  const int64_t prepared = (*gemm)->primitives();
  EXPECT_GT(prepared, 0);
  AlignedBuffer zeros, out;
  constexpr int64_t kMost = 128 * 256;
  std::fill_n(zeros.Reserve(kMost), kMost, 0.0f);
  std::fill_n(out.Reserve(kMost), kMost, 0.0f);
  for (const int rows : {64, 128}) {
    for (const int keys : {64, 128, 256}) {
      ASSERT_TRUE(
          (*gemm)
              ->QueryKey(rows, keys, 32, zeros.data(), zeros.data(), out.data())
              .ok());
      for (const bool accumulate : {false, true}) {
        ASSERT_TRUE((*gemm)
                        ->WeightValue(rows, keys, 48, zeros.data(),
                                      zeros.data(), accumulate, out.data())
                        .ok());
      }
    }
  }
  EXPECT_EQ((*gemm)->primitives(), prepared);
}

TEST(TileGemm, KeepsABoundedNumberOfPrimitives) {
  const auto gemm = TileGemm::Create();
  ASSERT_TRUE(gemm.ok()) << gemm.status();
  AlignedBuffer zeros, out;
  constexpr int64_t kMost = 64 * 16 * 1000;
  std::fill_n(zeros.Reserve(kMost), kMost, 0.0f);
  out.Reserve(kMost);
  for (int64_t dim = 16; dim <= 16 * (TileGemm::kMaxPrimitives + 9);
       dim += 16) {
    ASSERT_TRUE(
        (*gemm)
            ->QueryKey(16, 64, dim, zeros.data(), zeros.data(), out.data())
            .ok());
    ASSERT_LE((*gemm)->primitives(), TileGemm::kMaxPrimitives);
  }
}

}  // namespace
}  // namespace attnd
