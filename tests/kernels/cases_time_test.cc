// Faults of time encodings that users really met, each with an answer in closed
// form: angles in low precision, slopes, decays that overflow, epochs in
// floats, padding taken for events.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/kernels/answer.h"
#include "tests/kernels/problem_builder.h"

namespace attnd::testing {
namespace {

using Kind = TimeAxis::Kind;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kSecondNs = 1'000'000'000;

void ExpectRow(const std::vector<float>& got, size_t row,
               const std::vector<double>& expected, double bound = 1e-5) {
  ASSERT_GE(got.size(), (row + 1) * expected.size());
  for (size_t c = 0; c < expected.size(); ++c) {
    EXPECT_NEAR(got[row * expected.size() + c], expected[c], bound)
        << "row " << row << " column " << c;
  }
}

EncodingSpec Decay(std::vector<double> slopes) {
  EncodingSpec encoding;
  encoding.biases = {AlibiTerm{.slopes = std::move(slopes)}};
  return encoding;
}

// ---- angles in low precision ------------------------------------------------

// Score of one pair under RoPE of D = 16 with only pair `pair` set.
float RopeScore(int pair, Kind kind, double t_q, double t_k, DType dtype,
                int64_t tick_ns = 1, int64_t unit_ns = 1) {
  ProblemSpec spec;
  spec.dim = 16;
  spec.value_dim = 1;
  spec.query.assign(16, 0);
  spec.query[pair] = 1;
  spec.key = spec.query;
  spec.value = {1};
  spec.dtype = dtype;
  spec.kind = kind;
  spec.ratio = {tick_ns, unit_ns};
  spec.query_ticks = {static_cast<int64_t>(t_q)};
  spec.key_ticks = {static_cast<int64_t>(t_k)};
  spec.query_real = {t_q};
  spec.key_real = {t_k};
  spec.encoding.emplace();
  spec.encoding->blocks = {RotaryBlock{}};
  return RunSpec(spec).scores[0];
}

TEST(Angles, KeepTheirPrecisionAtAnyOffsetAndPayload) {
  for (Kind kind : {Kind::kTicks, Kind::kReal}) {
    for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      for (double shift : {0.0, 5001.0, 1.7e9, -1e12}) {
        EXPECT_NEAR(RopeScore(1, kind, shift + 1, shift, dtype), 0.950415,
                    1e-5);
        EXPECT_NEAR(RopeScore(0, kind, shift + 1, shift, dtype), 0.540302,
                    1e-5);
      }
    }
  }
  // Nanoseconds, one second apart.
  EXPECT_NEAR(RopeScore(0, Kind::kTicks, 1.7e18 + 1e9, 1.7e18, DType::kF32, 1,
                        kSecondNs),
              0.540302, 1e-5);
}

// A turn of 2^-40 s where a whole second lies between the rows: what a second
// turns, 1.6e13 times, must not be counted and taken off again in doubles.
TEST(Angles, OfRealTimesOnBothSidesOfAWholeTickAreThoseOfTheLag) {
  for (const double whole : {0.0, 1.0, -1.0, 1e3}) {
    for (const double omega : {1e14, -1e14}) {
      ProblemSpec spec;
      spec.dim = 2;
      spec.value_dim = 1;
      spec.query = {1, 0};
      spec.key = {0, 1};
      spec.value = {1};
      spec.kind = Kind::kReal;
      spec.query_real = {whole - std::ldexp(1, -41)};
      spec.key_real = {whole + std::ldexp(1, -41)};
      spec.encoding.emplace();
      spec.encoding->blocks = {RotationBlock{.frequencies = {omega}}};
      const double expected = std::sin(omega * -std::ldexp(1, -40));
      EXPECT_NEAR(RunSpec(spec).scores[0], expected, 1e-6) << whole;
      EXPECT_NEAR(Reference(spec).scores[0], expected, 1e-6) << whole;
    }
  }
}

TEST(Angles, TurnInTheDirectionOfRoFormer) {
  ProblemSpec spec;
  spec.dim = 2;
  spec.value_dim = 1;
  spec.query = {1, 0};
  spec.key = {0, 1};
  spec.value = {1};
  spec.kind = Kind::kTicks;
  spec.query_ticks = {1};
  spec.key_ticks = {0};
  spec.encoding.emplace();
  spec.encoding->blocks = {RotationBlock{.frequencies = {1}}};
  EXPECT_NEAR(RunSpec(spec).scores[0], 0.841471, 1e-5);
}

TEST(Angles, BothPairLayoutsMatchAHandWrittenRotation) {
  for (PairLayout layout : {PairLayout::kHalfSplit, PairLayout::kInterleaved}) {
    const int step = layout == PairLayout::kHalfSplit ? 2 : 1;
    const int second = layout == PairLayout::kHalfSplit ? 1 : 2;
    ProblemSpec spec;
    spec.dim = 4;
    spec.value_dim = 1;
    spec.query = {1, -2, 3, 0.5f};
    spec.key = {0.25f, 1, -1, 2};
    spec.value = {1};
    spec.kind = Kind::kTicks;
    spec.query_ticks = {7};
    spec.key_ticks = {-5};
    spec.encoding.emplace();
    spec.encoding->blocks = {RotaryBlock{.layout = layout}};
    double expected = 0;
    for (int plane = 0; plane < 2; ++plane) {
      const int a = plane * second, b = a + step;
      const double w = plane == 0 ? 1 : 0.01, angle = 12 * w;
      const double c = std::cos(angle), s = std::sin(angle);
      // (R(7w) q).(R(-5w) k) = q^T R(-12w) k
      expected += spec.query[a] * (c * spec.key[a] + s * spec.key[b]) +
                  spec.query[b] * (c * spec.key[b] - s * spec.key[a]);
    }
    EXPECT_NEAR(RunSpec(spec).scores[0], expected, 1e-5);
  }
}

// The parity mode rounds where models of that time did: float32(position) times
// float32(frequency), each row on its own. At large positions it is off by what
// that loses, which the exact phases are not.
TEST(Angles, ParityModeRoundsPositionsFrequenciesAndAngles) {
  for (const int64_t place :
       {int64_t{5}, int64_t{4095}, int64_t{9'999'999}, int64_t{16'777'217}}) {
    ProblemSpec spec;
    spec.value_dim = 1;
    spec.query = {1, 0.5f, -0.25f, 2};
    spec.key = {0.75f, 1, 1, -0.5f};
    spec.value = {1};
    spec.encoding.emplace();
    spec.encoding->blocks = {RotaryBlock{}};
    spec.ratio = {.tick_ns = 1, .unit_ns = 1};
    spec.kind = Kind::kTicks;
    spec.query_ticks = {place + 3};
    spec.key_ticks = {place};
    const auto score = [&](auto angle) {
      double sum = 0;
      for (int j = 0; j < 2; ++j) {
        const double w = std::pow(10000.0, -j / 2.0);
        const double t = angle(place + 3, w), s = angle(place, w);
        const double a = spec.query[j], b = spec.query[j + 2];
        const double c = spec.key[j], d = spec.key[j + 2];
        sum += (a * std::cos(t) - b * std::sin(t)) *
                   (c * std::cos(s) - d * std::sin(s)) +
               (a * std::sin(t) + b * std::cos(t)) *
                   (c * std::sin(s) + d * std::cos(s));
      }
      return sum;
    };
    const double exact = score([](int64_t p, double w) {
      return static_cast<double>(static_cast<long double>(p) * w);
    });
    const double rounded = score([](int64_t p, double w) {
      const auto power = static_cast<float>(1 / w);
      return static_cast<float>(p) * (1 / power);
    });
    EXPECT_NEAR(RunSpec(spec).scores[0], exact, 2e-6) << place;
    spec.encoding->hf_fp32_angles = true;
    EXPECT_NEAR(RunSpec(spec).scores[0], rounded, 2e-6) << place;
    if (place < 1'000'000) continue;
    EXPECT_GT(std::abs(rounded - exact), 1e-3) << place;
  }
}

TEST(Angles, NegativeTimesTurnLikeOthers) {
  EXPECT_NEAR(RopeScore(0, Kind::kTicks, -4, -5, DType::kF32), 0.540302, 1e-5);
}

// ---- ALiBi slopes -----------------------------------------------------------

// Two keys, at the query and four units before, seen by `heads` heads.
Answer SlopesOf(int64_t heads) {
  ProblemSpec spec;
  spec.query_heads = heads;
  spec.keys = 2;
  spec.dim = spec.value_dim = 1;
  spec.query.assign(heads, 0);
  spec.key = {1, 1};
  spec.value = {0, 1};
  spec.kind = Kind::kTicks;
  spec.query_ticks = {4};
  spec.key_ticks = {0, 4};
  spec.encoding = Decay({});
  return RunSpec(spec);
}

TEST(Slopes, SevenHeadsTakeThePublishedInterleaving) {
  const std::vector<double> slopes = {0.25, 0.0625, 0.015625, 0.00390625,
                                      0.5,  0.125,  0.03125};
  const Answer answer = SlopesOf(7);
  for (size_t h = 0; h < slopes.size(); ++h) {
    ExpectRow(answer.scores, h, {-4 * slopes[h], 0});
  }
  EXPECT_NEAR(answer.output[0], 0.731059, 1e-5);
  EXPECT_NEAR(answer.output[4], 0.880797, 1e-5);
}

TEST(Slopes, OtherHeadCountsTakeThePublishedOnes) {
  EXPECT_NEAR(SlopesOf(1).scores[0], -4 * std::exp2(-8), 1e-6);
  EXPECT_NEAR(SlopesOf(2).scores[0], -4 * std::exp2(-4), 1e-6);
  EXPECT_NEAR(SlopesOf(2).scores[2], -4 * std::exp2(-8), 1e-6);
  const Answer eight = SlopesOf(8), twelve = SlopesOf(12);
  for (int h = 0; h < 8; ++h) {
    EXPECT_NEAR(eight.scores[2 * h], -4 * std::exp2(-h - 1), 1e-6);
    EXPECT_NEAR(twelve.scores[2 * h], -4 * std::exp2(-h - 1), 1e-6);
  }
  for (int h = 0; h < 4; ++h) {
    EXPECT_NEAR(twelve.scores[16 + 2 * h], -4 * std::exp2(-h - 0.5), 1e-6);
  }
}

// ---- decay and epoch times --------------------------------------------------

// Q = 0, values 0 and 1 at two key times.
ProblemSpec TwoKeys(double slope, Kind kind, std::vector<int64_t> keys,
                    int64_t query, const TickRatio& ratio = {}) {
  ProblemSpec spec;
  spec.keys = 2;
  spec.dim = spec.value_dim = 1;
  spec.query = {0};
  spec.key = {1, 1};
  spec.value = {0, 1};
  spec.kind = kind;
  spec.ratio = ratio;
  spec.key_ticks = keys;
  spec.query_ticks = {query};
  spec.key_real = {static_cast<double>(keys[0]), static_cast<double>(keys[1])};
  spec.query_real = {static_cast<double>(query)};
  spec.encoding = Decay({slope});
  return spec;
}

TEST(DecayOfWeights, OnlyDifferencesEnterTheExponential) {
  for (Kind kind : {Kind::kTicks, Kind::kReal}) {
    for (int64_t t : {int64_t{0}, int64_t{1'700'000'000}}) {
      const Answer answer = RunSpec(TwoKeys(1, kind, {t, t + 1}, t + 1));
      ExpectRow(answer.scores, 0, {-1, 0});
      EXPECT_NEAR(answer.output[0], 0.731059, 1e-5);
      EXPECT_NEAR(answer.lse[0], 0.313262, 1e-5);
    }
  }
}

TEST(DecayOfWeights, VeryLongGapsKeepTheirWeights) {
  for (int64_t q : {int64_t{0}, int64_t{1'700'000'000}}) {
    const Answer answer =
        RunSpec(TwoKeys(1, Kind::kTicks, {q - 1'000'000, q - 1'000'001}, q));
    ExpectRow(answer.weights, 0, {0.731059, 0.268941});
    EXPECT_NEAR(answer.lse[0], -999999.687, 0.1);
  }
}

TEST(DecayOfWeights, AGapThatUnderflowsWeighsNothing) {
  const Answer answer =
      RunSpec(TwoKeys(1, Kind::kTicks, {0, 1'000'000}, 1'000'000));
  ExpectRow(answer.weights, 0, {0, 1}, 0);
  EXPECT_EQ(answer.output[0], 1);
}

TEST(DecayOfWeights, RatesBelowZeroOrNaNAreRefused) {
  for (double rate : {-1.0, std::nan(""), HUGE_VAL}) {
    EXPECT_FALSE(
        Encoder::Compile(Decay({rate}),
                         {.head_dim = 1, .query_heads = 1, .kv_heads = 1}, {})
            .ok());
  }
}

TEST(EpochTimes, AreSubtractedBeforeTheyAreScaled) {
  constexpr int64_t kNow = 1'700'000'000;
  for (int64_t t : {int64_t{0}, kNow}) {
    for (Kind kind : {Kind::kTicks, Kind::kReal}) {
      const Answer answer =
          RunSpec(TwoKeys(1 / 60.0, kind, {t, t + 60}, t + 60));
      ExpectRow(answer.scores, 0, {-1, 0});
      EXPECT_NEAR(answer.output[0], 0.731059, 1e-5);
    }
  }
  const int64_t now_ns = kNow * kSecondNs;
  const Answer minute = RunSpec(
      TwoKeys(1 / 60.0, Kind::kTicks, {now_ns, now_ns + 60 * kSecondNs},
              now_ns + 60 * kSecondNs, {.tick_ns = 1, .unit_ns = kSecondNs}));
  EXPECT_NEAR(minute.output[0], 0.731059, 1e-5);
  const Answer close =
      RunSpec(TwoKeys(1e7, Kind::kTicks, {now_ns, now_ns + 100}, now_ns + 100,
                      {.tick_ns = 1, .unit_ns = kSecondNs}));
  EXPECT_NEAR(close.output[0], 0.731059, 1e-5);
}

// ---- padding ----------------------------------------------------------------

TEST(Padding, TakesNoPartInAnything) {
  for (Kind kind : {Kind::kTicks, Kind::kReal}) {
    for (double padding : {0.0, static_cast<double>(kNaN), 1e18}) {
      if (kind == Kind::kTicks && std::isnan(padding)) continue;
      for (bool by_validity : {false, true}) {
        ProblemSpec spec;
        spec.batch = 2;
        spec.queries = spec.keys = 5;
        spec.dim = spec.value_dim = 1;
        spec.query.assign(10, 0);
        spec.key.assign(10, 1);
        spec.value = {1, 2, 4, 9, 9, 1, 2, 3, 4, 5};
        spec.kind = kind;
        spec.query_real = {2, 5, 6, padding, padding, 1, 2, 3, 4, 5};
        for (double t : spec.query_real) {
          spec.query_ticks.push_back(std::isnan(t) ? 0
                                                   : static_cast<int64_t>(t));
        }
        spec.key_real = spec.query_real;
        spec.key_ticks = spec.query_ticks;
        spec.query_lengths = {3, 5};
        if (by_validity) {
          spec.key_validity = {1, 1, 1, 0, 0, 1, 1, 1, 1, 1};
        } else {
          spec.key_lengths = {3, 5};
        }
        spec.causal = true;
        spec.encoding = Decay({1});
        const Answer answer = RunSpec(spec);
        EXPECT_NEAR(answer.output[0], 1, 1e-5);
        EXPECT_NEAR(answer.output[1], 1.952574, 1e-5);
        EXPECT_NEAR(answer.output[2], 3.429585, 1e-5);
        ExpectRow(answer.weights, 2, {0.013213, 0.265388, 0.721399, 0, 0});
        EXPECT_NEAR(answer.lse[2], 0.326563, 1e-5);
        for (int row : {3, 4}) {
          EXPECT_EQ(answer.output[row], 0);
          EXPECT_EQ(answer.lse[row], -kInfinity);
        }
      }
    }
  }
}

}  // namespace
}  // namespace attnd::testing
