// More faults of time encodings that users of other programs really met, each
// with an answer in closed form: payloads that round angles, positions that
// collapse, ALiBi of the wrong sign, offset or side, decays split into factors,
// sequences in pieces. cases_time_test.cc has the others.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/presets.h"
#include "tests/kernels/answer.h"
#include "tests/kernels/problem_builder.h"

namespace attnd::testing {
namespace {

using Kind = TimeAxis::Kind;

EncodingSpec Of(Block block) {
  EncodingSpec spec;
  spec.blocks = {std::move(block)};
  return spec;
}

// `rows` queries and keys at first, first + 1, ..., without a mask.
ProblemSpec Sequence(int64_t rows, int64_t dim, int64_t first) {
  Random random(rows + first);
  ProblemSpec spec;
  spec.queries = spec.keys = rows;
  spec.dim = dim;
  spec.value_dim = 3;
  spec.Fill(random);
  spec.kind = Kind::kTicks;
  spec.query_ticks.resize(rows);
  std::iota(spec.query_ticks.begin(), spec.query_ticks.end(), first);
  spec.key_ticks = spec.query_ticks;
  return spec;
}

// ---- events -----------------------------------------------------------------

// sin(3 i + t / 2) on one channel, of queries or of keys alone.
EncodingSpec Events(bool queries) {
  EncodingSpec spec;
  spec.absolutes = {AbsolutePart{.kind = HawkesPart{.index_form = true,
                                                    .index_frequencies = {3},
                                                    .time_frequencies = {0.5}},
                                 .on_query = queries,
                                 .on_key = !queries}};
  return spec;
}
double Event(int64_t index, double time) {
  return std::sin(3.0 * static_cast<double>(index) + time / 2);
}

// The index of the row would change when events are padded or sent in another
// order.
TEST(EventIndices, CountValidKeysInTimeOrder) {
  ProblemSpec spec;
  spec.queries = 2;
  spec.keys = 5;
  spec.dim = spec.value_dim = 1;
  spec.query = {1, 1};
  spec.key = {0, 0, 0, 0, 0};
  spec.value = {1, 2, 3, 4, 5};
  spec.kind = Kind::kTicks;
  spec.query_ticks = {50, 40};
  spec.key_ticks = {5, 30, 10, 20, 10};  // the first is padding
  spec.key_validity = {0, 1, 1, 1, 1};
  spec.encoding = Events(false);
  const Answer answer = RunSpec(spec);
  for (int i = 0; i < 2; ++i) {
    EXPECT_NEAR(answer.scores[5 * i + 1], Event(3, 30), 1e-6);
    EXPECT_NEAR(answer.scores[5 * i + 2], Event(0, 10), 1e-6);
    EXPECT_NEAR(answer.scores[5 * i + 3], Event(2, 20), 1e-6);
    // Tied: in the order of rows.
    EXPECT_NEAR(answer.scores[5 * i + 4], Event(1, 10), 1e-6);
  }
  EXPECT_EQ(Compare(spec, answer, Reference(spec)), "");
  // Without times padding moves positions, which are times, and no event.
  spec.kind = Kind::kPositions;
  spec.query_ticks = spec.key_ticks = {};
  const Answer positions = RunSpec(spec);
  for (int j = 1; j < 5; ++j) {
    EXPECT_NEAR(positions.scores[j], Event(j - 1, j), 1e-6);
  }
  EXPECT_EQ(Compare(spec, positions, Reference(spec)), "");
}

TEST(EventIndices, CountQueriesInTimeOrder) {
  ProblemSpec spec;
  spec.queries = 3;
  spec.keys = 1;
  spec.dim = spec.value_dim = 1;
  spec.query = {0, 0, 0};
  spec.key = {1};
  spec.value = {1};
  spec.kind = Kind::kTicks;
  spec.query_ticks = {70, 50, 60};
  spec.key_ticks = {10};
  spec.encoding = Events(true);
  const Answer answer = RunSpec(spec);
  EXPECT_NEAR(answer.scores[0], Event(2, 70), 1e-6);
  EXPECT_NEAR(answer.scores[1], Event(0, 50), 1e-6);
  EXPECT_NEAR(answer.scores[2], Event(1, 60), 1e-6);
  EXPECT_EQ(Compare(spec, answer, Reference(spec)), "");
}

// ---- angles and positions in the payload's type -----------------------------

// Cosines, sines, frequencies or the rotation itself in bf16 or f16: a payload
// of 16 bits must give the bits that the same numbers give in f32.
TEST(SixteenBitPayloads, AreTurnedInF32) {
  for (DType dtype : {DType::kBF16, DType::kF16}) {
    ProblemSpec spec = Sequence(70, 64, 131'000);
    spec.encoding = Of(RotaryBlock{.base = 5e5});
    // What the payload holds.
    for (auto* values : {&spec.query, &spec.key, &spec.value}) {
      for (float& v : *values) v = std::ldexp(std::round(std::ldexp(v, 6)), -6);
    }
    for (auto* values : {&spec.query, &spec.key, &spec.value}) {
      for (float& v : *values) v = std::fmod(v, 2.0f);  // 7 bits
    }
    const Answer in_f32 = RunSpec(spec);
    spec.dtype = dtype;
    EXPECT_EQ(CompareBits(in_f32, RunSpec(spec)), "");
  }
}

// Whole positions that a narrow type cannot tell apart: bf16 from 256 on, f16
// from 2048 on, f32 from 2^24 on, f64 from 2^53 on.
TEST(Positions, NeighboursStayApartHoweverFar) {
  for (int64_t place :
       {int64_t{257}, int64_t{4095}, int64_t{15'961}, int64_t{32'769},
        int64_t{65'537}, int64_t{131'071}, int64_t{1} << 24,
        (int64_t{1} << 53) + 1, (int64_t{1} << 62) + 1}) {
    for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      ProblemSpec spec;
      spec.keys = 3;
      spec.dim = 2;
      spec.value_dim = 1;
      spec.dtype = dtype;
      spec.query = {1, 0};
      spec.key = {1, 0, 1, 0, 1, 0};
      spec.value = {1, 2, 3};
      spec.kind = Kind::kTicks;
      spec.query_ticks = {place + 1};
      spec.key_ticks = {place - 1, place, place + 1};
      spec.encoding = Of(RotaryBlock{});
      const Answer answer = RunSpec(spec);
      EXPECT_NEAR(answer.scores[0], std::cos(2.0), 1e-6) << place;
      EXPECT_NEAR(answer.scores[1], std::cos(1.0), 1e-6) << place;
      EXPECT_NEAR(answer.scores[2], 1, 1e-6) << place;
    }
  }
}

// Sines of large arguments by fast routines: 1e-2 off at 131 072 positions.
TEST(Positions, AnglesOfLongContextsAreExact) {
  for (double base : {1e4, 5e5, 1e6}) {
    for (int64_t apart :
         {int64_t{131'071}, int64_t{1'048'575}, int64_t{1'000'000'007}}) {
      ProblemSpec spec;
      spec.dim = 128;
      spec.value_dim = 1;
      spec.query.assign(128, 0);
      spec.key.assign(128, 0);
      spec.value = {1};
      spec.kind = Kind::kTicks;
      spec.query_ticks = {apart};
      spec.key_ticks = {0};
      spec.encoding = Of(RotaryBlock{.base = base});
      for (int j : {0, 1, 7, 31, 63}) {
        spec.query[j] = spec.key[j] = 1;
        const double w = std::pow(base, -j / 64.0);
        const auto angle = static_cast<long double>(apart) * w;
        EXPECT_NEAR(RunSpec(spec).scores[0],
                    static_cast<double>(std::cos(angle)), 1e-6)
            << "plane " << j << " base " << base << " at " << apart;
        spec.query[j] = spec.key[j] = 0;
      }
    }
  }
}

// ---- ALiBi ------------------------------------------------------------------

ProblemSpec Biases(const AlibiTerm& alibi, int64_t heads,
                   std::vector<int64_t> queries, std::vector<int64_t> keys) {
  ProblemSpec spec;
  spec.query_heads = heads;
  spec.queries = static_cast<int64_t>(queries.size());
  spec.keys = static_cast<int64_t>(keys.size());
  spec.dim = spec.value_dim = 1;
  spec.query.assign(heads * spec.queries, 0);
  spec.key.assign(spec.keys, 1);
  spec.value.assign(spec.keys, 1);
  spec.kind = Kind::kTicks;
  spec.query_ticks = std::move(queries);
  spec.key_ticks = std::move(keys);
  spec.encoding.emplace();
  spec.encoding->biases = {alibi};
  return spec;
}

// The sign flipped, an offset per row, one column for all rows, the future
// favoured in an encoder: the matrix itself, and lse, which a shift of a row
// would change.
TEST(AlibiMatrix, IsMinusSlopeTimesLagOnBothSides) {
  const std::vector<int64_t> keys = {-7, 0, 1, 2, 50, 1000};
  const std::vector<int64_t> queries = {0, 1, 3, 999, 1'000'000};
  for (int64_t heads : {1, 3, 8}) {
    for (bool two_sided : {false, true}) {
      ProblemSpec spec =
          Biases({.slopes = {}, .two_sided = two_sided}, heads, queries, keys);
      spec.causal = !two_sided;
      const std::vector<double> slopes = PublishedSlopes(heads);
      const Answer answer = RunSpec(spec);
      for (int64_t h = 0; h < heads; ++h) {
        for (size_t i = 0; i < queries.size(); ++i) {
          double sum = 0, nearest = -HUGE_VAL;
          const int64_t r = h * spec.queries + static_cast<int64_t>(i);
          for (size_t j = 0; j < keys.size(); ++j) {
            const auto lag = static_cast<double>(queries[i] - keys[j]);
            const float got = answer.scores[r * spec.keys + j];
            if (lag < 0 && !two_sided) {
              ASSERT_EQ(got, -HUGE_VALF);
              continue;
            }
            const double bias = -slopes[h] * std::abs(lag);
            ASSERT_NEAR(got, bias, 2e-7 * std::abs(bias));
            nearest = std::max(nearest, bias);
          }
          for (size_t j = 0; j < keys.size(); ++j) {
            const auto lag = static_cast<double>(queries[i] - keys[j]);
            if (lag < 0 && !two_sided) continue;
            sum += std::exp(-slopes[h] * std::abs(lag) - nearest);
          }
          const double lse = nearest + std::log(sum);
          ASSERT_NEAR(answer.lse[r], lse, 2e-7 * std::abs(lse) + 1e-6);
        }
      }
    }
  }
}

// The bias and its two channels (1/scale, 0), (0, -1) under the defective
// matrix [[0, 1], [0, 0]]: the same answers up to rounding, whatever the lags.
TEST(AlibiMatrix, TheDefectiveMatrixGivesTheSameAnswers) {
  constexpr int64_t kRows = 130, kDim = 8, kHeads = 3;
  Random random(8);
  ProblemSpec bias;
  bias.query_heads = bias.kv_heads = kHeads;
  bias.queries = bias.keys = kRows;
  bias.dim = kDim;
  bias.value_dim = 4;
  bias.scale = 0.25f;
  bias.Fill(random);
  // The channels that the other carries see nothing here.
  for (auto* values : {&bias.query, &bias.key}) {
    for (int64_t r = 0; r < kHeads * kRows; ++r) {
      (*values)[r * kDim + 6] = (*values)[r * kDim + 7] = 0;
    }
  }
  bias.kind = Kind::kTicks;
  int64_t t = 0;
  for (int64_t i = 0; i < kRows; ++i) {
    bias.query_ticks.push_back(t);
    t += static_cast<int64_t>(std::pow(10.0, 4 * random.Uniform()));
  }
  bias.key_ticks = bias.query_ticks;
  bias.causal = true;
  ProblemSpec matrix = bias;
  for (int64_t r = 0; r < kHeads * kRows; ++r) {
    matrix.query[r * kDim + 6] = 1 / bias.scale;
    matrix.key[r * kDim + 7] = -1;
  }
  bias.encoding.emplace();
  bias.encoding->biases = {AlibiTerm{}};
  matrix.encoding = *AugmentedAlibi({}, kDim, kHeads);
  const ReferenceAnswer reference = Reference(bias);
  ASSERT_EQ(Compare(bias, RunSpec(bias), reference), "");
  EXPECT_EQ(Compare(matrix, RunSpec(matrix), reference, kJordanSlack), "");
}

// ---- decays in two factors --------------------------------------------------

// e^{-rate t} e^{+rate s} of absolute times, infinity times 0 at hardly any
// decay or very much of it.
TEST(Decays, OfEveryRateStayFinite) {
  ProblemSpec spec = Sequence(150, 8, 1'700'000'000);
  spec.causal = true;
  for (int64_t i = 0; i < 150; i += 2) {
    spec.query_ticks[i] = spec.key_ticks[i] -= 1'000'000 * (i % 3);
  }
  spec.encoding =
      Of(DecayBlock{.rates = {0, 5e-324, 1e-300, 1e-30, 1e-7, 2, 1e30, 1e300}});
  EXPECT_EQ(Judge(spec), "");
  // naively NaN: e^{-2 * 1000} e^{2 * 999}
  ProblemSpec one;
  one.dim = one.value_dim = 1;
  one.query = one.key = one.value = {1};
  one.kind = Kind::kTicks;
  one.query_ticks = {1000};
  one.key_ticks = {999};
  one.encoding = Of(DecayBlock{.rates = {2}});
  EXPECT_NEAR(RunSpec(one).scores[0], 0.1353352832, 1e-7);
}

// One channel, or few: no other rounding makes up for that of a decay.
TEST(Decays, OfFewChannelsKeepTheContractOfScores) {
  for (int64_t dim : {1, 2, 64}) {
    ProblemSpec spec = Sequence(100, dim, 0);
    spec.causal = true;
    spec.ratio = {.tick_ns = 1, .unit_ns = 1000};
    Random random(dim);
    int64_t t = 0;
    for (int64_t i = 0; i < 100; ++i) {
      spec.query_ticks[i] = spec.key_ticks[i] = t += random.Integer(0, 300);
    }
    for (auto* values : {&spec.query, &spec.key}) {
      for (float& v : *values) {
        v = static_cast<float>(std::sqrt(7.9 / static_cast<double>(dim)) *
                               (1 - 0.05 * random.Uniform()));
      }
    }
    DecayBlock decay;
    for (int64_t c = 0; c < dim; ++c) {
      decay.rates.push_back(std::pow(10, 2 * random.Uniform() - 1.5));
    }
    spec.encoding = Of(decay);
    EXPECT_EQ(Judge(spec), "");
  }
}

// Positions beyond 36 000, where powers of zeta pass f32; a centre that moves
// with the length and makes what was kept wrong.
TEST(XPos, HasNeitherACentreNorALargestPosition) {
  ProblemSpec spec = Sequence(100, 64, 5'000'000);
  spec.causal = true;
  spec.encoding = *XPos({}, 64);
  EXPECT_EQ(Judge(spec), "");
  const Answer here = RunSpec(spec, {.output = true, .lse = true});
  // The first half alone.
  ProblemSpec half = Sequence(50, 64, 0);
  half.causal = true;
  half.encoding = spec.encoding;
  half.query.assign(spec.query.begin(), spec.query.begin() + 50 * 64);
  half.key.assign(spec.key.begin(), spec.key.begin() + 50 * 64);
  half.value.assign(spec.value.begin(), spec.value.begin() + 50 * 3);
  const Answer alone = RunSpec(half, {.output = true, .lse = true});
  for (int i = 0; i < 50; ++i) {
    EXPECT_NEAR(alone.lse[i], here.lse[i],
                2 * kScoreError * std::max(1.0f, std::abs(here.lse[i])));
  }
}

// ---- pieces of a sequence on several axes -----------------------------------

// Positions of later pieces that start from 0 again, sections dealt to the
// wrong axis: queries in pieces, with the places they have.
TEST(SeveralAxes, PiecesHaveThePlacesOfTheWhole) {
  for (auto order :
       {AxisSections::Order::kContiguous, AxisSections::Order::kInterleaved}) {
    constexpr int64_t kRows = 60;
    Random random(9);
    ProblemSpec whole;
    whole.queries = whole.keys = kRows;
    whole.dim = 12;
    whole.value_dim = 3;
    whole.Fill(random);
    whole.kind = Kind::kTicks;
    whole.coordinates = 3;
    for (int64_t i = 0; i < kRows; ++i) {
      // An image of 6 columns behind 12 words.
      const bool word = i < 12;
      whole.query_ticks.insert(whole.query_ticks.end(),
                               {word ? i : 12, word ? i : 12 + (i - 12) / 6,
                                word ? i : 12 + (i - 12) % 6});
    }
    whole.key_ticks = whole.query_ticks;
    whole.encoding =
        Of(RotaryBlock{.axes = {.sections = {2, 2, 2}, .order = order}});
    ASSERT_EQ(Judge(whole), "");
    const Answer all = RunSpec(whole);
    for (int64_t first : {0, 20, 40}) {
      ProblemSpec piece = whole;
      piece.queries = 20;
      piece.query.assign(whole.query.begin() + first * 12,
                         whole.query.begin() + (first + 20) * 12);
      piece.query_ticks.assign(whole.query_ticks.begin() + first * 3,
                               whole.query_ticks.begin() + (first + 20) * 3);
      const Answer part = RunSpec(piece);
      for (int64_t e = 0; e < 20 * kRows; ++e) {
        ASSERT_NEAR(part.scores[e], all.scores[first * kRows + e], 8e-6);
      }
    }
    // Places alike on all axes are one axis.
    for (int64_t i = 0; i < kRows * 3; ++i) {
      whole.query_ticks[i] = whole.key_ticks[i] = i / 3;
    }
    ProblemSpec one = whole;
    one.coordinates = 1;
    one.query_ticks.resize(kRows);
    std::iota(one.query_ticks.begin(), one.query_ticks.end(), 0);
    one.key_ticks = one.query_ticks;
    one.encoding = Of(RotaryBlock{});
    EXPECT_EQ(CompareBits(RunSpec(one), RunSpec(whole)), "");
  }
}

}  // namespace
}  // namespace attnd::testing
