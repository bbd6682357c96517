// A(D) from resolved definitions against closed forms.
#include "client/resolved/generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>

#include "client/resolved/double_double.h"

namespace attnd::client::resolved {
namespace {

v1::ResolvedBlock BlockOf(const std::string& kind,
                          std::initializer_list<int> channels) {
  v1::ResolvedBlock block;
  block.set_kind(kind);
  block.set_amplitude(1);
  for (int channel : channels) block.add_channels(channel);
  return block;
}

Generator Make(const v1::ResolvedBlock& block, int dim, bool averaged = false) {
  v1::ResolvedGenerator resolved;
  *resolved.add_blocks() = block;
  resolved.set_averaged(averaged);
  auto generator = Generator::Make(resolved, dim);
  EXPECT_TRUE(generator.ok()) << generator.status();
  return *std::move(generator);
}

void ExpectMatrix(const Matrix& got, const std::vector<double>& expected,
                  double tolerance) {
  ASSERT_EQ(got.entries.size(), expected.size());
  for (size_t e = 0; e < expected.size(); ++e) {
    EXPECT_NEAR(got.entries[e], expected[e], tolerance) << "entry " << e;
  }
}

// The direction of RoFormer: q = (1,0) at t = 1, k = (0,1) at 0 score +sin 1.
TEST(ResolvedGenerator, RotationHasTheDirectionOfRope) {
  v1::ResolvedBlock block = BlockOf("rotation", {0, 1});
  block.set_frequency(1);
  ExpectMatrix(Make(block, 2).At(1.0),
               {std::cos(1), std::sin(1), -std::sin(1), std::cos(1)}, 1e-15);
}

// cos and sin of the C library reduce exactly.
TEST(ResolvedGenerator, AnglesOfAnySizeAreExact) {
  for (const double frequency : {1e12, 1e18, 1e22, 1e30, 1e300}) {
    v1::ResolvedBlock block = BlockOf("rotation", {0, 1});
    block.set_frequency(frequency);
    const double c = std::cos(frequency), s = std::sin(frequency);
    ExpectMatrix(Make(block, 2).At(1.0), {c, s, -s, c}, 1e-14);
    ExpectMatrix(Make(block, 2).At(2.0),
                 {c * c - s * s, 2 * s * c, -2 * s * c, c * c - s * s}, 1e-14);
  }
}

TEST(ResolvedGenerator, ChannelsOfNoBlockSeeNoTime) {
  v1::ResolvedBlock block = BlockOf("decay", {1});
  block.set_rate(2);
  ExpectMatrix(Make(block, 2).At(3.0), {1, 0, 0, std::exp(-6)}, 1e-17);
}

TEST(ResolvedGenerator, DampedRotationIsDecayTimesRotation) {
  v1::ResolvedBlock block = BlockOf("damped_rotation", {0, 1});
  block.set_frequency(0.5);
  block.set_rate(0.25);
  const double e = std::exp(-1);
  ExpectMatrix(
      Make(block, 2).At(4.0),
      {e * std::cos(2), e * std::sin(2), -e * std::sin(2), e * std::cos(2)},
      1e-15);
}

TEST(ResolvedGenerator, RealJordanIsAPolynomialTimesDecay) {
  v1::ResolvedBlock block = BlockOf("real_jordan", {0, 1, 2});
  block.set_coupling(0.5);
  block.set_rate(0.1);
  const double e = std::exp(-0.4);
  ExpectMatrix(Make(block, 3).At(4.0), {e, 2 * e, 2 * e, 0, e, 2 * e, 0, 0, e},
               1e-14);
}

// The second jet is eta D R(-wD), and the derivative by w of the block is J
// times it over eta.
TEST(ResolvedGenerator, ComplexJordanHasTheJetOfItsRotation) {
  v1::ResolvedBlock block = BlockOf("complex_jordan", {0, 1, 2, 3});
  block.set_frequency(0.3);
  block.set_coupling(2);
  const Matrix a = Make(block, 4).At(5.0);
  const double c = std::cos(1.5), s = std::sin(1.5);
  ExpectMatrix(
      a,
      {c, s, 10 * c, 10 * s, -s, c, -10 * s, 10 * c, 0, 0, c, s, 0, 0, -s, c},
      1e-13);
}

// Stiff, and rows that sum to 1 after any time.
TEST(ResolvedGenerator, StiffDenseBlocksStayFinite) {
  v1::ResolvedBlock stiff = BlockOf("dense", {0, 1});
  for (double x : {-1.0, 0.0, 1000.0, -1000.0}) stiff.add_matrix(x);
  const double e = std::exp(-1);
  ExpectMatrix(Make(stiff, 2).At(1.0), {e, 0, 1000.0 / 999 * e, 0}, 1e-12);
  v1::ResolvedBlock flow = BlockOf("dense", {0, 1});
  for (double x : {-1.0, 1.0, 0.0, 0.0}) flow.add_matrix(x);
  ExpectMatrix(Make(flow, 2).At(3000.0), {0, 1, 0, 1}, 1e-9);
}

// phi1(z) = (e^z - 1) / z, and its real form for a rotation.
TEST(ResolvedGenerator, AveragesOverTheLag) {
  v1::ResolvedBlock decay = BlockOf("decay", {0});
  decay.set_rate(0.5);
  for (double lag : {1e-9, 1.0, 40.0, 1e6}) {
    const double z = -0.5 * lag;
    ExpectMatrix(Make(decay, 1, true).At(lag), {std::expm1(z) / z}, 1e-14);
  }
  v1::ResolvedBlock turn = BlockOf("rotation", {0, 1});
  turn.set_frequency(2);
  const double sine = std::sin(6) / 6, versine = (1 - std::cos(6)) / 6;
  ExpectMatrix(Make(turn, 2, true).At(3.0), {sine, versine, -versine, sine},
               1e-14);
}

TEST(ResolvedGenerator, TheTwoSidedRuleMirrorsDecayAndKeepsTheTurn) {
  v1::ResolvedBlock block = BlockOf("damped_rotation", {0, 1});
  block.set_frequency(1);
  block.set_rate(0.5);
  const double e = std::exp(-1);
  ExpectMatrix(
      Make(block, 2).At(-2.0, true),
      {e * std::cos(2), -e * std::sin(2), e * std::sin(2), e * std::cos(2)},
      1e-15);
}

TEST(ResolvedGenerator, ABasisIsPutAround) {
  v1::ResolvedGenerator resolved;
  *resolved.add_blocks() = BlockOf("decay", {0});
  resolved.mutable_blocks(0)->set_rate(1);
  for (double x : {1.0, 1.0, 0.0, 1.0}) resolved.add_basis(x);
  const double e = std::exp(-2);
  ExpectMatrix(Generator::Make(resolved, 2)->At(2.0), {e, 1 - e, 0, 1}, 1e-15);
}

// Two axes whose generators commute act by the lag; others by the positions.
TEST(ResolvedGenerator, LieReTurnsByPositions) {
  v1::ResolvedBlock block = BlockOf("liere", {0, 1, 2});
  for (double x : {0, -1, 0, 1, 0, 0, 0, 0, 0}) block.add_matrix(x);
  for (double x : {0, 0, 0, 0, 0, -1, 0, 1, 0}) block.add_matrix(x);
  const Generator generator = Make(block, 3);
  EXPECT_FALSE(generator.relative());
  const auto units = [](const Drive&) { return 0.0; };
  const auto angle = [](double, const Drive&) { return 0.0; };
  const auto at = [&](double shift) {
    const auto query = [&](const Drive& d) { return shift + d.index; };
    const auto key = [&](const Drive& d) { return shift - d.index; };
    return generator.At(Lags{units, angle, query, key}, false);
  };
  const Matrix here = at(0), there = at(1);
  EXPECT_GT(std::abs(here(0, 2) - there(0, 2)), 0.1);
  // Orthogonal all the same.
  const Matrix product = Exponential(Matrix(3));
  ExpectMatrix(product, {1, 0, 0, 0, 1, 0, 0, 0, 1}, 0);
}

TEST(ResolvedGenerator, RefusesWhatItDoesNotKnow) {
  v1::ResolvedGenerator resolved;
  *resolved.add_blocks() = BlockOf("spiral", {0});
  EXPECT_THAT(Generator::Make(resolved, 1).status().message(),
              ::testing::HasSubstr("spiral"));
  *resolved.mutable_blocks(0) = BlockOf("decay", {3});
  EXPECT_FALSE(Generator::Make(resolved, 2).ok());
}

// One turn a year over 300 years of nanoseconds: whole turns leave nothing.
TEST(DoubleDouble, KeepsTheFractionOfManyTurns) {
  const int64_t year = 31'557'600'000'000'000;
  const double per_ns = 2 * M_PI / static_cast<double>(year);
  for (int64_t years : {43, 290}) {
    const DoubleDouble lag = ExactDifference(years * year / 4 * 4, -(year / 4));
    const DoubleDouble turns = DoubleDouble{per_ns, 0} * lag / kTwoPi;
    // per_ns is not exact: 300 years are off by 2e-14 turns.
    EXPECT_NEAR(Fraction(turns), 0.25, 1e-12) << years;
  }
}

TEST(DoubleDouble, DifferencesOfTheWholeRangeAreExact) {
  const DoubleDouble d = ExactDifference(INT64_MAX, INT64_MIN);
  EXPECT_EQ(d.high, 0x1p64);
  EXPECT_EQ(d.low, -1);
  EXPECT_EQ(Floor({3.0, -1e-20}), 2);
}

}  // namespace
}  // namespace attnd::client::resolved
