// Under every family of encodings: what a row cannot see does not reach it,
// padding is no event, times of the whole int64 range are times.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tests/kernels/answer.h"
#include "tests/kernels/encoding_families.h"
#include "tests/kernels/problem_builder.h"

namespace attnd::testing {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<Family> AllFamilies() {
  std::vector<Family> families = OneSidedFamilies();
  for (Family& family : TwoSidedFamilies()) {
    families.push_back(std::move(family));
  }
  return families;
}

// Whether output and lse of a row have the same bits.
bool SameRow(const ProblemSpec& spec, int64_t head, int64_t row,
             const Answer& a, const Answer& b) {
  const int64_t r = head * spec.queries + row, width = spec.value_dim;
  return std::memcmp(&a.output[r * width], &b.output[r * width], 4 * width) ==
             0 &&
         std::memcmp(&a.lse[r], &b.lse[r], 4) == 0;
}

// A NaN that becomes a number, or a number that becomes NaN with its block.
TEST(EncodingsHidden, WhatIsNotFiniteReachesExactlyTheRowsThatSeeIt) {
  constexpr int64_t kRows = 70, kBad = 23;
  for (const Family& family : AllFamilies()) {
    const ProblemSpec clean = FamilyProblem(family, 21, kRows, kRows, true);
    const Answer expected = RunSpec(clean);
    for (const float bad : {kNaN, kInfinity}) {
      for (auto tensor :
           {&ProblemSpec::query, &ProblemSpec::key, &ProblemSpec::value}) {
        ProblemSpec spec = clean;
        const bool query = tensor == &ProblemSpec::query;
        const int64_t width =
            tensor == &ProblemSpec::value ? spec.value_dim : spec.dim;
        (spec.*tensor)[kBad * width + 3] = bad;
        ASSERT_EQ(Judge(spec, Slack(family.spec)), "") << family.name;
        const Answer answer = RunSpec(spec);
        for (int64_t h = 0; h < spec.query_heads; ++h) {
          for (int64_t i = 0; i < kRows; ++i) {
            const bool sees = query
                                  ? h == 0 && i == kBad
                                  : spec.key_ticks[kBad] <= spec.query_ticks[i];
            ASSERT_TRUE(sees || SameRow(spec, h, i, expected, answer))
                << family.name << ": row " << i << " of head " << h;
            if (!sees) continue;
            const int64_t r = h * kRows + i;
            ASSERT_TRUE(std::isnan(answer.output[r * spec.value_dim + 3]))
                << family.name << ": row " << i << " of head " << h;
          }
        }
      }
    }
  }
}

// Rows at and beyond the lengths, and every fifth key, are padding.
struct Padded {
  ProblemSpec spec;
  std::vector<int64_t> keys;     // padding
  std::vector<int64_t> queries;  // padding
};
Padded WithPadding(const Family& family) {
  Padded padded{FamilyProblem(family, 22, 70, 70, true), {}, {}};
  padded.spec.query_lengths = {61};
  padded.spec.key_lengths = {65};
  padded.spec.key_validity.assign(70, 1);
  for (int64_t i = 61; i < 70; ++i) padded.queries.push_back(i);
  for (int64_t j = 0; j < 70; ++j) {
    if (j % 5 != 0 && j < 65) continue;
    padded.keys.push_back(j);
    padded.spec.key_validity[j] = 0;
  }
  return padded;
}

template <typename T>
void Fill(std::vector<T>& values, int64_t row, int64_t width, T bad) {
  for (int64_t c = 0; c < width; ++c) values[row * width + c] = bad;
}

// Zeros taken for events at time 0, a NaN of the padding in a sum, a clock or
// gate of padding that is checked as if it counted.
TEST(EncodingsHidden, PaddingMayHoldAnything) {
  for (const Family& family : AllFamilies()) {
    const Padded padded = WithPadding(family);
    const Answer expected = RunSpec(padded.spec, kEverything);
    for (const float bad : {kNaN, kInfinity, 1e30f, 0.0f}) {
      ProblemSpec spec = padded.spec;
      for (int64_t j : padded.keys) {
        Fill(spec.key, j, spec.dim, bad);
        Fill(spec.value, j, spec.value_dim, bad);
        spec.key_ticks[j] = j % 2 == 0 ? INT64_MIN : INT64_MAX;
        if (family.clock) spec.key_clock[j] = bad;
        if (!family.gates) continue;
        spec.gates[j] = bad;
        spec.gates[70 + j] = bad;
      }
      for (int64_t i : padded.queries) {
        Fill(spec.query, i, spec.dim, bad);
        Fill(spec.query, 70 + i, spec.dim, bad);
        spec.query_ticks[i] = i % 2 == 0 ? INT64_MIN : INT64_MAX;
        if (family.clock) spec.query_clock[i] = bad;
      }
      ASSERT_EQ(CompareBits(expected, RunSpec(spec, kEverything)), "")
          << family.name << " with " << bad;
    }
  }
}

// Puts `count` invalid keys before the others, all of them at time 0.
ProblemSpec PaddedOnTheLeft(const ProblemSpec& plain, int64_t count) {
  ProblemSpec spec = plain;
  spec.keys += count;
  const auto pad = [&](auto& values, int64_t rows, int64_t width) {
    if (values.empty()) return;
    using Values = std::remove_reference_t<decltype(values)>;
    Values padded;
    for (int64_t r = 0; r < rows; ++r) {
      padded.insert(padded.end(), count * width, {});
      const auto from = values.begin() + r * plain.keys * width;
      padded.insert(padded.end(), from, from + plain.keys * width);
    }
    values = std::move(padded);
  };
  pad(spec.key, spec.kv_heads, spec.dim);
  pad(spec.value, spec.kv_heads, spec.value_dim);
  pad(spec.key_ticks, 1, 1);
  pad(spec.key_clock, spec.kv_heads, 1);
  pad(spec.gates, spec.query_heads, 1);
  spec.key_validity.assign(spec.keys, 1);
  std::fill_n(spec.key_validity.begin(), count, 0);
  return spec;
}

// Batches padded on the left, whose rows other programs count from the padding.
TEST(EncodingsHidden, PaddingOnTheLeftChangesNoBit) {
  for (const Family& family : AllFamilies()) {
    ProblemSpec plain = FamilyProblem(family, 23, 50, 50, true);
    for (const bool positions : {false, true}) {
      if (positions) {
        // Without times validity moves no position: lags stay, places do not.
        if (!family.spec.absolutes.empty()) continue;
        plain.kind = TimeAxis::Kind::kPositions;
        plain.ratio = {};
        plain.query_ticks.clear();
        plain.key_ticks.clear();
      }
      const Answer expected = RunSpec(plain, {.output = true, .lse = true});
      for (const int64_t count : {1, 9, 64}) {
        const Answer answer = RunSpec(PaddedOnTheLeft(plain, count),
                                      {.output = true, .lse = true});
        ASSERT_EQ(CompareBits(expected, answer), "")
            << family.name << (positions ? " by position" : " by time");
      }
    }
  }
}

// The first and the last tick there are, ties at both.
TEST(EncodingsHidden, TimesOfTheWholeRangeOfInt64) {
  for (const int64_t last : {int64_t{-1}, INT64_MAX}) {
    const int64_t first = last - INT64_MAX;
    const std::vector<int64_t> times = {first,    first,    first + 1,
                                        last - 1, last - 1, last};
    for (const bool causal : {true, false}) {
      for (const Family& family :
           causal ? OneSidedFamilies() : TwoSidedFamilies()) {
        // Polynomials of three centuries in seconds are beyond f32.
        if (family.name.find("unbounded") != std::string::npos) continue;
        ProblemSpec spec = FamilyProblem(family, 24, 6, 6, causal);
        spec.query_ticks = spec.key_ticks = times;
        if (family.clock) {
          spec.query_clock = spec.key_clock = {0, 0, 1, 8e9f, 8e9f, 9e9f};
        }
        EXPECT_EQ(Judge(spec, Slack(family.spec)), "")
            << family.name << " from " << first;
      }
    }
  }
}

}  // namespace
}  // namespace attnd::testing
