#include "server/compile_cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "server/decode.h"
#include "server/time_source.h"
#include "tests/server/requests.h"

namespace attnd::server {
namespace {

v1::AttendRequest WithDenseBlock(int dim) {
  v1::AttendRequest request =
      testing::MakeRequest({.dim = dim, .value_dim = dim});
  v1::Encoding& encoding = *request.mutable_inline_encoding();
  encoding.set_time_unit("position");
  v1::Dense& dense = *encoding.add_blocks()->mutable_dense();
  dense.set_dim(dim);
  std::mt19937 random(dim);
  std::normal_distribution<double> normal(0, 0.1 / dim);
  for (int i = 0; i < dim * dim; ++i) {
    dense.add_matrix(normal(random) - (i % (dim + 1) == 0 ? 0.1 : 0));
  }
  return request;
}

TEST(CompileCost, IsAboutRightForDenseBlocks) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "measures time";
#endif
  const Config config = *ParseConfig("{}", "a.yaml", Machine{});
  for (const int dim : {32, 64, 128}) {
    const v1::AttendRequest request = WithDenseBlock(dim);
    double fastest = 1e9;
    for (int run = 0; run < 3; ++run) {
      const EncodingCatalog catalog(config.effective.encodings(), 4);
      const auto start = std::chrono::steady_clock::now();
      const auto decoded = Decode(request,
                                  {.encodings = catalog,
                                   .limits = config.effective.limits(),
                                   .inline_encodings_allowed = true},
                                  Payload::kPresent);
      fastest =
          std::min(fastest, Seconds(std::chrono::steady_clock::now() - start));
      ASSERT_TRUE(decoded.ok()) << decoded.status();
    }
    const EncodingCatalog catalog(config.effective.encodings(), 4);
    const double predicted = PredictCompiling(request, catalog);
    // Builds, instruction sets and sanitizers differ.
    EXPECT_GT(predicted, fastest / 50) << fastest << " s for " << dim;
    EXPECT_LT(predicted, fastest * 50) << fastest << " s for " << dim;
  }
}

TEST(CompileCost, AbsurdSizesCostNoMoreThanTheLargest) {
  const Config config = *ParseConfig("{}", "a.yaml", Machine{});
  const EncodingCatalog catalog(config.effective.encodings(), 4);
  v1::AttendRequest request;
  v1::Dense& dense =
      *request.mutable_inline_encoding()->add_blocks()->mutable_dense();
  dense.set_dim(128);
  const double largest = PredictCompiling(request, catalog);
  dense.set_dim(1 << 30);
  EXPECT_EQ(PredictCompiling(request, catalog), largest);
  dense.set_dim(-1);
  EXPECT_LT(PredictCompiling(request, catalog), largest);
}

}  // namespace
}  // namespace attnd::server
