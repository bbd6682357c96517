// Pictures of encodings: what they draw, and what they say in words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "client/show/curves.h"
#include "client/show/encoding_plot.h"
#include "client/show/lag_scales.h"

namespace attnd::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

v1::ResolvedEncoding Empty(int dim) {
  v1::ResolvedEncoding encoding;
  encoding.set_name("one");
  encoding.set_head_dim(dim);
  encoding.add_effective_horizon(-1);
  encoding.add_generators()->set_condition(1);
  return encoding;
}

v1::ResolvedBlock& AddBlock(const std::string& kind, int width,
                            v1::ResolvedEncoding& encoding) {
  v1::ResolvedGenerator& generator = *encoding.mutable_generators(0);
  int first = 0;
  for (const v1::ResolvedBlock& block : generator.blocks()) {
    first += block.channels_size();
  }
  v1::ResolvedBlock& block = *generator.add_blocks();
  block.set_kind(kind);
  block.set_amplitude(1);
  for (int c = 0; c < width; ++c) block.add_channels(first + c);
  return block;
}

std::string Picture(const v1::ResolvedEncoding& encoding) {
  const auto svg = PlotEncoding(encoding, {});
  EXPECT_TRUE(svg.ok()) << svg.status();
  return svg.value_or("");
}

void AddPlane(double x, double y, v1::ResolvedEncoding& encoding) {
  v1::ResolvedBlock& block = AddBlock("rotation", 2, encoding);
  block.set_frequency(x);
  v1::ResolvedTerm& term = *block.add_further();
  term.set_frequency(y);
  term.set_coordinate(1);
}

// A curve's period is that of what is drawn: all axes advance alike.
TEST(PlotEncoding, PlanesOfSeveralAxesHaveThePeriodTheyTurnWith) {
  v1::ResolvedEncoding encoding = Empty(4);
  AddPlane(0.1, 0.1, encoding);
  AddPlane(0.1, -0.1, encoding);
  EXPECT_THAT(Picture(encoding),
              AllOf(HasSubstr("rotation, period 31.4<"),
                    HasSubstr("rotation, turns along its axes cancel<"),
                    Not(HasSubstr("62.8")),
                    HasSubstr("; the same along every coordinate")));
  const auto orbits = Orbits(encoding, 0, 4);
  ASSERT_TRUE(orbits.ok()) << orbits.status();
  ASSERT_EQ(orbits->size(), 1u) << "the other does not turn";
  EXPECT_EQ((*orbits)[0].label, "period 31.4");
}

TEST(PlotEncoding, BlocksOfTheSameCurveAreOne) {
  v1::ResolvedEncoding encoding = Empty(4);
  for (int c = 0; c < 3; ++c) {
    v1::ResolvedBlock& block = AddBlock("decay", 1, encoding);
    block.set_rate(1);
    block.set_clock(v1::CLOCK_REQUEST);
    block.set_clock_channel(c);
  }
  AddBlock("decay", 1, encoding).set_rate(2);
  const auto curves = KernelCurves(encoding, 0, LagAxis(encoding, 0));
  ASSERT_TRUE(curves.ok()) << curves.status();
  ASSERT_EQ(curves->size(), 3u);
  EXPECT_EQ((*curves)[1].label, "decay, 1/rate 1, channels 0-2");
  EXPECT_EQ((*curves)[2].label, "decay, 1/rate 0.5");
  v1::ResolvedEncoding planes = Empty(4);
  for (const int coordinate : {0, 1}) {
    v1::ResolvedBlock& block = AddBlock("rotation", 2, planes);
    block.set_frequency(1);
    block.set_coordinate(coordinate);
  }
  const auto orbits = Orbits(planes, 0, 4);
  ASSERT_TRUE(orbits.ok()) << orbits.status();
  ASSERT_EQ(orbits->size(), 1u);
  EXPECT_EQ((*orbits)[0].label, "period 6.28, channels 0-3");
}

TEST(PlotEncoding, TheAxisOfClocksIsNoTime) {
  v1::ResolvedEncoding encoding = Empty(1);
  v1::ResolvedBlock& block = AddBlock("decay", 1, encoding);
  block.set_rate(1);
  EXPECT_THAT(Picture(encoding), HasSubstr(">lag D in units"));
  block.set_clock(v1::CLOCK_REQUEST);
  EXPECT_THAT(Picture(encoding), AllOf(HasSubstr("advance of the request"),
                                       Not(HasSubstr(">lag D in units"))));
}

constexpr char kFuture[] = "bias(D) of the future";

TEST(PlotEncoding, BothSidesWhereTheyDiffer) {
  v1::ResolvedEncoding encoding = Empty(1);
  v1::LagTable& table =
      *encoding.mutable_definition()->add_biases()->mutable_lag_table();
  for (const auto& [lag, value] : {std::pair(-24, -3.0F), {0, 0}, {24, -1}}) {
    table.add_lags(lag);
    table.add_values(value);
  }
  EXPECT_THAT(Picture(encoding), HasSubstr(kFuture));
  const PlotAxis lags = LagAxis(encoding, 0);
  EXPECT_EQ(BiasCurves(encoding, {0}, lags)[0].points.back().y, -1);
  EXPECT_EQ(BiasCurves(encoding, {0}, lags, -1)[0].points.back().y, -3);
  // Where no key of the future may be seen, there is no such side.
  encoding.set_causal_only(true);
  EXPECT_THAT(Picture(encoding), Not(HasSubstr(kFuture)));
  encoding.set_causal_only(false);
  table.set_absolute_lag(true);
  EXPECT_THAT(Picture(encoding), Not(HasSubstr(kFuture)));
  v1::T5Buckets& t5 =
      *encoding.mutable_definition()->mutable_biases(0)->mutable_t5_buckets();
  t5.set_buckets(4);
  t5.set_bidirectional(true);
  for (int b = 0; b < 4; ++b) t5.add_table(static_cast<float>(b));
  EXPECT_THAT(Picture(encoding), HasSubstr(kFuture));
}

// No empty page without a word.
TEST(PlotEncoding, WhatIsNotDrawnSaysWhy) {
  const auto add = [](auto change) {
    v1::ResolvedEncoding encoding = Empty(1);
    change(*encoding.mutable_definition());
    return Picture(encoding);
  };
  EXPECT_THAT(add([](v1::Encoding&) {}), HasSubstr("nothing to draw"));
  EXPECT_THAT(
      add([](v1::Encoding& e) { e.add_biases()->mutable_cumulative_gate(); }),
      HasSubstr("cumulative_gate: driven by the request"));
  EXPECT_THAT(
      add([](v1::Encoding& e) { e.add_biases()->mutable_path_integral(); }),
      HasSubstr("path_integral: driven by the request"));
  EXPECT_THAT(add([](v1::Encoding& e) {
                e.add_biases()->mutable_grape_additive()->add_slopes(1);
              }),
              HasSubstr("grape_additive: its slope depends on each query"));
  EXPECT_THAT(add([](v1::Encoding& e) {
                e.mutable_query_temperature()->set_form(
                    v1::QueryTemperature::FORM_LOG_LENGTH);
              }),
              HasSubstr("how many keys a query sees"));
  EXPECT_THAT(add([](v1::Encoding& e) {
                e.mutable_query_temperature()->set_form(
                    v1::QueryTemperature::FORM_LLAMA4);
              }),
              HasSubstr("own place"));
}

}  // namespace
}  // namespace attnd::client
