#include "client/show/residuals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "client/show/curves.h"
#include "client/show/encoding_plot.h"
#include "client/show/lag_scales.h"

namespace attnd::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

v1::ResolvedEncoding Of(const std::string& kind, double frequency, double rate,
                        int channels) {
  v1::ResolvedEncoding encoding;
  encoding.set_name("one");
  encoding.set_head_dim(channels);
  encoding.add_effective_horizon(-1);
  v1::ResolvedGenerator& generator = *encoding.add_generators();
  generator.set_condition(1);
  v1::ResolvedBlock& block = *generator.add_blocks();
  block.set_kind(kind);
  block.set_frequency(frequency);
  block.set_rate(rate);
  block.set_amplitude(1);
  for (int c = 0; c < channels; ++c) block.add_channels(c);
  return encoding;
}

bool AllOk(const v1::ResolvedEncoding& encoding) {
  const auto residuals = KernelResiduals(encoding);
  EXPECT_TRUE(residuals.ok()) << residuals.status();
  bool ok = true;
  for (const Residual& r : *residuals) ok &= r.ok();
  return ok;
}

TEST(KernelResiduals, TurnsAndDecaysKeepTheirWord) {
  EXPECT_TRUE(AllOk(Of("rotation", 0.3, 0, 2)));
  EXPECT_TRUE(AllOk(Of("damped_rotation", 0.3, 0.1, 2)));
}

// Doubles know the angle of any product that they hold.
TEST(KernelResiduals, FiguresOfAnySizeKeepTheirWord) {
  for (const double figure : {1e-300, 1e9, 1e12, 1e15, 1e18, 1e22, 1e30, 1e100,
                              1e300, 1e308, 1.7e308}) {
    SCOPED_TRACE(figure);
    EXPECT_TRUE(AllOk(Of("rotation", figure, 0, 2)));
    EXPECT_TRUE(AllOk(Of("rotation", -figure, 0, 2)));
    EXPECT_TRUE(AllOk(Of("decay", 0, figure, 1)));
    EXPECT_TRUE(AllOk(Of("damped_rotation", figure, figure, 2)));
  }
  v1::ResolvedEncoding axes = Of("rotation", 0.5, 0, 2);
  axes.mutable_generators(0)->mutable_blocks(0)->add_further()->set_frequency(
      1e308);
  EXPECT_TRUE(AllOk(axes));
}

TEST(KernelResiduals, GrowthIsOff) {
  EXPECT_FALSE(AllOk(Of("decay", 0, -1e-6, 1)));
}

TEST(KernelResiduals, AveragesAreNoGroupAndDoNotClaimToBe) {
  v1::ResolvedEncoding encoding = Of("decay", 0, 0.5, 1);
  encoding.mutable_generators(0)->set_averaged(true);
  const auto residuals = KernelResiduals(encoding);
  ASSERT_TRUE(residuals.ok());
  EXPECT_FALSE((*residuals)[1].claimed);
  EXPECT_GT((*residuals)[1].value, 0.01);
  EXPECT_TRUE(AllOk(encoding));
}

// A circle; its steps lie a radian apart.
TEST(Orbits, TurnByTheFrequency) {
  const auto orbits = Orbits(Of("rotation", 1, 0, 2), 0, 1);
  ASSERT_TRUE(orbits.ok());
  ASSERT_EQ(orbits->size(), 1u);
  EXPECT_NEAR((*orbits)[0].steps[3].x, std::cos(3), 1e-12);
  EXPECT_NEAR((*orbits)[0].steps[3].y, -std::sin(3), 1e-12);
}

// A bucket has one value up to its border, and the next from there on.
TEST(BiasCurves, BucketsAreSteps) {
  v1::ResolvedEncoding encoding = Of("identity", 0, 0, 2);
  v1::T5Buckets& t5 =
      *encoding.mutable_definition()->add_biases()->mutable_t5_buckets();
  t5.set_buckets(8);
  t5.set_max_distance(64);
  std::set<double> table, seen;
  for (int b = 0; b < 8; ++b) {
    t5.add_table(static_cast<float>(b * b));
    table.insert(b * b);
  }
  const PlotAxis lags = LagAxis(encoding, 0);
  EXPECT_EQ(lags.low, 0.5) << "half of the first step";
  const std::vector<Curve> curves = BiasCurves(encoding, {0}, lags);
  ASSERT_EQ(curves.size(), 1u);
  const std::vector<ChartPoint>& points = curves[0].points;
  for (size_t p = 0; p < points.size(); ++p) {
    seen.insert(points[p].y);
    if (p == 0 || points[p].y == points[p - 1].y) continue;
    EXPECT_NEAR(points[p].x, points[p - 1].x, 1e-12 * points[p].x);
  }
  EXPECT_EQ(seen, table) << "nothing between, none left out";
}

TEST(PlotEncoding, RefusesHeadsThatAreNotThere) {
  EXPECT_FALSE(PlotEncoding(Of("rotation", 1, 0, 2), {.heads = {1}}).ok());
  const auto svg = PlotEncoding(Of("rotation", 1, 0, 2), {});
  ASSERT_TRUE(svg.ok());
  EXPECT_EQ(svg->substr(0, 4), "<svg");
}

TEST(PlotEncoding, DrawsTheKernelOfEveryHeadButAlikeOnesOnce) {
  v1::ResolvedEncoding encoding = Of("decay", 0, 0.1, 2);
  encoding.clear_effective_horizon();
  for (int head = 0; head < 4; ++head) encoding.add_effective_horizon(-1);
  for (const double rate : {0.1, 0.5, 0.7}) {
    *encoding.add_generators() = encoding.generators(0);
    encoding.mutable_generators()->rbegin()->mutable_blocks(0)->set_rate(rate);
  }
  const auto all = PlotEncoding(encoding, {});
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_THAT(*all, AllOf(HasSubstr("kernel A(D), kv heads 0, 1<"),
                          HasSubstr("kernel A(D), kv head 2<"),
                          HasSubstr("kernel A(D), kv head 3<")));
  const auto some = PlotEncoding(encoding, {.heads = {1, 3}});
  ASSERT_TRUE(some.ok()) << some.status();
  EXPECT_THAT(*some, AllOf(HasSubstr("kernel A(D), kv head 1<"),
                           HasSubstr("kernel A(D), kv head 3<"),
                           Not(HasSubstr("kv head 2"))));
}

}  // namespace
}  // namespace attnd::client
