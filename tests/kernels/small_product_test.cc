// Our own products against sums in double, on every instruction set.
#include "kernels/small_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/each_target.h"
#include "tests/kernels/problem_builder.h"

namespace attnd::testing {
namespace {

constexpr float kGuard = 12345;

struct Operands {
  std::vector<float> a, b, c;
  SmallProduct product;
};

// Strides leave a gap behind every row.
Operands Make(int64_t rows, int64_t depth, int64_t columns, bool transposed,
              uint64_t seed) {
  Operands o;
  Random random(seed);
  const int64_t b_rows = transposed ? columns : depth;
  const int64_t b_columns = transposed ? depth : columns;
  o.a = random.Normals(rows * (depth + 3));
  o.b = random.Normals(b_rows * (b_columns + 5));
  o.c = random.Normals(rows * (columns + 7));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = columns; j < columns + 7; ++j) {
      o.c[r * (columns + 7) + j] = kGuard;
    }
  }
  o.product = {.a_stride = depth + 3,
               .b_stride = b_columns + 5,
               .c_stride = columns + 7,
               .rows = rows,
               .depth = depth,
               .columns = columns};
  return o;
}

// Every element within `terms` roundings of its sum of sizes; gaps untouched.
void Judge(Operands o, bool transposed, double terms) {
  const std::vector<float> before = o.c;
  SmallProduct& p = o.product;
  p.a = o.a.data();
  p.b = o.b.data();
  p.c = o.c.data();
  transposed ? MultiplyTransposed(p) : Multiply(p);
  for (int64_t r = 0; r < p.rows; ++r) {
    for (int64_t j = 0; j < p.columns; ++j) {
      double sum = p.accumulate ? before[r * p.c_stride + j] : 0;
      double size = std::abs(sum);
      for (int64_t k = 0; k < p.depth; ++k) {
        const double term =
            double{o.a[r * p.a_stride + k]} *
            o.b[transposed ? j * p.b_stride + k : k * p.b_stride + j];
        sum += term;
        size += std::abs(term);
      }
      ASSERT_NEAR(o.c[r * p.c_stride + j], sum, terms * 6e-8 * size + 1e-30)
          << "row " << r << " column " << j << " depth " << p.depth;
    }
    for (int64_t j = p.columns; j < p.c_stride; ++j) {
      ASSERT_EQ(o.c[r * p.c_stride + j], kGuard);
    }
  }
}

TEST(SmallProduct, IsTheSumOfProducts) {
  OnEachTarget([] {
    for (const int64_t rows : {1, 2, 3, 7, 8, 9, 17}) {
      for (const int64_t depth : {0, 1, 15, 16, 33, 64}) {
        for (const int64_t columns : {16, 32, 48, 80}) {
          for (const bool accumulate : {false, true}) {
            Operands o = Make(rows, depth, columns, false, rows + depth);
            o.product.accumulate = accumulate;
            Judge(o, false, static_cast<double>(depth) + 1);
            o.product.exact = true;
            Judge(o, false, 16 + static_cast<double>(depth) / 16 + 1);
          }
        }
      }
    }
  });
}

TEST(SmallProduct, TransposedIsTheSumOfProducts) {
  OnEachTarget([] {
    for (const int64_t rows : {1, 3}) {
      for (const int64_t depth : {1, 16, 48, 64, 100}) {
        for (const int64_t columns : {1, 5, 64}) {
          Judge(Make(rows, depth, columns, true, depth + columns), true, 24);
        }
      }
    }
  });
}

TEST(SmallProduct, TransposedSumsThatAreNotFiniteAreNaN) {
  OnEachTarget([] {
    const float infinity = std::numeric_limits<float>::infinity();
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (const float bad : {infinity, -infinity, nan, 3e38f}) {
      const std::vector<float> a = {2, 0}, b = {bad, 1, 1, 1};
      float c[2] = {0, 0};
      MultiplyTransposed({.a = a.data(),
                          .a_stride = 2,
                          .b = b.data(),
                          .b_stride = 2,
                          .c = c,
                          .c_stride = 2,
                          .rows = 1,
                          .depth = 2,
                          .columns = 2});
      EXPECT_TRUE(std::isnan(c[0])) << bad;
      EXPECT_EQ(c[1], 2);
    }
  });
}

}  // namespace
}  // namespace attnd::testing
