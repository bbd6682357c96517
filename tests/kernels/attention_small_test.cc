// Every small problem: sizes up to 3 rows, all masks, ties, encodings, layouts
// and kinds of time, against the double reference.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/kernels/answer.h"
#include "tests/kernels/problem_builder.h"

namespace attnd::testing {
namespace {

using Kind = TimeAxis::Kind;

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
// One problem in so many; primes, so that every axis is met.
constexpr int kEvery = kSanitized ? 3 : 1;

struct Times {
  Kind kind;
  std::vector<int64_t> query, key;  // the first rows of both are taken
};

const std::vector<Times>& AllTimes() {
  static const auto* times = [] {
    auto* all = new std::vector<Times>{{Kind::kPositions, {}, {}}};
    for (Kind kind : {Kind::kTicks, Kind::kReal}) {
      all->push_back({kind, {1, 3, 5}, {0, 2, 4}});  // distinct
      all->push_back({kind, {2, 2, 2}, {2, 2, 2}});  // all the same
      all->push_back({kind, {3, 1, 3}, {3, 5, 1}});  // unsorted, some ties
    }
    return all;
  }();
  return *times;
}

enum class Masking {
  kNone,
  kCausal,
  kStrict,
  kPast,
  kPastAndFuture,
  kLengths,
  kValidity,
  kAll,
  kCount,
};

void SetMask(Masking masking, ProblemSpec& spec) {
  const bool all = masking == Masking::kAll;
  spec.causal =
      all || masking == Masking::kCausal || masking == Masking::kStrict;
  spec.strict = masking == Masking::kStrict;
  if (all || masking == Masking::kPast || masking == Masking::kPastAndFuture) {
    spec.past_ticks = 2;
    spec.past_time = 0.5;
  }
  if (masking == Masking::kPastAndFuture) {
    spec.future_ticks = 1;
    spec.future_time = 0.25;
  }
  for (int64_t b = 0; b < spec.batch; ++b) {
    if (all || masking == Masking::kLengths) {
      spec.query_lengths.push_back(spec.queries - b % (spec.queries + 1));
      spec.key_lengths.push_back(spec.keys - 1 + b % 2);
    }
    if (all || masking == Masking::kValidity) {
      for (int64_t j = 0; j < spec.keys; ++j) {
        spec.key_validity.push_back((b + j) % 2 == 0);
      }
    }
  }
}

std::vector<EncodingSpec> AllEncodings() {
  std::vector<EncodingSpec> all(8);
  constexpr PairLayout kPairs = PairLayout::kInterleaved;
  all[1].blocks = {RotaryBlock{}};
  all[2].blocks = {RotaryBlock{.layout = kPairs}};
  all[3].blocks = {RotaryBlock{.base = 100, .rotary_dim = 2}};
  all[4].blocks = {IdentityBlock{.width = 1},
                   RotationBlock{.frequencies = {-0.75}, .layout = kPairs}};
  all[5].biases = {AlibiTerm{}};
  all[6].biases = {AlibiTerm{.slopes = {0.5}, .two_sided = true}};
  all[7].blocks = {RotaryBlock{}};
  all[7].biases = {AlibiTerm{}};
  return all;
}

void SetTimes(const Times& times, ProblemSpec& spec) {
  spec.kind = times.kind;
  if (times.kind == Kind::kPositions) return;
  spec.query_ticks.assign(times.query.begin(),
                          times.query.begin() + spec.queries);
  spec.key_ticks.assign(times.key.begin(), times.key.begin() + spec.keys);
  for (int64_t t : spec.query_ticks) spec.query_real.push_back(0.25 * t);
  for (int64_t t : spec.key_ticks) spec.key_real.push_back(0.25 * t);
}

// Whether a pair with negative lag is visible.
bool SeesTheFuture(const ProblemSpec& spec, const ReferenceAnswer& reference) {
  for (int64_t b = 0; b < spec.batch; ++b) {
    const auto length = [b](const std::vector<int64_t>& lengths, int64_t rows) {
      return lengths.empty() ? rows : lengths[b];
    };
    const int64_t first = length(spec.key_lengths, spec.keys) -
                          length(spec.query_lengths, spec.queries);
    for (int64_t i = 0; i < spec.queries; ++i) {
      for (int64_t j = 0; j < spec.keys; ++j) {
        const int64_t row = b * spec.query_heads * spec.queries + i;
        if (reference.scores[row * spec.keys + j] == kMinusInfinity) continue;
        const bool negative = spec.kind == Kind::kPositions
                                  ? first + i < j
                                  : spec.query_ticks[i] < spec.key_ticks[j];
        if (negative) return true;
      }
    }
  }
  return false;
}

// "" when the kernels answer as the reference, or refuse what they must.
std::string Outcome(const ProblemSpec& spec) {
  const auto owned = OwnedProblem::Build(spec);
  if (!owned.ok()) return owned.status().ToString();
  const auto reference = ReferenceAttention(owned->problem());
  if (!reference.ok()) return reference.status().ToString();
  const auto answer = Run(owned->problem());
  const Encoder* encoder = owned->problem().encoder.get();
  if (encoder != nullptr && encoder->one_sided() &&
      SeesTheFuture(spec, *reference)) {
    return answer.ok() ? "a visible negative lag was not refused" : "";
  }
  if (!answer.ok()) return answer.status().ToString();
  return Compare(spec, *answer, *reference);
}

class SmallAttention : public ::testing::TestWithParam<int> {};

TEST_P(SmallAttention, EveryProblemKeepsTheContract) {
  const EncodingSpec encoding = AllEncodings()[GetParam()];
  Random random(GetParam() + 1);
  int count = 0, failures = 0;
  for (int sizes = 0; sizes < 8 * 9; ++sizes) {
    ProblemSpec base;
    base.batch = 1 + sizes % 2;
    base.kv_heads = 1 + sizes / 2 % 2;
    base.query_heads = base.kv_heads * (1 + sizes / 4 % 2);
    base.queries = 1 + sizes / 8 % 3;
    base.keys = 1 + sizes / 24;
    base.dim = 4;
    base.value_dim = 3;
    base.encoding = encoding;
    for (const Times& times : AllTimes()) {
      for (int m = 0; m < static_cast<int>(Masking::kCount); ++m) {
        for (Layout layout : {Layout::kBHLD, Layout::kBLHD}) {
          if (++count % kEvery != 0) continue;
          ProblemSpec spec = base;
          spec.Fill(random);
          spec.SetLayouts(layout);
          SetTimes(times, spec);
          SetMask(static_cast<Masking>(m), spec);
          const std::string why = Outcome(spec);
          if (why.empty()) continue;
          ADD_FAILURE() << why << "\n" << spec.Describe();
          if (++failures == 5) return;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Encodings, SmallAttention, ::testing::Range(0, 8));

TEST(SmallAttention, EveryBroadcastOfABiasKeepsTheContract) {
  Random random(21);
  for (int ones = 0; ones < 16; ++ones) {
    for (int trial = 0; trial < 20; ++trial) {
      ProblemSpec spec;
      spec.batch = spec.queries = 2;
      spec.query_heads = 4;
      spec.kv_heads = 2;
      spec.keys = 3;
      spec.Fill(random);
      spec.causal = trial % 2 == 1;
      Shape4& s = spec.bias_shape;
      s = {ones & 1 ? 1 : 2, ones & 2 ? 1 : 4, ones & 4 ? 1 : 2,
           ones & 8 ? 1 : 3};
      spec.bias = random.Normals(s.batch * s.heads * s.rows * s.cols);
      for (float& b : spec.bias) {
        if (random.Integer(0, 3) == 0) b = kMinusInfinity;
      }
      EXPECT_EQ(Judge(spec), "") << ones;
    }
  }
}

}  // namespace
}  // namespace attnd::testing
