// The rules of order, masks, options and encodings in closed form, for every
// element type on every instruction set of this machine. edges_test.cc has rows
// that see nothing, content that nobody sees, and what is not a number.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "tests/kernels/answer.h"
#include "tests/kernels/each_target.h"
#include "tests/kernels/encoding_families.h"
#include "tests/kernels/problem_builder.h"

namespace attnd::testing {
namespace {

using Kind = TimeAxis::Kind;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Equal logits: an output is the mean of the visible values, key j being worth
// j mod 64, and lse the logarithm of their number.
ProblemSpec MeanOfRows(int64_t queries, int64_t keys, DType dtype) {
  ProblemSpec spec;
  spec.queries = queries;
  spec.keys = keys;
  spec.dim = spec.value_dim = 1;
  spec.dtype = dtype;
  spec.query.assign(queries, 0);
  spec.key.assign(keys, 1);
  for (int64_t j = 0; j < keys; ++j) {
    spec.value.push_back(static_cast<float>(j % 64));
  }
  return spec;
}

// Times from 0 to 30 in no order, every one of them several times.
ProblemSpec Shuffled(DType dtype) {
  ProblemSpec spec = MeanOfRows(70, 150, dtype);
  Random random(5);
  spec.kind = Kind::kTicks;
  for (int i = 0; i < 70; ++i) {
    spec.query_ticks.push_back(random.Integer(0, 30));
  }
  for (int j = 0; j < 150; ++j) {
    spec.key_ticks.push_back(random.Integer(0, 30));
  }
  return spec;
}

// Every row is the mean of the keys that `visible(i, j)` names.
template <typename Visible>
void ExpectMeans(const ProblemSpec& spec, Visible visible) {
  const Answer answer = RunSpec(spec, {.output = true, .lse = true});
  for (int64_t i = 0; i < spec.queries; ++i) {
    double sum = 0, count = 0;
    for (int64_t j = 0; j < spec.keys; ++j) {
      if (!visible(i, j)) continue;
      sum += static_cast<double>(j % 64);
      ++count;
    }
    if (count == 0) {
      ASSERT_EQ(answer.output[i], 0) << "row " << i;
      ASSERT_EQ(answer.lse[i], -kInfinity) << "row " << i;
      continue;
    }
    ASSERT_NEAR(answer.output[i], sum / count, 1e-4) << "row " << i;
    ASSERT_NEAR(answer.lse[i], std::log(count), 2e-6) << "row " << i;
  }
}

TEST(Semantics, TimesMayComeInAnyOrderAndRepeat) {
  OnEachTypeAndTarget([](DType dtype) {
    ProblemSpec spec = Shuffled(dtype);
    const auto lag = [&spec](int64_t i, int64_t j) {
      return spec.query_ticks[i] - spec.key_ticks[j];
    };
    spec.causal = true;
    ExpectMeans(spec, [&](int64_t i, int64_t j) { return lag(i, j) >= 0; });
    spec.strict = true;
    ExpectMeans(spec, [&](int64_t i, int64_t j) { return lag(i, j) > 0; });
  });
}

// One too many or one too few at the end of a window.
TEST(Semantics, WindowsInTimeAreClosedAtBothEnds) {
  OnEachTypeAndTarget([](DType dtype) {
    ProblemSpec spec = Shuffled(dtype);
    spec.past_ticks = 3;
    spec.future_ticks = 2;
    ExpectMeans(spec, [&](int64_t i, int64_t j) {
      const int64_t lag = spec.query_ticks[i] - spec.key_ticks[j];
      return -2 <= lag && lag <= 3;
    });
  });
}

TEST(Semantics, WindowsInKeysHoldExactlySoManyKeys) {
  OnEachTypeAndTarget([](DType dtype) {
    for (int64_t window : {0, 1, 2, 63, 64, 65, 200}) {
      ProblemSpec spec = MeanOfRows(150, 150, dtype);
      spec.past_keys = window;
      spec.future_keys = 0;
      ExpectMeans(
          spec, [&](int64_t i, int64_t j) { return j <= i && j > i - window; });
    }
  });
}

TEST(Semantics, WithoutTimesTheLastValidRowsAlign) {
  OnEachTypeAndTarget([](DType dtype) {
    ProblemSpec spec = MeanOfRows(70, 150, dtype);
    spec.causal = true;
    ExpectMeans(spec, [](int64_t i, int64_t j) { return j <= i + 80; });
    spec.query_lengths = {60};
    spec.key_lengths = {20};
    ExpectMeans(spec, [](int64_t i, int64_t j) {
      return i < 60 && j < 20 && j <= i - 40;
    });
  });
}

TEST(Semantics, ScaleThenSoftcapThenBiasThenVisibility) {
  OnEachTypeAndTarget([](DType dtype) {
    ProblemSpec spec = MeanOfRows(70, 3, dtype);
    spec.query.assign(70, 4);
    spec.key = {3, -1, 2};
    spec.scale = 0.5f;
    spec.softcap = 2;
    spec.bias_dtype = dtype;
    spec.bias_shape = {1, 1, 1, 3};
    spec.bias = {1, -kInfinity, -0.5f};
    spec.sinks = {0.25f};
    const double a = 2 * std::tanh(6 / 2.0) + 1;
    const double b = 2 * std::tanh(4 / 2.0) - 0.5;
    const double sum = std::exp(a) + std::exp(b) + std::exp(0.25);
    const Answer answer = RunSpec(spec);
    for (int i = 0; i < 70; ++i) {
      ASSERT_NEAR(answer.scores[3 * i], a, 2e-6);
      ASSERT_EQ(answer.scores[3 * i + 1], -kInfinity) << "a cap is no mask";
      ASSERT_NEAR(answer.scores[3 * i + 2], b, 2e-6);
      ASSERT_NEAR(answer.lse[i], std::log(sum), 2e-6);
      ASSERT_NEAR(answer.output[i], 2 * std::exp(b) / sum, 4e-6);
    }
  });
}

TEST(Semantics, OfEqualKeysTheSmallerRowIsListedFirst) {
  OnEachTypeAndTarget([](DType dtype) {
    ProblemSpec spec = MeanOfRows(130, 130, dtype);
    spec.causal = true;
    const Answer answer = RunSpec(spec, {.output = false, .top_k = 3});
    for (int64_t i = 0; i < 130; ++i) {
      for (int64_t k = 0; k < 3; ++k) {
        const bool there = k <= i;
        ASSERT_EQ(answer.top_rows[i * 3 + k], there ? k : -1) << i;
        ASSERT_NEAR(answer.top_weights[i * 3 + k],
                    there ? 1.0 / static_cast<double>(i + 1) : 0, 1e-6);
      }
    }
  });
}

// One query and one key of two channels, `lag` apart, at today's epoch in ns.
double Score(const EncodingSpec& encoding, double lag_seconds, DType dtype) {
  constexpr int64_t kNow = 1'700'000'000'000'000'000;
  ProblemSpec spec;
  spec.dim = 2;
  spec.value_dim = 1;
  spec.dtype = dtype;
  spec.query = {2, 0.5f};
  spec.key = {1, -4};
  spec.value = {1};
  spec.kind = Kind::kTicks;
  spec.query_ticks = {kNow};
  spec.key_ticks = {kNow - static_cast<int64_t>(lag_seconds * 1e9)};
  spec.ratio = {.tick_ns = 1, .unit_ns = kSecond};
  spec.encoding = encoding;
  return RunSpec(spec).scores.at(0);
}

EncodingSpec Of(Block block) {
  EncodingSpec spec;
  spec.blocks = {std::move(block)};
  return spec;
}
EncodingSpec Of(BiasTerm bias) {
  EncodingSpec spec;
  spec.biases = {std::move(bias)};
  return spec;
}

// q = (2, 1/2), k = (1, -4): a product of channels 0 is 2, of channels 1 -2.
TEST(Semantics, EncodingsAreTheirFormulas) {
  OnEachTypeAndTarget([](DType dtype) {
    for (double d : {0.0, 1e-9, 0.5, 3.0, 40.0}) {
      const auto expect = [&](const EncodingSpec& spec, double expected) {
        ASSERT_NEAR(Score(spec, d, dtype), expected, 6e-6) << "lag " << d;
      };
      expect(EncodingSpec{}, 0);
      expect(Of(RotationBlock{.frequencies = {0.7}}),
             // q^T R(-wD) k: 0 of the cosine, 2 * -4 - 0.5 * 1 of the sine.
             -8.5 * std::sin(0.7 * d));
      expect(Of(DecayBlock{.rates = {0.1, 2}}),
             2 * std::exp(-0.1 * d) - 2 * std::exp(-2 * d));
      expect(Of(DampedRotationBlock{.frequencies = {0.7}, .rates = {0.1}}),
             -8.5 * std::exp(-0.1 * d) * std::sin(0.7 * d));
      // e^{-rate D} (D/tau) of channel 1 arrives in channel 0.
      expect(Of(RealJordanBlock{.size = 2, .rates = {0.25}, .tau = 2}),
             std::exp(-0.25 * d) * (d / 2) * 2 * -4);
      expect(Of(AlibiTerm{.slopes = {0.5}}), -0.5 * d);
      expect(Of(KerpleTerm{.r1 = {2}, .r2 = {3}}), -2 * std::log1p(3 * d));
      expect(Of(LagTableTerm{.lags = {0, 10}, .values = {1, -1}}),
             1 - 2 * std::min(d, 10.0) / 10);
    }
  });
}

TEST(Semantics, EveryFamilyKeepsTheContract) {
  OnEachTarget([] {
    for (const bool causal : {true, false}) {
      for (const Family& family :
           causal ? OneSidedFamilies() : TwoSidedFamilies()) {
        const ProblemSpec spec = FamilyProblem(family, 41, 37, 37, causal);
        ASSERT_EQ(Judge(spec, Slack(family.spec)), "") << family.name;
      }
    }
  });
}

// Decays and linear biases see the size of a lag, rotations its sign.
TEST(Semantics, TheTwoSidedRuleMirrorsAllButTurns) {
  OnEachTypeAndTarget([](DType dtype) {
    for (double d : {-3.0, 3.0}) {
      EncodingSpec damped =
          Of(DampedRotationBlock{.frequencies = {0.7}, .rates = {0.1}});
      damped.absolute_lag = true;
      ASSERT_NEAR(Score(damped, d, dtype),
                  -8.5 * std::exp(-0.1 * 3) * std::sin(0.7 * d), 4e-6);
      EncodingSpec alibi = Of(AlibiTerm{.slopes = {0.5}});
      alibi.absolute_lag = true;
      ASSERT_NEAR(Score(alibi, d, dtype), -1.5, 2e-6);
    }
  });
}

}  // namespace
}  // namespace attnd::testing
