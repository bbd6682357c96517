// Every refusal names its field, what it holds and what was expected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <climits>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "kernels/encoding_spec.h"
#include "kernels/generator.h"

namespace attnd {
namespace {

using ::testing::StartsWith;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Bad {
  std::string message;  // how it starts
  Block block;
};

RotaryBlock Scaled(RotaryScaling scaling, int rotary_dim = 0) {
  return {.rotary_dim = rotary_dim, .scaling = std::move(scaling)};
}

std::vector<Bad> BadRotaryBlocks() {
  return {
      {"rotary.base: 0, expected finite and > 0", RotaryBlock{.base = 0}},
      {"rotary.rotary_dim: 3, expected even", RotaryBlock{.rotary_dim = 3}},
      {"rotary.rotary_fraction: 1.5, expected in (0, 1]",
       RotaryBlock{.rotary_fraction = 1.5}},
      {"rotary.rotary_fraction: 0.5, expected 1 where",
       RotaryBlock{.rotary_dim = 4, .rotary_fraction = 0.5}},
      {"rotary.linear.factor: 0", Scaled(LinearScaling{.factor = 0})},
      {"rotary.linear.factor: nan", Scaled(LinearScaling{.factor = kNaN})},
      {"rotary.ntk.factor: 0.5, expected finite and >= 1",
       Scaled(NtkScaling{.factor = 0.5})},
      {"rotary.ntk: rotary_dim 2", Scaled(NtkScaling{.factor = 2}, 2)},
      {"rotary.dynamic_ntk.original_length: 0",
       Scaled(DynamicNtkScaling{.factor = 2})},
      {"rotary.dynamic_ntk: rotary_dim 2",
       Scaled(DynamicNtkScaling{.factor = 2, .original_length = 8}, 2)},
      {"rotary.yarn.factor: 0.5", Scaled(YarnScaling{.factor = 0.5})},
      {"rotary.yarn.original_length: 0", Scaled(YarnScaling{.factor = 2})},
      {"rotary.yarn.beta_fast: 1, expected > beta_slow, 2",
       Scaled(YarnScaling{
           .factor = 2, .original_length = 8, .beta_fast = 1, .beta_slow = 2})},
      {"rotary.yarn.attention_factor: 0",
       Scaled(YarnScaling{
           .factor = 2, .original_length = 8, .attention_factor = 0.0})},
      {"rotary.base: 1, expected > 1",
       RotaryBlock{.base = 1,
                   .scaling = YarnScaling{.factor = 2, .original_length = 8}}},
      {"rotary.longrope.short_factor: empty", Scaled(LongRopeScaling{})},
      {"rotary.longrope.long_factor: 1 entries, expected 2",
       Scaled(LongRopeScaling{.short_factor = {1, 1}, .long_factor = {1}})},
      {"rotary.longrope.long_factor[1]: 0",
       Scaled(LongRopeScaling{.short_factor = {1, 1}, .long_factor = {1, 0}})},
      {"rotary.longrope.factor: 0, expected finite and > 0",
       Scaled(LongRopeScaling{
           .short_factor = {1}, .long_factor = {1}, .original_length = 8})},
      {"rotary.longrope.original_length: 1, expected > 1",
       Scaled(LongRopeScaling{.short_factor = {1},
                              .long_factor = {1},
                              .original_length = 1,
                              .factor = 2})},
      {"rotary.llama3.high_freq_factor: 0.5, expected >= low_freq_factor",
       Scaled(Llama3Scaling{.high_freq_factor = 0.5})},
      {"rotary.proportional.fraction: 0",
       Scaled(ProportionalScaling{.fraction = 0})},
      {"rotary.axes.sections[1]: -1",
       RotaryBlock{.axes = {.sections = {2, -1}}}},
      {"rotary.axes.sections: sum 3, expected rotary_dim / 2 = 4",
       RotaryBlock{.rotary_dim = 8, .axes = {.sections = {2, 1}}}},
  };
}

std::vector<Bad> OtherBadBlocks() {
  return {
      {"identity.width: 0, expected >= 1", IdentityBlock{.width = 0}},
      {"rotation.frequencies: empty, expected one per plane", RotationBlock{}},
      {"rotation.frequencies[1]: inf",
       RotationBlock{.frequencies = {1, kInfinity}}},
      {"rotation.frequencies: 3 entries, expected a multiple of coordinates, 2",
       RotationBlock{.frequencies = {1, 2, 3}, .coordinates = 2}},
      {"rotation.coordinates: 0",
       RotationBlock{.frequencies = {1}, .coordinates = 0}},
      {"component_decay.rates: empty", DecayBlock{}},
      {"component_decay.rates[0]: -1, expected finite and >= 0",
       DecayBlock{.rates = {-1}}},
      {"component_decay.rates[1]: nan", DecayBlock{.rates = {1, kNaN}}},
      {"component_decay.width: -1", DecayBlock{.rates = {1}, .width = -1}},
      {"component_decay.rates: 2 entries, expected 1 or 3",
       DecayBlock{.rates = {1, 2}, .width = 3}},
      {"damped_rotation.rates: 2 entries, expected 1 or 3",
       DampedRotationBlock{.frequencies = {1, 2, 3}, .rates = {1, 2}}},
      {"damped_rotation.rates[0]: -0.5",
       DampedRotationBlock{.frequencies = {1}, .rates = {-0.5}}},
      {"real_jordan.size: 5, expected 2, 3 or 4",
       RealJordanBlock{.size = 5, .rates = {0}}},
      {"real_jordan.rates: empty", RealJordanBlock{}},
      {"real_jordan.tau: 0", RealJordanBlock{.rates = {0}, .tau = 0}},
      {"real_jordan.tau: inf", RealJordanBlock{.rates = {0}, .tau = 5e-324}},
      {"real_jordan.chains: -1", RealJordanBlock{.rates = {0}, .chains = -1}},
      {"real_jordan.rates: 2 entries, expected 1 or 3",
       RealJordanBlock{.rates = {0, 1}, .chains = 3}},
      {"complex_jordan.size: 1",
       ComplexJordanBlock{.size = 1, .frequencies = {1}, .rates = {0}}},
      {"complex_jordan.frequencies: empty", ComplexJordanBlock{.rates = {0}}},
      {"complex_jordan.eta: nan",
       ComplexJordanBlock{.frequencies = {1}, .rates = {0}, .eta = kNaN}},
      {"dense.dim: 129, expected 1 to 128", DenseMatrixBlock{.dim = 129}},
      {"dense.matrix: 3 entries, expected 4",
       DenseMatrixBlock{.dim = 2, .matrix = {1, 2, 3}}},
      {"dense.matrix[3]: nan",
       DenseMatrixBlock{.dim = 2, .matrix = {0, 0, 0, kNaN}}},
      {"skew_rank2.b: 1 entries, expected 2",
       SkewRank2Block{.a = {1, 2}, .b = {1}}},
      {"skew_rank2.frequency: inf",
       SkewRank2Block{.a = {1}, .b = {1}, .frequency = kInfinity}},
      {"liere.tile: 1", LieReBlock{.dim = 1}},
      {"liere.generators: 2 entries, expected 6",
       LieReBlock{.dim = 3, .coordinates = 2, .generators = {1, 2}}},
      {"coordinate: -1, expected 0 to 1023",
       Block(IdentityBlock{}, {.coordinate = -1})},
      {"coordinate: 2147483647, expected 0 to 1023",
       Block(IdentityBlock{}, {.coordinate = INT_MAX})},
      {"coordinate: 1024, expected 0 to 1023",
       Block(IdentityBlock{}, {.coordinate = 1024})},
      {"clock_channel: -2, expected 0 to 1023",
       Block(IdentityBlock{}, {.clock = true, .clock_channel = -2})},
      {"clock_channel: 2147483647, expected 0 to 1023",
       Block(IdentityBlock{}, {.clock = true, .clock_channel = INT_MAX})},
      {"rotation.coordinates: 2147483647, expected 1 to 1024",
       RotationBlock{.frequencies = {1}, .coordinates = INT_MAX}},
      {"rotary.axes.sections: 1025 entries, expected at most 1024",
       RotaryBlock{.rotary_dim = 2,
                   .axes = {.sections = std::vector<int>(1025)}}},
  };
}

TEST(ValidateBlocks, NamesTheFieldThatIsWrong) {
  std::vector<Bad> all = BadRotaryBlocks();
  for (Bad& bad : OtherBadBlocks()) all.push_back(std::move(bad));
  for (const Bad& bad : all) {
    EncodingSpec spec;
    spec.blocks = {IdentityBlock{}, bad.block};
    const absl::Status status = Validate(spec);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.message;
    EXPECT_THAT(std::string(status.message()),
                StartsWith("blocks[1]." + bad.message));
    // And nobody gets past it.
    EXPECT_EQ(Generator::Make(spec.blocks, 256).status(), status);

    EncodingSpec per_head;
    per_head.per_head = {{}, {IdentityBlock{}, bad.block}};
    EXPECT_THAT(std::string(Validate(per_head).message()),
                StartsWith("per_head[1].blocks[1]." + bad.message));
  }
}

TEST(ValidateBlocks, GrowthOfADenseBlockIsRefusedAtLoad) {
  EncodingSpec spec;
  spec.blocks = {DenseMatrixBlock{.dim = 1, .matrix = {0.5}}};
  EXPECT_THAT(std::string(Validate(spec).message()),
              StartsWith("blocks[0].dense.matrix: an eigenvalue with real part "
                         "0.5, expected at most 5e-09, 1e-08 |X|"));
}

TEST(Validate, BlocksAndPerHeadExcludeEachOther) {
  EncodingSpec spec;
  spec.blocks = {IdentityBlock{}};
  spec.per_head = {{IdentityBlock{}}};
  EXPECT_THAT(std::string(Validate(spec).message()), StartsWith("per_head: "));
}

TEST(Validate, Basis) {
  const auto message = [](std::vector<double> basis) {
    EncodingSpec spec;
    spec.basis = std::move(basis);
    return std::string(Validate(spec).message());
  };
  EXPECT_THAT(message({1, 0, 0}), StartsWith("basis.matrix: 3 entries"));
  EXPECT_THAT(message({1, 0, 0, kNaN}), StartsWith("basis.matrix[3]: nan"));
  EXPECT_THAT(message({1, 0, 0, 1e-9}),
              StartsWith("basis.matrix: condition number 1e+09, expected at "
                         "most 1e+06"));
  EXPECT_EQ(message({1, 0, 0, 0.1}), "");
}

TEST(Validate, AbsoluteParts) {
  const auto message = [](AbsolutePart part) {
    EncodingSpec spec;
    spec.absolutes = {std::move(part)};
    return std::string(Validate(spec).message());
  };
  EXPECT_EQ(message({SinusoidalPart{}}), "");
  EXPECT_THAT(
      message({.kind = SinusoidalPart{}, .on_query = false, .on_key = false}),
      StartsWith("absolutes[0].target"));
  EXPECT_THAT(message({SinusoidalPart{.base = 0}}),
              StartsWith("absolutes[0].sinusoidal.base: 0"));
  LearnedTablePart table;
  EXPECT_THAT(message({table}), StartsWith("absolutes[0].learned_table.rows"));
  table.rows = 2;
  table.dim = 3;
  table.table.resize(5);
  EXPECT_THAT(
      message({table}),
      StartsWith("absolutes[0].learned_table.table: 5 entries, expected "
                 "6 (rows * dim)"));
  table.table.resize(6);
  EXPECT_EQ(message({table}), "");
  table.step = -1;
  EXPECT_THAT(message({table}), StartsWith("absolutes[0].learned_table.step"));
  EXPECT_THAT(message({Time2VecPart{{1, 2}, {0}}}),
              StartsWith("absolutes[0].time2vec.phases: 1 entries"));
  MultiTimePart mtand;
  mtand.embedding = {{{1, 2}, {0, 0}}, {{1}, {0}}};
  EXPECT_THAT(message({mtand}),
              StartsWith("absolutes[0].mtand.embedding[1].time2vec"));
  mtand.embedding.pop_back();
  mtand.query_projection = {1, 2, 3};
  EXPECT_THAT(message({mtand}),
              StartsWith("absolutes[0].mtand.query_projection: 3 entries"));
  EXPECT_EQ(message({HawkesPart{}}), "");
  EXPECT_THAT(message({HawkesPart{true, {1}, {1, 2}}}),
              StartsWith("absolutes[0].transformer_hawkes.time_frequencies"));
}

TEST(Validate, QueryTemperatureAndUnits) {
  EncodingSpec spec;
  spec.temperature = QueryTemperature{.length = 1};
  EXPECT_THAT(std::string(Validate(spec).message()),
              StartsWith("query_temperature.length: 1, expected > 1"));
  spec.temperature->llama4 = true;
  EXPECT_TRUE(Validate(spec).ok());
  spec.temperature->scale = kNaN;
  EXPECT_THAT(std::string(Validate(spec).message()),
              StartsWith("query_temperature.scale: nan"));
  spec.temperature.reset();
  spec.unit_ns = -1;
  EXPECT_THAT(std::string(Validate(spec).message()), StartsWith("time_unit"));
  spec.unit_ns = 1;
  spec.coordinate_unit_ns = {1, -5};
  EXPECT_THAT(std::string(Validate(spec).message()),
              StartsWith("coordinate_units[1]: -5"));
}

TEST(GeneratorMake, SaysHowManyChannelsAreMissing) {
  const auto generator = Generator::Make(
      {IdentityBlock{.width = 3}, RotationBlock{.frequencies = {1, 2}}}, 6);
  EXPECT_EQ(generator.status().message(),
            "blocks[1].rotation: needs 4 channels, expected at most 3, from "
            "channel 3 on of head_dim 6");
  EXPECT_FALSE(
      Generator::Make({IdentityBlock{.width = 1}, RotaryBlock{}}, 4).ok());
}

}  // namespace
}  // namespace attnd
