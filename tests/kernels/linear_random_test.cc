// The linear kind under random encodings, options and masks, in every kind of
// time and dtype: against its double reference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <variant>
#include <vector>

#include "tests/kernels/problem_builder.h"
#include "tests/kernels/random_linear.h"

namespace attnd::testing {
namespace {

using ::testing::Each;
using ::testing::Gt;

// How many of the judged cases had what.
struct Census {
  std::vector<int> normalisers = std::vector<int>(3);
  std::vector<int> feature_maps = std::vector<int>(4);
  std::vector<int> input_rules = std::vector<int>(3);
  std::vector<int> times = std::vector<int>(3);
  std::vector<int> coordinates = std::vector<int>(3);
  std::vector<int> blocks = std::vector<int>(std::variant_size_v<BlockKind>);
  int bidirectional = 0, clocks = 0, bases = 0, per_head = 0;
  int strict = 0, lengths = 0, packed = 0, validity = 0, ranges = 0;
};

void Count(const LinearCase& which, Census& census) {
  const ProblemSpec& spec = which.spec;
  const EncodingSpec& encoding = *spec.encoding;
  ++census.normalisers[static_cast<int>(which.options.normaliser)];
  ++census.feature_maps[static_cast<int>(which.options.feature_map)];
  ++census.input_rules[static_cast<int>(which.options.input_rule)];
  ++census.times[static_cast<int>(spec.kind)];
  ++census.coordinates[spec.coordinates - 1];
  for (const Block& block : encoding.blocks) {
    ++census.blocks[block.kind.index()];
  }
  census.bidirectional += which.options.bidirectional ? 1 : 0;
  census.clocks += spec.query_clock.empty() ? 0 : 1;
  census.bases += encoding.basis.empty() ? 0 : 1;
  census.per_head += encoding.per_head.empty() ? 0 : 1;
  census.strict += spec.strict ? 1 : 0;
  census.lengths += spec.key_lengths.empty() ? 0 : 1;
  census.packed += spec.key_offsets.empty() ? 0 : 1;
  census.validity += spec.key_validity.empty() ? 0 : 1;
  census.ranges += spec.key_ranges.empty() ? 0 : 1;
}

TEST(Linear, RandomEncodingsKeepTheContract) {
  Census judged;
  for (uint64_t seed = 1; seed <= (kSanitized ? 60 : 400); ++seed) {
    const LinearCase which = RandomLinearCase(seed);
    EXPECT_EQ(JudgeEncoded(which, 1.5), "") << "seed " << seed;
    Count(which, judged);
  }
  if (kSanitized) return;
  for (const std::vector<int>& kinds :
       {judged.normalisers, judged.feature_maps, judged.input_rules,
        judged.times, judged.coordinates, judged.blocks,
        std::vector<int>{judged.bidirectional, judged.clocks, judged.bases,
                         judged.per_head, judged.strict, judged.lengths,
                         judged.packed, judged.validity, judged.ranges}}) {
    EXPECT_THAT(kinds, Each(Gt(0)));
  }
}

}  // namespace
}  // namespace attnd::testing
