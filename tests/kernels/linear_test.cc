// The linear kind against the reference: encodings, shapes, options, spans.
#include "kernels/linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/presets.h"
#include "tests/kernels/answer.h"
#include "tests/kernels/each_target.h"
#include "tests/kernels/linear_answer.h"

namespace attnd::testing {
namespace {

using ::testing::HasSubstr;
using Options = LinearOptions;
constexpr int64_t kSecond = 1'000'000'000;

EncodingSpec DecaySpec(std::vector<double> rates) {
  EncodingSpec spec;
  spec.blocks = {DecayBlock{.rates = std::move(rates)}};
  spec.unit_ns = kSecond;
  return spec;
}

std::vector<std::pair<int64_t, int64_t>> Shapes() {
  if (kSanitized) return {{70, 70}, {20, 30}};
  // Self-attention over chunk borders; few queries, many; one of each; none.
  return {{200, 200}, {64, 64}, {65, 65}, {5, 300},
          {300, 20},  {1, 1},   {7, 0},   {0, 9}};
}

TEST(Linear, EveryBoundedEncodingKeepsTheContract) {
  for (const LinearFamily& family : LinearFamilies()) {
    uint64_t seed = 1;
    for (const auto& [queries, keys] : Shapes()) {
      if (family.clock && queries * keys == 0) continue;
      EXPECT_EQ(Judge({LinearSpec(family, ++seed, queries, keys), {}}), "")
          << family.name;
    }
  }
}

// Queries before, between, at and after the keys, several in a gap.
TEST(Linear, QueriesMayStandAnywhere) {
  for (const char* name : {"decay", "damped", "jordan 3", "rope"}) {
    ProblemSpec spec = LinearSpec(FamilyNamed(name), 5, 8, 3);
    spec.key_ticks = {10 * kSecond, 20 * kSecond, 20 * kSecond};
    spec.query_ticks = {0,
                        10 * kSecond - 1,
                        10 * kSecond,
                        11 * kSecond,
                        12 * kSecond,
                        20 * kSecond,
                        21 * kSecond,
                        1000 * kSecond};
    EXPECT_EQ(Judge({spec, {}}), "") << name;
    spec.strict = true;
    EXPECT_EQ(Judge({spec, {}}), "") << name;
  }
}

// A state is multiplied by what has passed since; along a coordinate that goes
// to and fro it would have to grow back.
TEST(Linear, RefusesDecaysAlongCoordinatesThatNothingOrders) {
  ProblemSpec spec = LinearSpec(FamilyNamed("rope"), 6, 3, 3);
  spec.coordinates = 2;
  spec.query_ticks = spec.key_ticks = {0, 5, 1, 3, 2, 4};
  const Drive further{.coordinate = 1};
  for (const Block& block :
       {Block(DecayBlock{.rates = {0.1}}, further),
        Block(RealJordanBlock{.rates = {0.1}}, further),
        Block(DampedRotationBlock{
            .frequencies = {1}, .rates = {0.1}, .decay_drive = further}),
        Block(DenseMatrixBlock{.dim = 2, .matrix = {-1, 1, 0, -1}}, further)}) {
    spec.encoding->blocks = {block};
    for (const bool absolute_lag : {false, true}) {
      spec.encoding->absolute_lag = absolute_lag;
      EXPECT_THAT(RunLinearCase({spec, {}}).status().message(),
                  HasSubstr("coordinate"));
    }
  }
  // Turns are taken back.
  spec.encoding->blocks = {Block(RotaryBlock{}, further)};
  EXPECT_EQ(Judge({spec, {}}), "");
}

// As the softmax takes them: the size of the lag, where a state would grow.
TEST(Linear, RefusesClocksOfQueriesOnTheWrongSideOfKeysUnderTheTwoSidedRule) {
  ProblemSpec spec = LinearSpec(FamilyNamed("clock decay"), 6, 3, 3);
  spec.encoding->absolute_lag = true;
  spec.key_ticks = {0, 10, 20};
  spec.query_ticks = {5, 10, 25};
  spec.key_clock = {1, 2, 3};
  spec.query_clock = {1.5f, 2, 3.5f};
  LinearCase which{spec, {}};
  EXPECT_EQ(Judge(which), "");
  which.options.bidirectional = true;
  EXPECT_EQ(Judge(which), "");
  // Behind the key at its own time.
  which.spec.query_clock = {1.5f, 1.75f, 3.5f};
  for (const bool bidirectional : {false, true}) {
    which.options.bidirectional = bidirectional;
    EXPECT_THAT(RunLinearCase(which).status().message(),
                HasSubstr("query_clock"));
  }
  // Ahead of the key after it, which only a pass from the end sees.
  which.spec.query_clock = {2.5f, 2.5f, 3.5f};
  EXPECT_THAT(RunLinearCase(which).status().message(),
              HasSubstr("query_clock"));
  which.options.bidirectional = false;
  EXPECT_EQ(Judge(which), "");
}

TEST(Linear, OrderOfRowsDoesNotMatter) {
  const ProblemSpec spec = LinearSpec(FamilyNamed("damped"), 6, 90, 90);
  const std::vector<float> sorted = RunLinearCase({spec, {}})->output;
  ProblemSpec turned = spec;
  const auto reverse_rows = [](auto& values, int64_t outer, int64_t inner) {
    const auto from = values;
    const int64_t rows = static_cast<int64_t>(from.size()) / (outer * inner);
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t r = 0; r < rows; ++r) {
        std::copy_n(from.begin() + (o * rows + rows - 1 - r) * inner, inner,
                    values.begin() + (o * rows + r) * inner);
      }
    }
  };
  reverse_rows(turned.query, 2, 16);
  reverse_rows(turned.key, 1, 16);
  reverse_rows(turned.value, 1, 8);
  reverse_rows(turned.query_ticks, 1, 1);
  reverse_rows(turned.key_ticks, 1, 1);
  std::vector<float> output = RunLinearCase({turned, {}})->output;
  EXPECT_EQ(Compare({turned, {}}, output, ReferenceOf({turned, {}})), "");
  reverse_rows(output, 2, 8);
  EXPECT_EQ(Compare({spec, {}}, output, ReferenceOf({spec, {}})), "");
}

TEST(Linear, ShiftingAllTimesChangesNoBit) {
  for (const LinearFamily& family : LinearFamilies()) {
    ProblemSpec spec = LinearSpec(family, 4, 130, 130);
    const std::vector<float> before = RunLinearCase({spec, {}})->output;
    for (auto* ticks : {&spec.query_ticks, &spec.key_ticks}) {
      for (int64_t& t : *ticks) t -= 1'699'999'999'123'456'789;
    }
    EXPECT_EQ(before, RunLinearCase({spec, {}})->output) << family.name;
  }
}

// Rate times span from 1e-6 to 1e6, all channels alike so that nothing large
// hides what is small.
TEST(Linear, EverySpanKeepsTheContract) {
  for (double span = 1e-6; span <= 1e6; span *= 10) {
    for (const bool wide : {false, true}) {
      LinearFamily family{"decay", DecaySpec(std::vector<double>(16, 1.0))};
      ProblemSpec spec = LinearSpec(family, 7, 150, 150);
      const auto whole =
          static_cast<double>(spec.key_ticks.back() - spec.key_ticks[0]);
      if (!wide) {
        for (size_t i = 0; i < spec.key_ticks.size(); ++i) {
          spec.key_ticks[i] = spec.query_ticks[i] =
              spec.key_ticks[0] + static_cast<int64_t>(whole / 150 * i);
        }
      }
      const double rate = span / (whole / kSecond);
      spec.encoding = DecaySpec(std::vector<double>(16, rate));
      EXPECT_EQ(Judge({spec, {}}), "") << "span " << span << " wide " << wide;
    }
  }
}

TEST(Linear, OptionsKeepTheContract) {
  for (const auto map :
       {Options::FeatureMap::kIdentity, Options::FeatureMap::kEluPlusOne,
        Options::FeatureMap::kRelu, Options::FeatureMap::kSoftplus}) {
    for (const auto normaliser :
         {Options::Normaliser::kNone, Options::Normaliser::kSum}) {
      const Options options{.normaliser = normaliser, .feature_map = map};
      for (const char* name : {"nope", "decay", "rope", "jordan 3"}) {
        EXPECT_EQ(Judge({LinearSpec(FamilyNamed(name), 8, 140, 140), options}),
                  "")
            << name << " map " << static_cast<int>(map) << " normaliser "
            << static_cast<int>(normaliser);
      }
    }
  }
}

TEST(Linear, RetNetDividesByDecaysAndSums) {
  for (const char* name : {"nope", "rope"}) {
    EXPECT_EQ(Judge({LinearSpec(FamilyNamed(name), 9, 140, 140),
                     {.normaliser = Options::Normaliser::kRetNet}}),
              "")
        << name;
  }
  ProblemSpec spec = LinearSpec(FamilyNamed("nope"), 9, 140, 140);
  spec.encoding = RetNet({}, 16, 1).value();
  spec.encoding->unit_ns = kSecond;
  for (const float scale : {0.01f, 3.0f}) {
    spec.scale = scale;
    EXPECT_EQ(Judge({spec, {.normaliser = Options::Normaliser::kRetNet}}), "");
  }
  EXPECT_EQ(RunLinearCase({LinearSpec(FamilyNamed("decay"), 9, 9, 9),
                           {.normaliser = Options::Normaliser::kRetNet}})
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

// The same workspace serves them; what the first brought is gone by then, as
// AddressSanitizer knows.
TEST(Linear, NoProblemLooksAtTheOneBeforeIt) {
  ProblemSpec before = LinearSpec(FamilyNamed("nope"), 9, 140, 140);
  before.encoding = RetNet({}, 16, 1).value();
  before.encoding->unit_ns = kSecond;
  for (const char* name : {"nope", "rope", "damped"}) {
    EXPECT_EQ(Judge({before, {.normaliser = Options::Normaliser::kRetNet}}),
              "");
    ProblemSpec spec = LinearSpec(FamilyNamed(name), 9, 140, 140);
    if (spec.encoding) spec.encoding->absolute_lag = true;
    EXPECT_EQ(Judge({spec, {.bidirectional = true}}), "") << name;
  }
}

TEST(Linear, HeldKeysAreIntegrals) {
  for (const auto rule :
       {Options::InputRule::kZeroOrderHold, Options::InputRule::kTrapezoid}) {
    for (const LinearFamily& family : LinearFamilies()) {
      for (const auto& [queries, keys] :
           std::vector<std::pair<int64_t, int64_t>>{{36, 36}, {20, 11}}) {
        ProblemSpec spec = LinearSpec(family, 10, queries, keys);
        // Gaps that the oracle integrates in reasonable time.
        ShortenTimes(spec, 1000);
        EXPECT_EQ(Judge({spec, {.input_rule = rule}}), "")
            << family.name << " rule " << static_cast<int>(rule);
      }
    }
  }
}

TEST(Linear, BidirectionalTakesTheTwoSidedRule) {
  for (const LinearFamily& family : LinearFamilies()) {
    for (const bool strict : {false, true}) {
      for (const auto& [queries, keys] :
           std::vector<std::pair<int64_t, int64_t>>{{90, 90}, {20, 70}}) {
        ProblemSpec spec = LinearSpec(family, 11, queries, keys);
        if (spec.encoding) spec.encoding->absolute_lag = true;
        spec.strict = strict;
        EXPECT_EQ(Judge({spec, {.bidirectional = true}}), "") << family.name;
        EXPECT_EQ(Judge({spec,
                         {.normaliser = Options::Normaliser::kSum,
                          .feature_map = Options::FeatureMap::kSoftplus,
                          .bidirectional = true}}),
                  "")
            << family.name;
      }
    }
  }
}

TEST(Linear, BidirectionalDecayNeedsTheTwoSidedRule) {
  const auto answer = RunLinearCase(
      {LinearSpec(FamilyNamed("decay"), 12, 9, 9), {.bidirectional = true}});
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(answer.status().message()), HasSubstr("two_sided"));
}

TEST(Linear, LengthsValidityLayoutsAndGroups) {
  Random random(13);
  for (int round = 0; round < 12; ++round) {
    ProblemSpec spec = LinearSpec(FamilyNamed("damped"), 100 + round, 80, 100);
    spec.batch = 3;
    spec.kv_heads = 2;
    spec.query_heads = 4;
    spec.dim = random.Integer(16, 40);
    spec.value_dim = random.Integer(1, 20);
    spec.Fill(random);
    if (random.Coin()) spec.SetLayouts(Layout::kBLHD);
    spec.dtype = random.Pick<DType>({DType::kF32, DType::kBF16, DType::kF16});
    if (spec.dtype != DType::kF32) {
      // The oracle reads what the tensor holds.
      spec.scale = 1;
    }
    if (random.Coin()) spec.query_lengths = {80, 0, 33};
    if (random.Coin()) spec.key_lengths = {100, 7, 0};
    if (random.Coin()) {
      for (int i = 0; i < 300; ++i) {
        spec.key_validity.push_back(static_cast<char>(random.Integer(0, 2)));
      }
    }
    EXPECT_EQ(Judge({spec, {}}), "");
  }
}

TEST(Linear, PositionsAndRealTimesServeAsWell) {
  for (const LinearFamily& family : LinearFamilies()) {
    if (family.clock) continue;
    ProblemSpec spec = LinearSpec(family, 14, 100, 100);
    spec.kind = TimeAxis::Kind::kPositions;
    spec.query_ticks.clear();
    spec.key_ticks.clear();
    if (spec.encoding) spec.encoding->unit_ns = 0;
    spec.ratio = {};
    EXPECT_EQ(Judge({spec, {}}), "") << family.name;

    spec = LinearSpec(family, 15, 100, 100);
    spec.kind = TimeAxis::Kind::kReal;
    for (int64_t t : spec.key_ticks) {
      spec.key_real.push_back(1e-9 * static_cast<double>(t));
    }
    spec.query_real = spec.key_real;
    spec.ratio = {.tick_ns = kSecond, .unit_ns = kSecond};
    EXPECT_EQ(Judge({spec, {}}), "") << family.name;
  }
}

// NaN and infinities reach exactly the rows that see them; V in its channel.
TEST(Linear, WhatIsNotFiniteStaysWithThoseWhoSeeIt) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  for (const char* name : {"nope", "decay", "damped", "defective"}) {
    for (const int64_t at : {3, 64}) {
      const float bad = at == 3 ? nan : inf;
      ProblemSpec spec = LinearSpec(FamilyNamed(name), 16, 100, 100);
      spec.value[at * 8 + 2] = bad;
      EXPECT_EQ(Judge({spec, {}}), "") << name;
      spec = LinearSpec(FamilyNamed(name), 16, 100, 100);
      spec.key[at * 16 + 5] = bad;
      EXPECT_EQ(Judge({spec, {}}), "") << name;
      spec = LinearSpec(FamilyNamed(name), 16, 100, 100);
      spec.query[at * 16 + 5] = bad;
      EXPECT_EQ(Judge({spec, {}}), "") << name;
      // A row that sees nothing answers 0 whatever it holds.
      spec.query_ticks[at] = 0;
      EXPECT_EQ(Judge({spec, {}}), "") << name;
    }
  }
}

TEST(Linear, EveryInstructionSetKeepsTheContract) {
  OnEachTarget([] {
    for (const char* name : {"decay", "complex jordan 4", "a sum"}) {
      EXPECT_EQ(Judge({LinearSpec(FamilyNamed(name), 19, 90, 90),
                       {.feature_map = Options::FeatureMap::kSoftplus}}),
                "")
          << name;
    }
  });
}

// Rule N12: softmax(qk - mD) weighs by e^(qk) e^(-mD), which is a decay of rate
// m over the feature e^k.
TEST(Linear, DecayIsWhatAlibiIsInASoftmax) {
  Random random(17);
  const int64_t count = 150;
  ProblemSpec spec;
  spec.queries = spec.keys = count;
  spec.dim = 1;
  spec.value_dim = 8;
  spec.Fill(random);
  spec.query.assign(count, 1);
  spec.kind = TimeAxis::Kind::kTicks;
  spec.key_ticks = spec.query_ticks = IrregularTimes(random, count);
  spec.ratio = {.tick_ns = 1, .unit_ns = kSecond};
  spec.causal = true;
  EncodingSpec alibi;
  alibi.biases = {AlibiTerm{.slopes = {0.03}}};
  alibi.unit_ns = kSecond;
  spec.encoding = alibi;
  const Answer softmax = RunSpec(spec);

  spec.encoding = DecaySpec({0.03});
  for (float& k : spec.key) k = std::exp(k);
  const LinearCase plain{spec, {}};
  const LinearCase divided{spec, {.normaliser = Options::Normaliser::kSum}};
  const std::vector<float> sums = RunLinearCase(plain)->output;
  const std::vector<float> means = RunLinearCase(divided)->output;
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t c = 0; c < 8; ++c) {
      const double mass = std::exp(static_cast<double>(softmax.lse[i]));
      const double mean = softmax.output[i * 8 + c];
      EXPECT_NEAR(means[i * 8 + c], mean, 2e-5);
      EXPECT_NEAR(sums[i * 8 + c], mean * mass, 2e-5 * mass);
    }
  }
}

TEST(Linear, RefusesWhatHasNoMeaning) {
  const auto refused = [](const LinearCase& which) {
    return std::string(RunLinearCase(which).status().message());
  };
  LinearCase which{LinearSpec(FamilyNamed("nope"), 18, 9, 9), {}};
  which.spec.past_ticks = 5;
  EXPECT_THAT(refused(which), HasSubstr("window"));
  which.spec.past_ticks.reset();
  which.spec.bias_shape = {1, 1, 1, 9};
  which.spec.bias.assign(9, 0);
  EXPECT_THAT(refused(which), HasSubstr("bias"));
  which = {LinearSpec(FamilyNamed("nope"), 18, 9, 9), {}};
  EncodingSpec alibi;
  alibi.biases = {AlibiTerm{}};
  alibi.unit_ns = kSecond;
  which.spec.encoding = alibi;
  EXPECT_THAT(refused(which), HasSubstr("biases"));
  EncodingSpec growing;
  growing.blocks = {RealJordanBlock{.size = 2, .rates = {0}}};
  growing.unit_ns = kSecond;
  which.spec.encoding = growing;
  EXPECT_THAT(refused(which), HasSubstr("grows without bound"));
  EncodingSpec averaged;
  averaged.blocks = {Block(DecayBlock{.rates = {1}}, {}, true)};
  averaged.unit_ns = kSecond;
  which.spec.encoding = averaged;
  EXPECT_THAT(refused(which), HasSubstr("averaged"));
}

}  // namespace
}  // namespace attnd::testing
