// The linear kind over what a request may look like: element types, heads,
// packed sequences, spans, processors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "kernels/linear.h"
#include "tests/kernels/each_target.h"
#include "tests/kernels/linear_answer.h"

namespace attnd::testing {
namespace {

using Options = LinearOptions;
constexpr int64_t kSecond = 1'000'000'000;

// What goes out in 16 bits is the f32 answer rounded once.
TEST(LinearShapes, SixteenBitOutputsAreTheFloatsRounded) {
  for (const bool bidirectional : {false, true}) {
    ProblemSpec spec = LinearSpec(FamilyNamed("damped"), 31, 90, 90);
    spec.encoding->absolute_lag = bidirectional;
    const Options options{.normaliser = Options::Normaliser::kSum,
                          .feature_map = Options::FeatureMap::kSoftplus,
                          .bidirectional = bidirectional};
    const auto floats = RunLinearCase({spec, options});
    ASSERT_TRUE(floats.ok()) << floats.status();
    spec.output_dtype = DType::kBF16;
    const auto bf16 = RunLinearCase({spec, options});
    spec.output_dtype = DType::kF16;
    const auto f16 = RunLinearCase({spec, options});
    ASSERT_TRUE(bf16.ok() && f16.ok());
    for (size_t i = 0; i < floats->output.size(); ++i) {
      ASSERT_EQ(ToBFloat16(bf16->output[i]), ToBFloat16(floats->output[i]));
      ASSERT_EQ(ToFloat16(f16->output[i]), ToFloat16(floats->output[i]));
    }
  }
}

// Every kv head has a clock of its own, or rates of its own.
TEST(LinearShapes, HeadsHaveTheirOwnClocksAndRates) {
  Random random(32);
  ProblemSpec spec = LinearSpec(FamilyNamed("clock decay"), 32, 100, 100);
  spec.kv_heads = 2;
  spec.query_heads = 4;
  spec.Fill(random);
  spec.query_clock.clear();
  for (int64_t g = 0; g < spec.kv_heads; ++g) {
    double at = 0;
    for (int64_t i = 0; i < spec.keys; ++i) {
      // A clock does not move between keys of one time.
      if (i > 0 && spec.key_ticks[i] > spec.key_ticks[i - 1]) {
        at += std::pow(10.0, (g + 1) * (2 * random.Uniform() - 1));
      }
      spec.query_clock.push_back(static_cast<float>(at));
    }
  }
  spec.key_clock = spec.query_clock;
  EXPECT_EQ(Judge({spec, {}}), "");
  EXPECT_EQ(Judge({spec, {.input_rule = Options::InputRule::kTrapezoid}}), "");

  spec = LinearSpec(FamilyNamed("nope"), 33, 100, 100);
  spec.kv_heads = 2;
  spec.query_heads = 4;
  spec.Fill(random);
  EncodingSpec retnet;
  retnet.per_head = {{DecayBlock{.rates = {0.001}}},
                     {DecayBlock{.rates = {20}}}};
  retnet.unit_ns = kSecond;
  spec.encoding = retnet;
  for (const auto normaliser :
       {Options::Normaliser::kNone, Options::Normaliser::kRetNet}) {
    EXPECT_EQ(Judge({spec, {.normaliser = normaliser}}), "");
  }
}

// Long after the last key nothing is left of it in a float, and less in a
// double: what is divided by that is still a number.
TEST(LinearShapes, LongAfterTheLastKeyThereIsStillANumber) {
  for (const double decays :
       {50.0, 87.0, 90.0, 103.0, 150.0, 376.0, 745.0, 800.0, 1e6}) {
    for (const auto normaliser :
         {Options::Normaliser::kNone, Options::Normaliser::kSum,
          Options::Normaliser::kRetNet}) {
      ProblemSpec spec = LinearSpec(FamilyNamed("nope"), 35, 3, 5);
      spec.encoding.emplace();
      spec.encoding->blocks = {DecayBlock{.rates = {1}}};
      spec.encoding->unit_ns = kSecond;
      spec.ratio = {.tick_ns = 1, .unit_ns = kSecond};
      const int64_t last =
          *std::max_element(spec.key_ticks.begin(), spec.key_ticks.end());
      for (int64_t& t : spec.query_ticks) {
        t = last + static_cast<int64_t>(decays * kSecond);
      }
      const LinearCase which{spec,
                             {.normaliser = normaliser,
                              .feature_map = Options::FeatureMap::kSoftplus}};
      const auto answer = RunLinearCase(which);
      ASSERT_TRUE(answer.ok()) << answer.status();
      const LinearReferenceAnswer reference = ReferenceOf(which);
      for (size_t e = 0; e < answer->output.size(); ++e) {
        EXPECT_TRUE(std::isfinite(answer->output[e])) << decays;
        EXPECT_NEAR(answer->output[e], reference.output[e], 1e-5) << decays;
      }
    }
  }
}

// Items that are packed one after the other know nothing of each other.
TEST(LinearShapes, PackedSequencesAreItems) {
  for (const char* name : {"damped", "jordan 3", "rope"}) {
    ProblemSpec spec = LinearSpec(FamilyNamed(name), 34, 150, 150);
    spec.query_offsets = spec.key_offsets = {0, 1, 1, 80, 150};
    EXPECT_EQ(Judge({spec, {}}), "") << name;
    const auto state = RunLinearCase({spec, {}}, nullptr, true);
    ASSERT_TRUE(state.ok()) << state.status();
    EXPECT_EQ(state->state.keys, (std::vector<int64_t>{1, 0, 79, 70}));
  }
}

TEST(LinearShapes, HeldKeysAreNormalised) {
  for (const auto rule :
       {Options::InputRule::kZeroOrderHold, Options::InputRule::kTrapezoid}) {
    for (const char* name : {"nope", "decay"}) {
      ProblemSpec spec = LinearSpec(FamilyNamed(name), 35, 70, 70);
      ShortenTimes(spec, 1000);
      EXPECT_EQ(Judge({spec,
                       {.normaliser = Options::Normaliser::kSum,
                        .feature_map = Options::FeatureMap::kEluPlusOne,
                        .input_rule = rule}}),
                "")
          << name;
    }
  }
}

// Many queries between the keys of one chunk: runs of all lengths beside every
// block of keys, for decays that may not grow over it.
TEST(LinearShapes, ManyQueriesStandWithinAChunk) {
  for (const char* name : {"decay", "jordan 3", "complex jordan 4", "dense"}) {
    for (const auto& [queries, keys] : std::vector<std::pair<int64_t, int64_t>>{
             {400, 64}, {400, 17}, {33, 64}, {400, 130}}) {
      if (kSanitized && queries * keys > 7000) continue;
      for (const bool strict : {false, true}) {
        ProblemSpec spec = LinearSpec(FamilyNamed(name), 36, queries, keys);
        spec.strict = strict;
        EXPECT_EQ(Judge({spec, {}}), "") << name;
      }
    }
  }
}

TEST(LinearShapes, ManyQueriesStandWithinAChunkOnBothSides) {
  for (const char* name : {"decay", "jordan 3", "dense"}) {
    ProblemSpec spec =
        LinearSpec(FamilyNamed(name), 39, kSanitized ? 90 : 300, 70);
    spec.encoding->absolute_lag = true;
    EXPECT_EQ(Judge({spec, {.bidirectional = true}}), "") << name;
  }
}

// Values of whole vectors, which are not copied where they lie in order and are
// finite.
TEST(LinearShapes, ValuesInPlaceAndCopiedGiveTheSame) {
  for (const int64_t kv_heads : {1, 2}) {
    for (const Layout layout : {Layout::kBHLD, Layout::kBLHD}) {
      Random random(40);
      ProblemSpec spec = LinearSpec(FamilyNamed("damped"), 40, 130, 130);
      spec.kv_heads = kv_heads;
      spec.value_dim = 32;
      spec.Fill(random);
      spec.SetLayouts(layout);
      EXPECT_EQ(Judge({spec, {}}), "");
      spec.value[70 * 32 + 3] = std::numeric_limits<float>::infinity();
      EXPECT_EQ(Judge({spec, {}}), "");
      std::swap(spec.key_ticks[10], spec.key_ticks[40]);
      EXPECT_EQ(Judge({spec, {}}), "");
      spec.value_dtype = DType::kBF16;
      spec.value.assign(spec.value.size(), 0.5f);
      EXPECT_EQ(Judge({spec, {}}), "");
    }
  }
}

// All times scaled so that a rate of 1 spans from 1e-6 to 1e6.
TEST(LinearShapes, EveryFamilyKeepsTheContractAtEverySpan) {
  for (const LinearFamily& family : LinearFamilies()) {
    if (family.clock) continue;
    for (double span = 1e-6; span <= 2e6; span *= kSanitized ? 1e3 : 10) {
      ProblemSpec spec = LinearSpec(family, 37, 100, 100);
      const int64_t first = spec.key_ticks.front();
      const auto whole = static_cast<double>(spec.key_ticks.back() - first);
      for (auto* ticks : {&spec.key_ticks, &spec.query_ticks}) {
        for (int64_t& t : *ticks) {
          t = first + std::llround(static_cast<double>(t - first) / whole *
                                   span * kSecond);
        }
      }
      EXPECT_EQ(Judge({spec, {}}), "") << family.name << " span " << span;
    }
  }
}

TEST(LinearShapes, EveryInstructionSetKeepsTheContract) {
  OnEachTarget([] {
    for (const char* name :
         {"decay", "damped", "jordan 3", "complex jordan 2", "dense"}) {
      for (const auto& [queries, keys] :
           std::vector<std::pair<int64_t, int64_t>>{{130, 130}, {150, 20}}) {
        if (kSanitized && queries == keys) continue;
        EXPECT_EQ(Judge({LinearSpec(FamilyNamed(name), 38, queries, keys), {}}),
                  "")
            << name;
      }
    }
  });
}

}  // namespace
}  // namespace attnd::testing
