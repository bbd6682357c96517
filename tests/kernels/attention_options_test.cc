// Element types, softcap, sinks and masks of value channels, in closed form.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kernels/float16.h"
#include "kernels/softcap.h"
#include "tests/kernels/answer.h"
#include "tests/kernels/each_target.h"
#include "tests/kernels/problem_builder.h"
#include "tests/kernels/random_problem.h"

namespace attnd::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// ---- element types ----------------------------------------------------------

TEST(Float16, EveryHalfConvertsThereAndBack) {
  OnEachTarget([] {
    for (DType dtype : {DType::kBF16, DType::kF16}) {
      std::vector<uint16_t> halves(65536);
      for (int bits = 0; bits < 65536; ++bits) {
        halves[bits] = static_cast<uint16_t>(bits);
      }
      std::vector<float> floats(65536);
      FloatsFromHalves(dtype, reinterpret_cast<const char*>(halves.data()),
                       65536, floats.data());
      std::vector<uint16_t> back(65536);
      HalvesFromFloats(dtype, floats.data(), 65536, back.data());
      for (int bits = 0; bits < 65536; ++bits) {
        if (std::isnan(floats[bits])) {
          float again;
          FloatsFromHalves(dtype, reinterpret_cast<const char*>(&back[bits]), 1,
                           &again);
          ASSERT_TRUE(std::isnan(again)) << bits;
        } else {
          ASSERT_EQ(back[bits], bits);
        }
      }
    }
  });
}

TEST(Float16, RoundsToTheNearestAsTheTestsOwnConversion) {
  OnEachTarget([] {
    Random random(7);
    std::vector<float> values = {65519.9f, 65520.0f, -65520.0f,  1e30f,
                                 0x1p-24f, 0x1p-25f, 0x1.8p-25f, 1e-30f,
                                 -0.0f,    kInfinity};
    for (int i = 0; i < 20000; ++i) {
      values.push_back(random.Normal() * std::exp(static_cast<float>(
                                             20 * random.Uniform() - 12)));
    }
    const auto count = static_cast<int64_t>(values.size());
    std::vector<uint16_t> halves(values.size());
    HalvesFromFloats(DType::kF16, values.data(), count, halves.data());
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(halves[i], ToFloat16(values[i])) << values[i];
    }
    HalvesFromFloats(DType::kBF16, values.data(), count, halves.data());
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(halves[i], ToBFloat16(values[i])) << values[i];
    }
  });
}

// Sums in the payload's type would overflow or stop growing.
TEST(Float16, ProductsBeyondTheTypeAreSummedInF32) {
  ProblemSpec spec;
  spec.keys = 2;
  spec.dim = 64;
  spec.value_dim = 1;
  spec.query.assign(64, 40);
  spec.key.assign(128, 40);
  spec.value = {1, 3};
  spec.scale = 0.125f;
  spec.dtype = DType::kF16;
  spec.output_dtype = DType::kF16;
  const Answer answer = RunSpec(spec);
  EXPECT_EQ(answer.scores, (std::vector<float>{12800, 12800}));
  EXPECT_EQ(answer.output[0], 2);
  EXPECT_EQ(answer.lse[0], static_cast<float>(12800 + std::log(2.0)));

  ProblemSpec many;
  many.keys = 4096;
  many.dim = many.value_dim = 1;
  many.query = {1};
  many.key.assign(4096, 1);
  many.value.assign(4096, 1);
  many.dtype = many.output_dtype = DType::kBF16;
  EXPECT_EQ(RunSpec(many).output[0], 1);
}

TEST(Float16, OutputsBeyondTheTypeAreInfinite) {
  ProblemSpec spec;
  spec.dim = 1;
  spec.value_dim = 2;
  spec.query = spec.key = {1};
  spec.value = {70000, -1e-9f};
  spec.output_dtype = DType::kF16;
  const Answer answer = RunSpec(spec);
  EXPECT_EQ(answer.output[0], kInfinity);
  EXPECT_EQ(answer.output[1], 0);
}

// ---- softcap ----------------------------------------------------------------

TEST(Softcap, KeepsItsBoundOnEveryTarget) {
  OnEachTarget([] {
    for (float cap : {0.5f, 1.0f, 30.0f, 1e4f}) {
      std::vector<float> values = {0, -0.0f, kInfinity, -kInfinity, kNaN};
      for (double x = 1e-9; x < 1e9; x *= 1.003) {
        values.push_back(static_cast<float>(x));
        values.push_back(static_cast<float>(-x));
      }
      const std::vector<float> before = values;
      Softcap(cap, values.data(), static_cast<int64_t>(values.size()));
      for (size_t i = 0; i < values.size(); ++i) {
        const double exact = cap * std::tanh(double{before[i]} / cap);
        if (std::isnan(exact)) {
          EXPECT_TRUE(std::isnan(values[i]));
          continue;
        }
        ASSERT_NEAR(values[i], exact, kTanhRelativeError * std::abs(exact))
            << before[i] << " cap " << cap;
      }
    }
  });
}

TEST(Softcap, ComesAfterScaleAndBeforeBias) {
  ProblemSpec spec;
  spec.keys = 2;
  spec.dim = spec.value_dim = 1;
  spec.query = {4};
  spec.key = {3, -1};
  spec.value = {1, 2};
  spec.scale = 0.5f;
  spec.softcap = 2;
  spec.bias_shape = {1, 1, 1, 2};
  spec.bias = {10, -kInfinity};
  const Answer answer = RunSpec(spec);
  EXPECT_NEAR(answer.scores[0], 2 * std::tanh(6 / 2.0) + 10, 1e-5);
  EXPECT_EQ(answer.scores[1], -kInfinity) << "capped would be visible";
  EXPECT_EQ(answer.output[0], 1);
}

// ---- sinks ------------------------------------------------------------------

TEST(Sinks, StandInTheDenominatorAndInLse) {
  for (float sink : {-200.0f, -1.0f, 0.0f, 3.0f, 200.0f, -kInfinity}) {
    ProblemSpec spec;
    spec.keys = 2;
    spec.dim = spec.value_dim = 1;
    spec.query = {1};
    spec.key = {1, 2};
    spec.value = {4, 8};
    spec.sinks = {sink};
    const Answer answer = RunSpec(spec);
    const double sum = std::exp(1) + std::exp(2) + std::exp(double{sink});
    EXPECT_NEAR(answer.lse[0], std::log(sum), 1e-5 + 1e-7 * std::abs(sink));
    EXPECT_NEAR(answer.weights[0], std::exp(1) / sum, 2e-6);
    EXPECT_NEAR(answer.output[0], (4 * std::exp(1) + 8 * std::exp(2)) / sum,
                2e-6 * 8);
  }
}

TEST(Sinks, ARowThatSeesNoKeyHasTheSinksLse) {
  ProblemSpec spec;
  spec.query_heads = 2;
  spec.queries = 2;
  spec.dim = spec.value_dim = 1;
  spec.query = {1, 1, 1, 1};
  spec.key = {5};
  spec.value = {7};
  spec.sinks = {2, -1};
  for (bool invalid : {false, true}) {
    spec.causal = spec.strict = !invalid;
    spec.key_validity = {static_cast<char>(invalid ? 0 : 1)};
    if (invalid) spec.query_lengths = {1};
    const Answer answer = RunSpec(spec);
    EXPECT_EQ(answer.output, (std::vector<float>{0, 0, 0, 0}));
    EXPECT_EQ(answer.lse[0], 2);
    EXPECT_EQ(answer.lse[2], -1);
    // Rows beyond a length see not even the sink.
    EXPECT_EQ(answer.lse[1], invalid ? -kInfinity : 2);
  }
}

// ---- masks of value channels ------------------------------------------------

TEST(ValueMask, EachChannelAveragesItsObservedKeys) {
  ProblemSpec spec;
  spec.keys = 3;
  spec.dim = 1;
  spec.value_dim = 4;
  spec.query = {1};
  spec.key = {0, 1, 2};
  spec.value = {1, 1, 1, 1, 2, kNaN, 2, kInfinity, 4, 4, kNaN, kNaN};
  spec.value_mask = {1, 1, 1, 0, 1, 0, 1, 0, 1, 1, 0, 0};
  const Answer answer = RunSpec(spec);
  const double a = 1, b = std::exp(1), c = std::exp(2);
  EXPECT_NEAR(answer.output[0], (a + 2 * b + 4 * c) / (a + b + c), 1e-5);
  EXPECT_NEAR(answer.output[1], (a + 4 * c) / (a + c), 1e-5);
  EXPECT_NEAR(answer.output[2], (a + 2 * b) / (a + b), 1e-5);
  EXPECT_EQ(answer.output[3], 0) << "never observed";
  EXPECT_NEAR(answer.lse[0], std::log(a + b + c), 1e-5);
}

TEST(ValueMask, AChannelIsNotDrownedByKeysItDoesNotObserve) {
  // Logits 300 apart: in f32 exp vanishes beside the row's largest.
  for (float sink : {-kInfinity, -295.0f}) {
    ProblemSpec spec;
    spec.queries = 100;
    spec.keys = 200;
    spec.dim = 1;
    spec.value_dim = 2;
    spec.query.assign(100, 1);
    spec.key.assign(200, -300);
    spec.key[57] = 0;
    spec.value.assign(400, 0);
    spec.value_mask.assign(400, 1);
    for (int j = 0; j < 200; ++j) spec.value[2 * j + 1] = j % 2 == 0 ? 4 : 8;
    spec.value_mask[2 * 57 + 1] = 0;
    if (sink != -kInfinity) spec.sinks = {sink};
    const Answer answer = RunSpec(spec, {.output = true});
    double weighted = 0, sum = std::exp(double{sink} + 300);
    for (int j = 0; j < 200; ++j) {
      if (j == 57) continue;
      weighted += spec.value[2 * j + 1];
      ++sum;
    }
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(answer.output[2 * i], 0);
      EXPECT_NEAR(answer.output[2 * i + 1], weighted / sum, 1e-5);
    }
  }
}

// ---- all of them, on every instruction set ----------------------------------

TEST(Options, EveryTargetKeepsTheContract) {
  OnEachTarget([] {
    for (uint64_t seed = 1; seed <= (kSanitized ? 15 : 60); ++seed) {
      ASSERT_EQ(
          Judge(RandomMaskedProblem(seed, {.pairs = 8'000, .max_rows = 150})),
          "");
    }
  });
}

TEST(Options, TheWidestHeadsAndTheMost) {
  for (const auto& [dim, heads] :
       {std::pair<int64_t, int64_t>{1024, 1}, {1023, 2}, {3, 1024}}) {
    Random random(dim);
    ProblemSpec spec;
    spec.queries = 5;
    spec.keys = heads > 100 ? 3 : 70;
    spec.query_heads = heads;
    spec.kv_heads = heads > 100 ? heads / 4 : heads;
    spec.dim = dim;
    spec.value_dim = dim == 3 ? 2 : 1024;
    spec.Fill(random);
    spec.scale = static_cast<float>(1 / std::sqrt(dim));
    EXPECT_EQ(Judge(spec), "");
  }
}

}  // namespace
}  // namespace attnd::testing
