// Every family of encodings through the whole kernel, against the reference.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/key_pack.h"
#include "tests/kernels/answer.h"
#include "tests/kernels/encoding_families.h"
#include "tests/kernels/problem_builder.h"

namespace attnd::testing {
namespace {

// Self-attention, few queries over many keys, more queries than keys.
void JudgeShapes(const Family& family, bool causal) {
  const std::vector<std::pair<int64_t, int64_t>> shapes =
      kSanitized ? std::vector<std::pair<int64_t, int64_t>>{{70, 70}}
                 : std::vector<std::pair<int64_t, int64_t>>{
                       {200, 200}, {5, 300}, {90, 20}};
  uint64_t seed = 1;
  for (const auto& [queries, keys] : shapes) {
    EXPECT_EQ(Judge(FamilyProblem(family, ++seed, queries, keys, causal),
                    Slack(family.spec)),
              "")
        << family.name;
  }
}

TEST(Encodings, OneSidedFamiliesKeepTheContractUnderCausality) {
  for (const Family& family : OneSidedFamilies()) JudgeShapes(family, true);
}

TEST(Encodings, TwoSidedFamiliesKeepTheContractWithoutAMask) {
  for (const Family& family : TwoSidedFamilies()) JudgeShapes(family, false);
}

// Terms of one sign, which sum to what the bound counts: nothing cancels, and
// rounding of one kind adds up.
TEST(Encodings, TermsOfOneSignKeepTheContract) {
  for (const bool causal : {true, false}) {
    for (const Family& family :
         causal ? OneSidedFamilies() : TwoSidedFamilies()) {
      for (uint64_t seed = 31; seed < (kSanitized ? 32 : 34); ++seed) {
        ProblemSpec spec = FamilyProblem(family, seed, 64, 64, causal);
        Random random(seed);
        for (auto* values : {&spec.query, &spec.key}) {
          for (float& v : *values) {
            v = static_cast<float>(std::sqrt(2.0) *
                                   (1 - 0.1 * random.Uniform()));
          }
        }
        EXPECT_EQ(Judge(spec, Slack(family.spec)), "") << family.name;
      }
    }
  }
}

// One sequence whose gaps run from a nanosecond to a century: rate times span
// passes 1e9, and every row keeps what is near it.
TEST(Encodings, GapsFromNanosecondsToACenturyInOneSequence) {
  constexpr int64_t kRows = kSanitized ? 40 : 130;
  constexpr int64_t kCentury = 3'155'760'000 * kSecond;
  Random random(11);
  std::vector<int64_t> times;
  int64_t t = -kCentury;
  for (int64_t i = 0; i < kRows; ++i) {
    times.push_back(t);
    if (i == kRows / 2) {
      t += kCentury;
    } else if (i % 7 != 3) {
      t += static_cast<int64_t>(std::pow(10.0, 15.5 * random.Uniform()));
    }
  }
  for (const bool causal : {true, false}) {
    for (const Family& family :
         causal ? OneSidedFamilies() : TwoSidedFamilies()) {
      // Polynomials of a century in seconds are beyond f32.
      if (family.name.find("unbounded") != std::string::npos) continue;
      ProblemSpec spec = FamilyProblem(family, 12, kRows, kRows, causal);
      spec.key_ticks = spec.query_ticks = times;
      if (family.clock) {
        spec.query_clock = spec.key_clock = ClockAt(times, spec.kv_heads);
      }
      EXPECT_EQ(Judge(spec, Slack(family.spec)), "") << family.name;
    }
  }
}

// Tiles before, inside and after the keys that share a reference, and those
// that are moved to their own last one.
TEST(Encodings, KeysOfSeveralReferencesKeepTheContract) {
  constexpr int64_t kRows = kReferenceKeys + 14;
  for (const Family& family : OneSidedFamilies()) {
    EXPECT_EQ(Judge(FamilyProblem(family, 15, kRows, kRows, true),
                    Slack(family.spec)),
              "")
        << family.name;
  }
}

// Of `planes` planes, from 30 to 1e-4 a second.
std::vector<double> Falling(int planes) {
  std::vector<double> rates;
  for (int p = 0; p < planes; ++p) {
    rates.push_back(30 * std::pow(10.0, -5.5 * p / planes));
  }
  return rates;
}

// Both members of a plane decay alike: the factors of half the channels may
// serve the others.
TEST(Encodings, PlanesOfWideHeadsKeepTheContract) {
  for (const int dim : {32, 40, 64}) {
    DampedRotationBlock halves{.frequencies = Falling(dim / 2),
                               .rates = Falling(dim / 2)};
    DampedRotationBlock pairs = halves;
    pairs.layout = PairLayout::kInterleaved;
    const ComplexJordanBlock jordan{.size = 2,
                                    .frequencies = Falling(dim / 4),
                                    .rates = Falling(dim / 4),
                                    .eta = 0.05};
    for (const Block& block : {Block(halves), Block(pairs), Block(jordan)}) {
      Family family{.name = "planes", .spec = {}};
      family.spec.blocks = {block};
      family.spec.unit_ns = kSecond;
      ProblemSpec spec = FamilyProblem(family, 16, 140, 140, true);
      spec.dim = dim;
      Random random(dim);
      spec.Fill(random);
      EXPECT_EQ(Judge(spec, Slack(family.spec)), "")
          << dim << ", block " << block.kind.index();
    }
  }
}

TEST(Encodings, OneSidedFamiliesRefuseTheFuture) {
  for (const Family& family : OneSidedFamilies()) {
    if (family.name == "grape additive") continue;  // takes |D|
    const auto owned =
        OwnedProblem::Build(FamilyProblem(family, 3, 9, 9, false));
    ASSERT_TRUE(owned.ok()) << family.name << owned.status();
    const auto plan = Plan::Make(owned->problem());
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument)
        << family.name;
  }
}

TEST(Encodings, ShiftingAllTimesChangesNoBit) {
  for (const std::vector<Family>& families :
       {OneSidedFamilies(), TwoSidedFamilies()}) {
    for (const Family& family : families) {
      if (!family.spec.absolutes.empty()) continue;
      ProblemSpec spec = FamilyProblem(family, 4, 70, 70, true);
      const Answer before = RunSpec(spec);
      for (auto* ticks : {&spec.query_ticks, &spec.key_ticks}) {
        for (int64_t& t : *ticks) t -= 1'699'999'999'123'456'789;
      }
      EXPECT_EQ(CompareBits(before, RunSpec(spec)), "") << family.name;
    }
  }
}

}  // namespace
}  // namespace attnd::testing
