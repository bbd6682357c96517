#include "server/cost_model.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "kernels/encoding_spec.h"
#include "kernels/plan.h"
#include "server/encodings.h"
#include "server/self_test.h"

namespace attnd::server {
namespace {

// Zeros; borrowed by the problems below.
const std::vector<float> kZeros(1 << 20);

TensorRef Zeros(int64_t heads, int64_t rows, int64_t cols) {
  return *TensorRef::Make(
      absl::Span<const char>(reinterpret_cast<const char*>(kZeros.data()),
                             heads * rows * cols * sizeof(float)),
      DType::kF32, Layout::kBHLD,
      {.batch = 1, .heads = heads, .rows = rows, .cols = cols});
}

AttentionProblem Problem(int64_t heads, int64_t queries, int64_t keys,
                         int64_t dim) {
  AttentionProblem problem;
  problem.query = Zeros(heads, queries, dim);
  problem.key = problem.value = Zeros(1, keys, dim);
  return problem;
}

Work WorkOfProblem(const AttentionProblem& problem) {
  const auto plan = Plan::Make(problem);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return WorkOf(*plan, {.request = 1000, .reply = 200});
}

std::shared_ptr<const Encoder> Compiled(const EncodingSpec& spec, int dim,
                                        int heads) {
  return *Encoder::Compile(
      spec, {.head_dim = dim, .query_heads = heads, .kv_heads = 1, .length = 0},
      {});
}

TEST(CostModel, AddsUpItsTerms) {
  const CostModel model({.seconds_per_request = 1,
                         .seconds_per_unit = 10,
                         .seconds_per_flop = 1e2,
                         .seconds_per_pair = 1e3,
                         .seconds_per_block = 1e4,
                         .seconds_per_row = 1e5,
                         .seconds_per_byte = 1e6,
                         .seconds_per_reply_byte = 1e7,
                         .seconds_per_encoded = 1e8,
                         .seconds_per_biased = 1e9,
                         .seconds_per_element = 1e10});
  EXPECT_EQ(model.Predict({.requests = 1,
                           .units = 2,
                           .flops = 3,
                           .pairs = 4,
                           .blocks = 5,
                           .rows = 6,
                           .bytes = 7,
                           .reply_bytes = 8,
                           .encoded = 9,
                           .biased = 1,
                           .elements = 2}),
            21987654321);
  // One second per flop of 256 per pair, and per pair.
  EXPECT_DOUBLE_EQ(CostModel({.seconds_per_flop = 1, .seconds_per_pair = 256})
                       .flops_per_second(),
                   0.5);
  EXPECT_DOUBLE_EQ(
      CostModel({.seconds_per_flop = 1, .seconds_per_block = 256 * 128 * 64})
          .flops_per_second(),
      0.5);
}

TEST(WorkOf, CountsWhatThePlanWillDo) {
  const Work work = WorkOfProblem(Problem(2, 256, 192, 20));
  EXPECT_EQ(work.requests, 1);
  EXPECT_EQ(work.units, 1);
  EXPECT_EQ(work.pairs, 2 * 256 * 192);
  // Channels are padded to 32.
  EXPECT_EQ(work.flops, work.pairs * 2 * (32 + 32));
  // Two tiles of 128 rows per head, three blocks of 64 keys.
  EXPECT_EQ(work.blocks, 2 * 2 * 3);
  EXPECT_EQ(work.rows, 2 * 256 + 192);
  EXPECT_EQ(work.bytes, 1000);
  EXPECT_EQ(work.reply_bytes, 200);
  EXPECT_EQ(work.encoded, 0);
  EXPECT_EQ(work.biased, 0);
  EXPECT_EQ(work.elements, 0);
}

TEST(WorkOf, HalvesOfATileMeetTheDiagonalOneByOne) {
  AttentionProblem problem = Problem(1, 256, 256, 16);
  problem.mask.causal = true;
  const Work work = WorkOfProblem(problem);
  // Halves of 64 rows meet 1, 2, 3 and 4 blocks, those of the second tile two
  // of them together.
  EXPECT_EQ(work.blocks, 1 + 2 + 3 + 4 - 2);
  // Eight rows stop at the next multiple of 16 keys: little more than half.
  EXPECT_GE(work.pairs, 256 * 257 / 2);
  EXPECT_LE(work.pairs, 256 * (257 / 2 + 16));
  EXPECT_EQ(work.flops, work.pairs * 2 * (16 + 16));
  // Queries before all keys see nothing, and are rows all the same.
  problem = Problem(1, 1024, 64, 16);
  problem.mask.causal = true;
  const Work most_see_nothing = WorkOfProblem(problem);
  EXPECT_EQ(most_see_nothing.blocks, 1);
  EXPECT_LE(most_see_nothing.pairs, 64 * 64);
  EXPECT_EQ(most_see_nothing.rows, 1024 + 64);
}

TEST(WorkOf, KeysHiddenBetweenAPrefixAndAWindowAreNotMet) {
  AttentionProblem problem = Problem(1, 1024, 1024, 16);
  problem.mask.causal = true;
  problem.mask.past_keys = 64;
  const Work window = WorkOfProblem(problem);
  problem.mask.prefix = 64;
  const Work prefixed = WorkOfProblem(problem);
  EXPECT_GT(prefixed.blocks, window.blocks);
  // One block more per tile, or one per half of it.
  EXPECT_LE(prefixed.blocks, window.blocks + 2 * 1024 / 128);
}

TEST(WorkOf, KnowsWhatAnEncodingAdds) {
  AttentionProblem problem = Problem(2, 256, 192, 32);
  const Work plain = WorkOfProblem(problem);
  EncodingSpec rotary;
  rotary.blocks = {RotaryBlock{}};
  problem.encoder = Compiled(rotary, 32, 2);
  const Work turned = WorkOfProblem(problem);
  // Heads share the phases.
  EXPECT_EQ(turned.encoded, 32 * (256 + 192));
  EXPECT_EQ(turned.biased, 0);
  EXPECT_EQ(turned.flops, plain.flops);
  EncodingSpec alibi;
  alibi.biases = {AlibiTerm{.slopes = {}, .two_sided = true}};
  problem.encoder = Compiled(alibi, 32, 2);
  const Work biased = WorkOfProblem(problem);
  EXPECT_EQ(biased.encoded, 0);
  EXPECT_EQ(biased.biased, biased.pairs);
}

TEST(WorkOf, MoreOfAnythingIsNeverLessWork) {
  const CostModel model({.seconds_per_request = 1,
                         .seconds_per_unit = 1,
                         .seconds_per_flop = 1,
                         .seconds_per_pair = 1,
                         .seconds_per_block = 1,
                         .seconds_per_row = 1,
                         .seconds_per_byte = 1,
                         .seconds_per_reply_byte = 1,
                         .seconds_per_encoded = 1,
                         .seconds_per_biased = 1,
                         .seconds_per_element = 1});
  for (const bool causal : {false, true}) {
    const auto cost = [&](int64_t heads, int64_t queries, int64_t keys,
                          int64_t dim) {
      AttentionProblem problem = Problem(heads, queries, keys, dim);
      problem.mask.causal = causal;
      const Work work = WorkOfProblem(problem);
      for (const CostModel::Term& term : CostModel::kTerms) {
        EXPECT_GE(work.*term.amount, 0);
      }
      return model.Predict(work);
    };
    for (const int64_t rows : {1, 64, 65, 128, 200, 512}) {
      const double base = cost(2, rows, 256, 16);
      EXPECT_GT(cost(4, rows, 256, 16), base) << rows;
      EXPECT_GE(cost(2, rows + 1, 256, 16), base) << rows;
      EXPECT_GT(cost(2, rows, 512, 16), base) << rows;
      EXPECT_GT(cost(2, rows, 256, 64), base) << rows;
    }
  }
}

TEST(SelfTest, PassesForEveryServedKind) {
  google::protobuf::RepeatedPtrField<v1::Encoding> encodings;
  v1::Encoding& rope = *encodings.Add();
  rope.set_name("rope");
  rope.set_time_unit("1s");
  rope.add_blocks()->mutable_rotary()->set_pair_layout(
      v1::PAIR_LAYOUT_INTERLEAVED);
  rope.add_biases()->mutable_alibi();
  const EncodingCatalog catalog(encodings, 1);
  const auto workspace = Workspace::Create();
  ASSERT_TRUE(workspace.ok()) << workspace.status();
  const absl::Status status = SelfTest(catalog, **workspace);
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace attnd::server
