#include "server/reference_check.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/attention.h"

namespace attnd::server {
namespace {

// One query that sees one key at its own time: the output is the value.
class ReferenceCheckTest : public ::testing::Test {
 protected:
  static constexpr int kDim = 4;

  absl::Status Check(const std::vector<Block>& blocks, float output) {
    AttentionProblem problem;
    problem.query = problem.key = Row(ones_);
    problem.value = Row(values_);
    if (!blocks.empty()) {
      EncodingSpec spec;
      spec.blocks = blocks;
      problem.encoder = *Encoder::Compile(
          spec, {.head_dim = kDim, .query_heads = 1, .kv_heads = 1}, {});
    }
    std::vector<float> answer = values_;
    answer[2] = output;
    return CheckAgainstReference(problem, answer, kOutputError);
  }

  static TensorRef Row(const std::vector<float>& row) {
    return *TensorRef::Make(
        absl::Span<const char>(reinterpret_cast<const char*>(row.data()),
                               kDim * sizeof(float)),
        DType::kF32, Layout::kBHLD, {1, 1, 1, kDim});
  }

  // Logits of at most 4: the bound is kOutputError times the largest value.
  const std::vector<float> ones_ = std::vector<float>(kDim, 1);
  const std::vector<float> values_ = {1, 1, 1, 1};
};

TEST_F(ReferenceCheckTest, TakesWhatTheContractAllowsAndNoMore) {
  EXPECT_TRUE(Check({}, 1).ok());
  EXPECT_TRUE(Check({}, 1 + 0.9f * static_cast<float>(kOutputError)).ok());
  const absl::Status off =
      Check({}, 1 + 1.5f * static_cast<float>(kOutputError));
  EXPECT_EQ(off.code(), absl::StatusCode::kInternal);
  EXPECT_NE(off.message().find("column 2"), absl::string_view::npos) << off;
  EXPECT_FALSE(Check({}, std::numeric_limits<float>::quiet_NaN()).ok());
}

TEST_F(ReferenceCheckTest, JordanBlocksHaveTheirSlack) {
  const std::vector<Block> jordan = {
      RealJordanBlock{.size = 2, .rates = {0.5}}};
  const std::vector<Block> decay = {DecayBlock{.rates = {0.5}}};
  EXPECT_TRUE(Check(jordan, 1 + 1.5f * static_cast<float>(kOutputError)).ok());
  EXPECT_FALSE(Check(jordan, 1 + 2.5f * static_cast<float>(kOutputError)).ok());
  EXPECT_FALSE(Check(decay, 1 + 1.5f * static_cast<float>(kOutputError)).ok());
}

}  // namespace
}  // namespace attnd::server
