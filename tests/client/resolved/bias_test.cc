// Biases of resolved definitions against their golden values and closed forms.
#include "client/resolved/bias.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace attnd::client::resolved {
namespace {

// The bias at a whole number of units, for a table that names its buckets.
double At(const v1::ResolvedEncoding& encoding, double lag, int head = 0,
          int heads = 1, double elapsed = 0) {
  return LagBias(encoding, head, heads, {lag, 0}, elapsed).value;
}

TEST(ResolvedBias, AlibiTakesTheResolvedSlopes) {
  v1::ResolvedEncoding encoding;
  encoding.add_alibi_slopes(0.25);
  encoding.add_alibi_slopes(0.5);
  EXPECT_EQ(At(encoding, 4, 1, 2), -2);
  EXPECT_EQ(At(encoding, -4, 0, 2), -1);
}

TEST(ResolvedBias, T5BucketsAreThePublishedOnes) {
  v1::ResolvedEncoding encoding;
  v1::T5Buckets& t5 =
      *encoding.mutable_definition()->add_biases()->mutable_t5_buckets();
  for (int bucket = 0; bucket < 32; ++bucket) {
    t5.add_table(static_cast<float>(bucket));
  }
  const int lags[] = {15, 16, 17, 18, 20, 24, 32, 45, 64, 90, 112, 127, 500};
  const int buckets[] = {15, 16, 16, 16, 17, 19, 21, 23, 26, 29, 30, 31, 31};
  for (size_t n = 0; n < std::size(lags); ++n) {
    EXPECT_EQ(At(encoding, lags[n]), buckets[n]) << lags[n];
  }
  EXPECT_EQ(At(encoding, -5), 0);
  t5.set_bidirectional(true);
  EXPECT_EQ(At(encoding, 7), 7);
  EXPECT_EQ(At(encoding, -7), 23);
  EXPECT_EQ(At(encoding, -0.5), 0);
}

TEST(ResolvedBias, HstuBucketsAreThePublishedOnes) {
  v1::ResolvedEncoding encoding;
  v1::HstuBuckets& hstu =
      *encoding.mutable_definition()->add_biases()->mutable_hstu_buckets();
  for (int bucket = 0; bucket < 129; ++bucket) {
    hstu.add_table(static_cast<float>(bucket));
  }
  const double lags[] = {1, 60, 3600, 86400, 30 * 86400.0};
  const int buckets[] = {0, 13, 27, 37, 49};
  for (size_t n = 0; n < std::size(lags); ++n) {
    EXPECT_EQ(At(encoding, lags[n]), buckets[n]) << lags[n];
    EXPECT_EQ(At(encoding, -lags[n]), buckets[n]) << lags[n];
  }
}

TEST(ResolvedBias, SandwichHasItsGoldenValues) {
  v1::ResolvedEncoding encoding;
  encoding.mutable_definition()->add_biases()->mutable_sandwich()->set_dim(64);
  EXPECT_EQ(At(encoding, 0, 0, 8), 0);
  EXPECT_NEAR(At(encoding, 10, 0, 8), -9.1093001463, 1e-9);
  EXPECT_NEAR(At(encoding, 100, 0, 8), -13.9877000868, 1e-9);
}

TEST(ResolvedBias, KerpleHasBothForms) {
  v1::ResolvedEncoding encoding;
  v1::Kerple& kerple =
      *encoding.mutable_definition()->add_biases()->mutable_kerple();
  kerple.set_form(v1::Kerple::FORM_LOG);
  kerple.add_r1(2);
  kerple.add_r2(0.5);
  EXPECT_DOUBLE_EQ(At(encoding, -6), -2 * std::log(4));
  kerple.set_form(v1::Kerple::FORM_POWER);
  EXPECT_DOUBLE_EQ(At(encoding, 9), -6);
}

// One unit that passes its input on: the bias is the normalised logarithm.
TEST(ResolvedBias, FireNormalisesByTheQuerysAge) {
  v1::ResolvedEncoding encoding;
  v1::Fire& fire = *encoding.mutable_definition()->add_biases()->mutable_fire();
  fire.set_hidden(1);
  fire.add_w1(1);
  fire.add_b1(0);
  fire.add_w2(-3);
  fire.add_b2(0.5);
  const double young = 0.5 - 3 * std::log(2) / (std::log1p(51.2) + 1e-6);
  EXPECT_NEAR(At(encoding, 10, 0, 1, 100), young, 1e-12);
  const double old = 0.5 - 3 * std::log(2) / (std::log1p(1000) + 1e-6);
  EXPECT_NEAR(At(encoding, 10, 0, 1, 10'000), old, 1e-12);
}

TEST(ResolvedBias, LagTablesAreLinearBetweenKnotsAndConstantBeyond) {
  v1::ResolvedEncoding encoding;
  v1::LagTable& table =
      *encoding.mutable_definition()->add_biases()->mutable_lag_table();
  for (double lag : {0.0, 1.0, 24.0}) table.add_lags(lag);
  for (float value : {0.0f, -0.5f, -2.0f}) table.add_values(value);
  EXPECT_EQ(At(encoding, -1), 0);
  EXPECT_EQ(At(encoding, 0.5), -0.25);
  EXPECT_EQ(At(encoding, 24), -2);
  EXPECT_EQ(At(encoding, 1e9), -2);
  table.set_absolute_lag(true);
  EXPECT_EQ(At(encoding, -1), -0.5);
}

TEST(ResolvedBias, GrapeWeighsTheLagByBothEnds) {
  v1::Encoding definition;
  v1::GrapeAdditive& grape = *definition.add_biases()->mutable_grape_additive();
  grape.add_slopes(0.5);
  grape.add_query_direction(2);
  EXPECT_NEAR(EndpointBias(definition, 0, 3, {1.0}, {7.0}).value,
              -1.5 * std::log1p(std::exp(2)), 1e-15);
}

TEST(ResolvedBias, GatesCountPerEventOrPerUnit) {
  v1::Encoding definition;
  definition.add_biases()->mutable_cumulative_gate();
  definition.add_biases()->mutable_path_integral();
  const GateWeight weight = GateWeightOf(definition);
  EXPECT_EQ(weight.per_key, 1);
  EXPECT_EQ(weight.per_unit, 1);
}

}  // namespace
}  // namespace attnd::client::resolved
