// Hugging Face blocks, verbatim: every type, what defaults mean, what is
// refused.
#include "kernels/hugging_face.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/generator.h"

namespace attnd {
namespace {

using ::testing::HasSubstr;

RotaryBlock Convert(const HuggingFaceRope& rope) {
  const auto block = RotaryFromHuggingFace(rope, "rope");
  EXPECT_TRUE(block.ok()) << block.status();
  return block.ok() ? *block : RotaryBlock{};
}

std::string Refusal(const HuggingFaceRope& rope) {
  const auto block = RotaryFromHuggingFace(rope, "rope");
  EXPECT_FALSE(block.ok());
  EXPECT_EQ(block.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(block.status().message());
}

template <typename Scaling>
Scaling Get(const HuggingFaceRope& rope) {
  const RotaryBlock block = Convert(rope);
  const auto* scaling = std::get_if<Scaling>(&block.scaling);
  EXPECT_NE(scaling, nullptr);
  return scaling == nullptr ? Scaling{} : *scaling;
}

double Amplitude(const HuggingFaceRope& rope, int dim = 4) {
  const auto generator = Generator::Make({Convert(rope)}, dim);
  EXPECT_TRUE(generator.ok()) << generator.status();
  return generator->channel_scale().empty() ? 1 : generator->channel_scale()[0];
}

TEST(HuggingFace, DefaultIsRopeHalfSplit) {
  const RotaryBlock block = Convert({});
  EXPECT_EQ(block.base, 10000);
  EXPECT_EQ(block.layout, PairLayout::kHalfSplit);
  EXPECT_EQ(block.scaling.index(), 0u);
  EXPECT_EQ(Convert({.rope_type = "default", .rope_theta = 5e5}).base, 5e5);
}

TEST(HuggingFace, LegacyTypeIsRopeType) {
  EXPECT_EQ(Get<LinearScaling>({.type = "linear", .factor = 2}).factor, 2);
  EXPECT_EQ(
      Get<LinearScaling>({.rope_type = "linear", .type = "linear", .factor = 2})
          .factor,
      2);
  EXPECT_THAT(Refusal({.rope_type = "linear", .type = "yarn", .factor = 2}),
              HasSubstr("rope.type: yarn, expected the same as rope_type"));
}

TEST(HuggingFace, UnknownTypesAreRefusedWithTheKnownOnes) {
  EXPECT_THAT(Refusal({.rope_type = "yarm"}),
              HasSubstr("rope.rope_type: \"yarm\", expected one of default, "
                        "linear, dynamic, yarn, longrope, llama3, "
                        "proportional, su, mrope"));
  EXPECT_THAT(Refusal({.type = "ntk"}), HasSubstr("rope.type: \"ntk\""));
}

TEST(HuggingFace, DynamicReadsMaxPositionEmbeddings) {
  const auto dynamic = Get<DynamicNtkScaling>(
      {.rope_type = "dynamic", .factor = 2, .max_position_embeddings = 2048});
  EXPECT_EQ(dynamic.factor, 2);
  EXPECT_EQ(dynamic.original_length, 2048);
  EXPECT_THAT(Refusal({.rope_type = "dynamic", .factor = 2}),
              HasSubstr("rope.max_position_embeddings: missing"));
  EXPECT_THAT(Refusal({.rope_type = "dynamic",
                       .factor = 2,
                       .original_max_position_embeddings = 1024,
                       .max_position_embeddings = 2048}),
              HasSubstr("rope.original_max_position_embeddings: 1024"));
}

TEST(HuggingFace, YarnDefaults) {
  const auto yarn =
      Get<YarnScaling>({.rope_type = "yarn",
                        .factor = 4,
                        .original_max_position_embeddings = 4096});
  EXPECT_EQ(yarn.factor, 4);
  EXPECT_EQ(yarn.original_length, 4096);
  EXPECT_EQ(yarn.beta_fast, 32);
  EXPECT_EQ(yarn.beta_slow, 1);
  EXPECT_TRUE(yarn.truncate);
  EXPECT_FALSE(yarn.paper_ramp);
}

TEST(HuggingFace, YarnFactorComesFromTheLengthsOnlyWhenAbsent) {
  HuggingFaceRope rope{.rope_type = "yarn",
                       .original_max_position_embeddings = 4096,
                       .max_position_embeddings = 131072};
  EXPECT_EQ(Get<YarnScaling>(rope).factor, 32);
  rope.factor = 8;
  EXPECT_EQ(Get<YarnScaling>(rope).factor, 8);
  rope.original_max_position_embeddings.reset();
  EXPECT_EQ(Get<YarnScaling>(rope).original_length, 131072);
  rope.factor.reset();
  EXPECT_THAT(Refusal(rope), HasSubstr("rope.factor: missing"));
}

TEST(HuggingFace, YarnAmplitudePrecedence) {
  HuggingFaceRope rope{.rope_type = "yarn",
                       .factor = 40,
                       .original_max_position_embeddings = 4096};
  const auto m = [](double k) { return 0.1 * k * std::log(40) + 1; };
  EXPECT_DOUBLE_EQ(Amplitude(rope), m(1));
  rope.mscale = 0.707;
  EXPECT_DOUBLE_EQ(Amplitude(rope), m(1));
  rope.mscale_all_dim = 0;
  EXPECT_DOUBLE_EQ(Amplitude(rope), m(1));
  rope.mscale_all_dim = 1.25;
  EXPECT_DOUBLE_EQ(Amplitude(rope), m(0.707) / m(1.25));
  // DeepSeek: equal ones leave no amplitude.
  rope.mscale_all_dim = 0.707;
  EXPECT_DOUBLE_EQ(Amplitude(rope), 1);
  rope.attention_factor = 1.5;
  EXPECT_DOUBLE_EQ(Amplitude(rope), 1.5);
}

TEST(HuggingFace, YarnWithoutTruncation) {
  EXPECT_FALSE(Get<YarnScaling>({.rope_type = "yarn",
                                 .factor = 32,
                                 .original_max_position_embeddings = 4096,
                                 .beta_fast = 32,
                                 .beta_slow = 1,
                                 .truncate = false})
                   .truncate);
}

TEST(HuggingFace, LongRope) {
  HuggingFaceRope rope{.rope_type = "longrope",
                       .original_max_position_embeddings = 4096,
                       .max_position_embeddings = 131072,
                       .short_factor = {1, 2},
                       .long_factor = {3, 4}};
  EXPECT_DOUBLE_EQ(Amplitude(rope), 1.1902380714238083);
  rope.attention_factor = 1.25;
  EXPECT_DOUBLE_EQ(Amplitude(rope), 1.25);
  rope.rope_type = "";
  rope.type = "su";
  EXPECT_EQ(Get<LongRopeScaling>(rope).original_length, 4096);
  rope.attention_factor.reset();
  rope.max_position_embeddings.reset();
  EXPECT_THAT(Refusal(rope), HasSubstr("rope.factor: missing"));
  // In the words of the block, not of what it becomes.
  rope.factor = 32;
  rope.long_factor = {3};
  EXPECT_THAT(Refusal(rope), HasSubstr("rope.long_factor: 1 entries, expected "
                                       "2 (as many as short_factor)"));
  rope.long_factor = {};
  EXPECT_THAT(Refusal(rope), HasSubstr("rope.long_factor: missing"));
  rope.long_factor = {3, 0};
  EXPECT_THAT(Refusal(rope), HasSubstr("rope.long_factor[1]: 0"));
}

TEST(HuggingFace, Llama3NeedsAllOfItsKeys) {
  const HuggingFaceRope rope{.rope_type = "llama3",
                             .factor = 32,
                             .original_max_position_embeddings = 8192,
                             .low_freq_factor = 1,
                             .high_freq_factor = 4};
  EXPECT_EQ(Get<Llama3Scaling>(rope).factor, 32);
  HuggingFaceRope missing = rope;
  missing.factor.reset();
  EXPECT_THAT(Refusal(missing), HasSubstr("rope.factor: missing"));
  missing = rope;
  missing.high_freq_factor.reset();
  EXPECT_THAT(Refusal(missing), HasSubstr("rope.high_freq_factor: missing"));
  missing = rope;
  missing.original_max_position_embeddings.reset();
  EXPECT_THAT(Refusal(missing),
              HasSubstr("rope.original_max_position_embeddings: missing"));
}

// Llama 4 Scout: the interpolation becomes a step.
TEST(HuggingFace, Llama3WithEqualBordersIsAStep) {
  const RotaryBlock block = Convert({.rope_type = "llama3",
                                     .factor = 16,
                                     .original_max_position_embeddings = 8192,
                                     .low_freq_factor = 1,
                                     .high_freq_factor = 1});
  const auto generator = Generator::Make({block}, 128);
  ASSERT_TRUE(generator.ok()) << generator.status();
  int kept = 0;
  for (int j = 0; j < 64; ++j) {
    const double plain = std::pow(10000, -2.0 * j / 128);
    const bool keeps = 2 * M_PI / plain < 8192;
    EXPECT_NEAR(generator->planes()[j].omega, keeps ? plain : plain / 16,
                1e-15 * plain)
        << j;
    kept += keeps ? 1 : 0;
  }
  EXPECT_GT(kept, 0);
  EXPECT_LT(kept, 64);
}

// Phi-3.5-MoE: amplitudes by the item's length, in place of the usual one.
TEST(HuggingFace, LongRopeAmplitudesByLength) {
  HuggingFaceRope rope{.rope_type = "longrope",
                       .original_max_position_embeddings = 4096,
                       .short_factor = {1, 2},
                       .long_factor = {3, 4},
                       .long_mscale = 1.243163121016122,
                       .short_mscale = 1.243163121016122};
  EXPECT_DOUBLE_EQ(Amplitude(rope), 1.243163121016122);
  rope.attention_factor = 1.5;
  EXPECT_THAT(Refusal(rope), HasSubstr("rope.attention_factor: given"));
  rope.attention_factor.reset();
  rope.short_mscale = 1;
  EXPECT_THAT(Refusal(rope),
              HasSubstr("rope.long_mscale: 1.24316, expected short_mscale, 1: "
                        "one amplitude for all lengths; write two encodings"));
  rope.short_mscale.reset();
  EXPECT_THAT(Refusal(rope), HasSubstr("rope.short_mscale: missing"));
}

// Ministral 3 writes a query temperature into its rope.
TEST(HuggingFace, Llama4ScalingBetaIsAQueryTemperature) {
  HuggingFaceRope rope{.rope_theta = 1e6,
                       .original_max_position_embeddings = 16384,
                       .llama_4_scaling_beta = 0.1};
  Convert(rope);
  auto temperature = TemperatureFromHuggingFace(rope, "rope");
  ASSERT_TRUE(temperature.ok() && temperature->has_value());
  EXPECT_TRUE((*temperature)->llama4);
  EXPECT_EQ((*temperature)->scale, 0.1);
  EXPECT_EQ((*temperature)->length, 16384);
  EXPECT_EQ((*temperature)->offset, 0);
  rope.llama_4_scaling_beta = 0;
  temperature = TemperatureFromHuggingFace(rope, "rope");
  EXPECT_TRUE(temperature.ok() && !temperature->has_value());
  rope = {.llama_4_scaling_beta = 0.1};
  EXPECT_THAT(TemperatureFromHuggingFace(rope, "rope").status().message(),
              HasSubstr("rope.original_max_position_embeddings: missing"));
}

TEST(HuggingFace, PartialRotaryFactorMeansTwoThings) {
  const auto partial =
      Generator::Make({Convert({.partial_rotary_factor = 0.5})}, 16);
  ASSERT_TRUE(partial.ok()) << partial.status();
  ASSERT_EQ(partial->planes().size(), 4u);
  EXPECT_EQ(partial->planes()[0].second, 4);
  EXPECT_DOUBLE_EQ(partial->planes()[1].omega, std::pow(10000, -0.25));
  const auto proportional = Generator::Make(
      {Convert({.rope_type = "proportional", .partial_rotary_factor = 0.5})},
      16);
  ASSERT_TRUE(proportional.ok()) << proportional.status();
  ASSERT_EQ(proportional->planes().size(), 8u);
  EXPECT_EQ(proportional->planes()[0].second, 8);
  EXPECT_DOUBLE_EQ(proportional->planes()[1].omega, std::pow(10000, -0.125));
  EXPECT_EQ(proportional->planes()[4].omega, 0);
}

TEST(HuggingFace, MropeSections) {
  const RotaryBlock contiguous =
      Convert({.type = "mrope", .mrope_section = {16, 24, 24}});
  EXPECT_EQ(contiguous.axes.order, AxisSections::Order::kContiguous);
  EXPECT_EQ(contiguous.axes.sections, (std::vector<int>{16, 24, 24}));
  EXPECT_EQ(Convert({.rope_type = "default",
                     .mrope_section = {24, 20, 20},
                     .mrope_interleaved = true})
                .axes.order,
            AxisSections::Order::kInterleaved);
  EXPECT_THAT(Refusal({.type = "mrope"}), HasSubstr("rope.mrope_section"));
  EXPECT_THAT(Refusal({.mrope_interleaved = true}),
              HasSubstr("rope.mrope_section"));
}

// Qwen3-TTS and Qwen3-ASR read `interleaved`, Qwen3-VL `mrope_interleaved`;
// Qwen3-Omni carries both.
TEST(HuggingFace, InterleavedIsMropeInterleaved) {
  using Order = AxisSections::Order;
  HuggingFaceRope rope{.mrope_section = {24, 20, 20}, .interleaved = true};
  EXPECT_EQ(Convert(rope).axes.order, Order::kInterleaved);
  rope.mrope_interleaved = true;
  EXPECT_EQ(Convert(rope).axes.order, Order::kInterleaved);
  rope.mrope_interleaved = false;
  EXPECT_THAT(Refusal(rope),
              HasSubstr("rope.interleaved: true, expected the same as "
                        "mrope_interleaved, false"));
  rope.interleaved = false;
  EXPECT_EQ(Convert(rope).axes.order, Order::kContiguous);
  EXPECT_THAT(Refusal({.interleaved = true}),
              HasSubstr("rope.mrope_section: missing"));
}

// Not one after the other, each after another start.
TEST(HuggingFace, EverythingThatIsMissingIsNamedAtOnce) {
  const std::string phi = Refusal(
      {.type = "longrope", .short_factor = {1, 1}, .long_factor = {2, 4}});
  EXPECT_THAT(phi, HasSubstr("rope.original_max_position_embeddings: missing"));
  EXPECT_THAT(phi, HasSubstr("; also factor: "));
  const std::string bare = Refusal({.type = "longrope"});
  EXPECT_THAT(bare, HasSubstr("rope.short_factor: missing"));
  for (const char* key :
       {"long_factor", "original_max_position_embeddings", "factor"}) {
    EXPECT_THAT(bare, HasSubstr(absl::StrCat("; also ", key, ": ")));
  }
  const std::string yarn = Refusal({.type = "yarn"});
  EXPECT_THAT(yarn, HasSubstr("original_max_position_embeddings: missing"));
  EXPECT_THAT(yarn, HasSubstr("; also factor: "));
  const std::string dynamic = Refusal({.type = "dynamic"});
  EXPECT_THAT(dynamic, HasSubstr("rope.factor: missing"));
  EXPECT_THAT(dynamic, HasSubstr("; also max_position_embeddings: "));
  const std::string llama = Refusal({.type = "llama3"});
  EXPECT_THAT(llama, HasSubstr("rope.factor: missing"));
  for (const char* key : {"low_freq_factor", "high_freq_factor",
                          "original_max_position_embeddings"}) {
    EXPECT_THAT(llama, HasSubstr(absl::StrCat("; also ", key, ": ")));
  }
}

TEST(HuggingFace, KeysThatTheTypeWouldIgnoreAreRefused) {
  EXPECT_THAT(Refusal({.factor = 4}),
              HasSubstr("rope.rope_type: missing, expected one of default, "));
  EXPECT_THAT(Refusal({.rope_type = "linear", .factor = 4, .beta_fast = 32}),
              HasSubstr("rope.beta_fast: given, expected only what rope_type "
                        "\"linear\" reads: factor"));
  EXPECT_THAT(Refusal({.rope_type = "linear", .factor = 4, .mscale = 1}),
              HasSubstr("rope.mscale"));
  EXPECT_THAT(
      Refusal({.rope_type = "llama3", .factor = 4, .attention_factor = 2}),
      HasSubstr("rope.attention_factor"));
}

TEST(HuggingFace, NumbersOutOfRangeAreRefused) {
  EXPECT_THAT(Refusal({.rope_theta = -1}), HasSubstr("rope.rope_theta: -1"));
  EXPECT_THAT(Refusal({.rope_type = "linear", .factor = 0}),
              HasSubstr("rope.factor: 0"));
  EXPECT_THAT(Refusal({.partial_rotary_factor = 1.5}),
              HasSubstr("rope.partial_rotary_factor: 1.5"));
  EXPECT_THAT(Refusal({.rope_type = "yarn",
                       .factor = 4,
                       .original_max_position_embeddings = 4096,
                       .beta_fast = 0}),
              HasSubstr("rope.beta_fast: 0"));
  EXPECT_THAT(Refusal({.rope_type = "yarn",
                       .factor = 4,
                       .original_max_position_embeddings = 4096,
                       .mscale = -5,
                       .mscale_all_dim = 1}),
              HasSubstr("rope.mscale: -5"));
}

}  // namespace
}  // namespace attnd
