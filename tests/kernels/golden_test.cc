// The golden vectors judge the reference and the kernels alike, so that one
// misunderstanding of a formula cannot hide in both.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/generator.h"
#include "kernels/reference.h"
#include "tests/golden/golden_file.h"
#include "tests/kernels/answer.h"
#include "tests/kernels/problem_builder.h"

namespace attnd::testing {
namespace {

PairLayout LayoutOf(const std::string& text) {
  return text == "half" ? PairLayout::kHalfSplit : PairLayout::kInterleaved;
}

std::vector<float> Floats(const GoldenRecord& record, const char* key) {
  const std::vector<double> values = record.Get(key).Numbers();
  return {values.begin(), values.end()};
}

EncodingSpec EncodingOf(const GoldenRecord& record) {
  EncodingSpec spec;
  for (const GoldenRecord::Line& line : record.lines()) {
    if (line.key == "identity") {
      spec.blocks.emplace_back(
          IdentityBlock{.width = static_cast<int>(line.Integer(0))});
    } else if (line.key == "rotary") {
      spec.blocks.emplace_back(
          RotaryBlock{.base = line.Number(1),
                      .rotary_dim = static_cast<int>(line.Integer(2)),
                      .layout = LayoutOf(line.values[0])});
    } else if (line.key == "rotation") {
      spec.blocks.emplace_back(RotationBlock{
          .frequencies = line.Numbers(1), .layout = LayoutOf(line.values[0])});
    } else if (line.key == "alibi") {
      spec.biases.emplace_back(
          AlibiTerm{.slopes = line.Numbers(1),
                    .two_sided = line.values[0] == "two_sided"});
    }
  }
  return spec;
}

ProblemSpec SpecOf(const GoldenRecord& record) {
  ProblemSpec spec;
  const std::vector<int64_t> sizes = record.Get("sizes").Integers();
  spec.query_heads = sizes[0];
  spec.kv_heads = sizes[1];
  spec.queries = sizes[2];
  spec.keys = sizes[3];
  spec.dim = sizes[4];
  spec.value_dim = sizes[5];
  spec.scale = static_cast<float>(record.Get("scale").Number(0));
  spec.ratio = {record.Get("units").Integer(0), record.Get("units").Integer(1)};
  spec.query = Floats(record, "query");
  spec.key = Floats(record, "key");
  spec.value = Floats(record, "value");
  spec.encoding = EncodingOf(record);
  spec.causal = record.Find("causal") != nullptr;
  spec.strict = record.Find("strict") != nullptr;
  if (record.Find("query_ticks") != nullptr) {
    spec.kind = TimeAxis::Kind::kTicks;
    spec.query_ticks = record.Get("query_ticks").Integers();
    spec.key_ticks = record.Get("key_ticks").Integers();
  } else if (record.Find("query_real") != nullptr) {
    spec.kind = TimeAxis::Kind::kReal;
    spec.query_real = record.Get("query_real").Numbers();
    spec.key_real = record.Get("key_real").Numbers();
  }
  const bool real = spec.kind == TimeAxis::Kind::kReal;
  if (const auto* past = record.Find("past")) {
    if (real)
      spec.past_time = past->Number(0);
    else
      spec.past_ticks = past->Integer(0);
  }
  if (const auto* future = record.Find("future")) {
    if (real)
      spec.future_time = future->Number(0);
    else
      spec.future_ticks = future->Integer(0);
  }
  return spec;
}

void ExpectClose(const std::vector<double>& golden,
                 const std::vector<double>& got, const char* what) {
  ASSERT_EQ(golden.size(), got.size()) << what;
  for (size_t i = 0; i < golden.size(); ++i) {
    if (golden[i] == got[i]) continue;  // also -inf
    EXPECT_NEAR(golden[i], got[i], 1e-11 * std::max(1.0, std::abs(golden[i])))
        << what << " element " << i;
  }
}

class GoldenAttention : public ::testing::TestWithParam<GoldenRecord> {};

TEST_P(GoldenAttention, ReferenceAgreesTo11Digits) {
  const ReferenceAnswer reference = Reference(SpecOf(GetParam()));
  ExpectClose(GetParam().Get("scores").Numbers(), reference.scores, "scores");
  ExpectClose(GetParam().Get("lse").Numbers(), reference.lse, "lse");
  ExpectClose(GetParam().Get("output").Numbers(), reference.output, "output");
}

TEST_P(GoldenAttention, KernelsKeepTheirContract) {
  ProblemSpec spec = SpecOf(GetParam());
  ReferenceAnswer golden = Reference(spec);  // for the sizes of rows
  golden.scores = GetParam().Get("scores").Numbers();
  golden.lse = GetParam().Get("lse").Numbers();
  golden.output = GetParam().Get("output").Numbers();
  for (Layout layout : {Layout::kBHLD, Layout::kBLHD}) {
    spec.SetLayouts(layout);
    EXPECT_EQ(Compare(spec, RunSpec(spec), golden), "") << spec.Describe();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Attention, GoldenAttention,
    ::testing::ValuesIn(ReadGoldenFile("attention.txt")),
    [](const ::testing::TestParamInfo<GoldenRecord>& info) {
      return info.param.Get("case").values[0];
    });

TEST(GoldenSlopes, PublishedSlopesAgree) {
  for (const GoldenRecord& record : ReadGoldenFile("slopes.txt")) {
    const int heads = static_cast<int>(record.Get("heads").Integer(0));
    const std::vector<double> golden = record.Get("slopes").Numbers();
    const std::vector<double> got = PublishedSlopes(heads);
    ASSERT_EQ(got.size(), golden.size());
    for (int h = 0; h < heads; ++h) {
      EXPECT_NEAR(got[h] / golden[h], 1, 1e-14) << heads << " heads, " << h;
    }
  }
}

}  // namespace
}  // namespace attnd::testing
