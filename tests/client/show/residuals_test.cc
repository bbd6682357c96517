#include "client/show/residuals.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "client/show/curves.h"
#include "client/show/encoding_plot.h"

namespace attnd::client {
namespace {

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

TEST(PlotEncoding, RefusesHeadsThatAreNotThere) {
  EXPECT_FALSE(PlotEncoding(Of("rotation", 1, 0, 2), {.heads = {1}}).ok());
  const auto svg = PlotEncoding(Of("rotation", 1, 0, 2), {});
  ASSERT_TRUE(svg.ok());
  EXPECT_EQ(svg->substr(0, 4), "<svg");
}

}  // namespace
}  // namespace attnd::client
