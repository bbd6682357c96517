// What absolute parts are at every time, and what does not fit is refused.
#include "kernels/absolute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/kernels/absolute_parts.h"
#include "tests/kernels/problem_builder.h"

namespace attnd {
namespace {

using testing::At;
using testing::Compile;
using ::testing::HasSubstr;
using testing::kNsToSeconds;
using testing::Random;
using testing::Row;
using testing::Sinusoids;
using testing::Table;
using testing::Vector;

using Boundary = LearnedTablePart::Boundary;
using Interpolation = LearnedTablePart::Interpolation;

constexpr int64_t kYear = 31557600000000000;

Time2VecPart RandomTime2Vec(Random& random, int channels) {
  Time2VecPart part;
  for (int c = 0; c < channels; ++c) {
    part.frequencies.push_back(random.Normal() *
                               std::pow(10, 6 * random.Uniform() - 3));
    part.phases.push_back(10 * random.Normal());
  }
  return part;
}

TEST(Absolute, RowsAreExactFromNanosecondsToCenturies) {
  Random random(32);
  constexpr int kDim = 24;
  const Time2VecPart phi = RandomTime2Vec(random, kDim);
  std::vector<AbsolutePart> parts = {
      Sinusoids(),
      Sinusoids(SinusoidalPart::Order::kConcatenated),
      Sinusoids(SinusoidalPart::Order::kEndpoints),
      AbsolutePart{.kind = phi, .origin_ticks = -292 * kYear},
      AbsolutePart{.kind = HawkesPart{}},
      AbsolutePart{.kind = HawkesPart{.index_form = true,
                                      .index_frequencies = phi.frequencies,
                                      .time_frequencies = phi.phases}}};
  for (const AbsolutePart& part : parts) {
    const auto absolute = Compile(part, kDim);
    for (int64_t ticks :
         {int64_t{0}, int64_t{1}, int64_t{-7}, kYear, 292 * kYear, -292 * kYear,
          std::numeric_limits<int64_t>::min(),
          std::numeric_limits<int64_t>::max()}) {
      const AbsoluteTime time{.ticks = ticks, .index = 12345};
      const std::vector<double> exact = Vector(*absolute, kDim, time);
      const std::vector<float> row = Row(*absolute, kDim, time);
      for (int c = 0; c < kDim; ++c) {
        EXPECT_NEAR(row[c], exact[c],
                    kAbsoluteError * std::max(1.0, std::fabs(exact[c])));
      }
    }
  }
}

TEST(Absolute, SinusoidsHaveNormOfHalfTheDimensionAndTurn) {
  constexpr int kDim = 32;
  const auto absolute = Compile(Sinusoids(), kDim);
  const int64_t step = 123456789;
  for (int64_t t : {int64_t{0}, 5 * kYear, -77 * kYear}) {
    const std::vector<double> a = Vector(*absolute, kDim, At(t));
    const std::vector<double> b = Vector(*absolute, kDim, At(t + step));
    double norm = 0;
    for (double x : a) norm += x * x;
    EXPECT_NEAR(norm, kDim / 2, 1e-12);
    for (int i = 0; i < kDim / 2; ++i) {
      const double angle = std::pow(10000.0, -2.0 * i / kDim) * step * 1e-9;
      const double c = std::cos(angle), s = std::sin(angle);
      EXPECT_NEAR(b[2 * i], a[2 * i] * c + a[2 * i + 1] * s, 1e-11);
      EXPECT_NEAR(b[2 * i + 1], a[2 * i + 1] * c - a[2 * i] * s, 1e-11);
    }
  }
}

TEST(Absolute, OriginIsWhereTimeIsZero) {
  Random random(33);
  const Time2VecPart phi = RandomTime2Vec(random, 8);
  for (int64_t origin : {int64_t{0}, 1700000000 * int64_t{1000000000},
                         std::numeric_limits<int64_t>::min(),
                         std::numeric_limits<int64_t>::max()}) {
    const auto absolute = Compile({.kind = phi, .origin_ticks = origin}, 8);
    const std::vector<double> vector = Vector(*absolute, 8, At(origin));
    EXPECT_DOUBLE_EQ(vector[0], phi.phases[0]);
    for (int c = 1; c < 8; ++c) {
      EXPECT_NEAR(vector[c], std::sin(phi.phases[c]), 1e-14);
    }
    // Positions have no origin.
    const AbsoluteTime first{.ticks = 0, .position = true};
    EXPECT_NEAR(Vector(*absolute, 8, first)[1], std::sin(phi.phases[1]), 1e-14);
  }
}

TEST(Absolute, PartsAddUpWhereTheyAreMeantTo) {
  AbsolutePart query = Sinusoids(), key = Sinusoids();
  query.on_key = false;
  key.on_query = false;
  key.kind = SinusoidalPart{.amplitude = 3};
  const auto absolute =
      Absolute::Compile({query, key, Sinusoids()}, 4, 1, kNsToSeconds);
  ASSERT_TRUE(absolute.ok()) << absolute.status();
  const std::vector<float> one = Row(*Compile(Sinusoids(), 4), 4, At(999));
  for (int c = 0; c < 4; ++c) {
    EXPECT_NEAR(Row(**absolute, 4, At(999), true)[c], 2 * one[c], 1e-6);
    EXPECT_NEAR(Row(**absolute, 4, At(999), false)[c], 4 * one[c], 1e-6);
  }
}

TEST(Absolute, EmbeddingsAndProjectionsAreTheirHeadsAndSides) {
  const Time2VecPart constant[2] = {{.frequencies = {0}, .phases = {2}},
                                    {.frequencies = {0}, .phases = {5}}};
  const auto absolute =
      Compile({.kind = MultiTimePart{.embedding = {constant[0], constant[1]},
                                     .query_projection = {1},
                                     .key_projection = {10}}},
              1);
  EXPECT_EQ(Vector(*absolute, 1, At(7), true, 0)[0], 2);
  EXPECT_EQ(Vector(*absolute, 1, At(7), true, 1)[0], 5);
  EXPECT_EQ(Vector(*absolute, 1, At(7), false, 1)[0], 50);
}

TEST(Absolute, RefusesWhatDoesNotFit) {
  const auto message = [](const AbsolutePart& part, int dim) {
    return std::string(
        Absolute::Compile({Sinusoids(), part}, dim, 2, {}).status().message());
  };
  EXPECT_THAT(message(Table(Boundary::kClamp, Interpolation::kExact), 4),
              HasSubstr("absolutes[1].learned_table.dim: 2, expected 4"));
  EXPECT_THAT(
      message({.kind = Time2VecPart{.frequencies = {1, 2}, .phases = {0, 0}}},
              4),
      HasSubstr("absolutes[1].time2vec.frequencies: 2 entries"));
  EXPECT_THAT(message({.kind = HawkesPart{.index_form = true,
                                          .index_frequencies = {1},
                                          .time_frequencies = {1}}},
                      4),
              HasSubstr("absolutes[1].transformer_hawkes.index_frequencies"));
  const Time2VecPart phi{.frequencies = {1}, .phases = {0}};
  EXPECT_THAT(message({.kind = MultiTimePart{.embedding = {phi, phi, phi},
                                             .query_projection = {1, 2, 3, 4},
                                             .key_projection = {1, 2, 3, 4}}},
                      4),
              HasSubstr("absolutes[1].mtand.embedding: 3 entries, expected 2"));
  EXPECT_THAT(message({.kind = MultiTimePart{.embedding = {phi},
                                             .query_projection = {1, 2},
                                             .key_projection = {1, 2}}},
                      4),
              HasSubstr("absolutes[1].mtand.query_projection: 2 entries"));
  const auto odd = Absolute::Compile({Sinusoids()}, 5, 2, {});
  EXPECT_THAT(std::string(odd.status().message()),
              HasSubstr("absolutes[0].sinusoidal: head dimension 5"));
}

}  // namespace
}  // namespace attnd
