// Encodings of every family, alone and together, at mild and extreme
// parameters, under every mask, in every kind of time and dtype: against the
// double reference.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/block_checks.h"
#include "tests/kernels/encoded_judge.h"
#include "tests/kernels/problem_builder.h"
#include "tests/kernels/random_encoding.h"
#include "tests/kernels/random_problem.h"

namespace attnd::testing {
namespace {

using Kind = TimeAxis::Kind;
using Order = AxisSections::Order;

// How many of the judged problems had what.
using Census = std::map<std::string, int>;

void CountBlocks(const std::vector<Block>& blocks, Census& census) {
  for (const Block& block : blocks) {
    const std::string kind = KindName(block);
    ++census[kind];
    if (block.averaged) ++census["averaged " + kind];
    if (block.drive.clock) ++census["clock"];
    if (block.drive.coordinate > 0) ++census[kind + " further on"];
    if (const auto* rotary = std::get_if<RotaryBlock>(&block.kind)) {
      ++census[absl::StrCat("scaling ", rotary->scaling.index())];
      if (rotary->axes.sections.size() < 2) continue;
      ++census[absl::StrCat("sections ", static_cast<int>(rotary->axes.order))];
    } else if (const auto* turn = std::get_if<RotationBlock>(&block.kind)) {
      if (turn->coordinates > 1) ++census["mixed rotation"];
    } else if (const auto* liere = std::get_if<LieReBlock>(&block.kind)) {
      if (liere->coordinates > 1) ++census["liere of several axes"];
    }
  }
}

void CountEncoding(const EncodingSpec& encoding, Census& census) {
  CountBlocks(encoding.blocks, census);
  for (const auto& blocks : encoding.per_head) CountBlocks(blocks, census);
  if (!encoding.per_head.empty()) ++census["per head"];
  if (!encoding.basis.empty()) ++census["basis"];
  if (encoding.temperature) ++census["temperature"];
  if (encoding.absolute_lag) ++census["absolute lag"];
  for (const BiasTerm& bias : encoding.biases) {
    ++census[absl::StrCat("bias ", bias.index())];
  }
  for (const AbsolutePart& part : encoding.absolutes) {
    ++census[absl::StrCat("absolute ", part.kind.index())];
  }
}

void CountProblem(const ProblemSpec& spec, Census& census) {
  const auto count = [&](bool has, const std::string& what) {
    if (has) ++census[what];
  };
  ++census[absl::StrCat("time ", static_cast<int>(spec.kind))];
  ++census[absl::StrCat("coordinates ", spec.coordinates)];
  const DType key = spec.key_dtype.value_or(spec.dtype);
  count(spec.dtype != key, "mixed dtypes");
  count(spec.output_dtype != DType::kF32, "half output");
  count(spec.bf16_compute, "bf16 compute");
  count(spec.causal, "causal");
  count(spec.causal_index, "causal by index");
  const bool times = spec.kind != Kind::kPositions;
  count(times && (spec.past_ticks || spec.future_ticks), "window in time");
  count(spec.past_keys || spec.future_keys, "window in keys");
  count(spec.prefix > 0, "prefix");
  count(!spec.key_ranges.empty(), "ranges");
  count(!spec.query_lengths.empty() || !spec.key_lengths.empty(), "lengths");
  count(!spec.query_offsets.empty(), "packed");
  count(!spec.key_validity.empty(), "validity");
  count(!spec.value_mask.empty(), "value mask");
  count(!spec.sinks.empty(), "sinks");
  count(spec.softcap.has_value(), "softcap");
  count(!spec.bias.empty(), "bias tensor");
  CountEncoding(*spec.encoding, census);
}

// All that a judged problem can have: what is missing was never judged.
std::vector<std::string> Everything() {
  std::vector<std::string> all = {
      "clock",          "mixed rotation", "liere of several axes",
      "per head",       "basis",          "temperature",
      "absolute lag",   "mixed dtypes",   "half output",
      "bf16 compute",   "causal",         "causal by index",
      "window in time", "window in keys", "prefix",
      "ranges",         "lengths",        "packed",
      "validity",       "value mask",     "sinks",
      "softcap",        "bias tensor"};
  const auto add = [&](const std::string& what, int64_t count) {
    for (int64_t n = 0; n < count; ++n) {
      all.push_back(absl::StrCat(what, " ", n));
    }
  };
  const std::vector<Block> kinds = {IdentityBlock{},       RotaryBlock{},
                                    RotationBlock{},       DecayBlock{},
                                    DampedRotationBlock{}, RealJordanBlock{},
                                    ComplexJordanBlock{},  DenseMatrixBlock{},
                                    SkewRank2Block{},      LieReBlock{}};
  for (const Block& block : kinds) {
    all.push_back(KindName(block));
    if (std::holds_alternative<IdentityBlock>(block.kind)) continue;
    all.push_back(KindName(block) + " further on");
    all.push_back("averaged " + KindName(block));
  }
  add("scaling", std::variant_size_v<RotaryScaling>);
  add("sections", 3);
  add("bias", std::variant_size_v<BiasTerm>);
  add("absolute", std::variant_size_v<decltype(AbsolutePart::kind)>);
  add("time", 3);
  for (const int axes : {1, 2, 3}) {
    all.push_back(absl::StrCat("coordinates ", axes));
  }
  return all;
}

TEST(Attention, RandomEncodingsKeepTheContract) {
  const RandomLimits limits = {.pairs = 3'000, .max_rows = 150, .max_dim = 40};
  Census judged;
  for (uint64_t seed = 1; seed <= (kSanitized ? 150 : 600); ++seed) {
    ProblemSpec spec = seed % 2 == 0 ? RandomProblem(seed, limits)
                                     : RandomMaskedProblem(seed, limits);
    SetRandomEncoding(spec);
    EXPECT_EQ(JudgeEncoded(spec, 1.5), "") << "seed " << seed;
    CountProblem(spec, judged);
  }
  if (kSanitized) return;
  for (const std::string& what : Everything())
    EXPECT_GT(judged[what], 0) << what;
}

// Enough keys that some tiles weigh little.
TEST(Attention, RandomEncodingsLoseNoMoreThanIsTolerated) {
  const RandomLimits limits = {.pairs = 40'000, .max_rows = 600, .max_dim = 8};
  int judged = 0, pruned = 0;
  for (uint64_t seed = 5001; judged < (kSanitized ? 10 : 40); ++seed) {
    ProblemSpec spec = RandomMaskedProblem(seed, limits);
    SetRandomEncoding(spec);
    if (spec.prune_tolerance == 0 || spec.keys < 128) continue;
    ++judged;
    double lost_mass = 0;
    EXPECT_EQ(JudgeEncoded(spec, 1.5, &lost_mass), "") << "seed " << seed;
    if (lost_mass > 0) ++pruned;
  }
  EXPECT_GT(pruned, kSanitized ? 0 : 3);
}

}  // namespace
}  // namespace attnd::testing
