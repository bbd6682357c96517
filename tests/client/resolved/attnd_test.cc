// A real attnd against client/resolved: every encoding of the example
// configuration, judged by the numbers that the server itself lists.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "client/resolved/attention.h"
#include "client/resolved/probe_request.h"
#include "client/resolved/verdict.h"
#include "tests/client/attnd_process.h"

namespace attnd::client::resolved {
namespace {

constexpr int kDim = 64, kHeads = 4, kKvHeads = 2, kKeys = 24;

// Times of a request: gaps log-uniform between the two, in units.
struct Gaps {
  const char* name;
  double shortest, longest;
};

v1::ListEncodingsRequest SizesOf(int dim, int heads, int kv_heads,
                                 int64_t length = 0) {
  v1::ListEncodingsRequest request;
  request.set_head_dim(dim);
  request.set_query_heads(heads);
  request.set_kv_heads(kv_heads);
  request.set_length(length);
  return request;
}

class ResolvedAttnd : public ::testing::Test {
 protected:
  v1::ResolvedEncoding Show(const std::string& name,
                            v1::ListEncodingsRequest request) {
    request.add_names(name);
    const auto list = client_.ListEncodings(request);
    EXPECT_TRUE(list.ok()) << name << ": " << list.status();
    return list.ok() ? list->encodings(0) : v1::ResolvedEncoding();
  }

  void Expect(const v1::ResolvedEncoding& encoding,
              const v1::AttendRequest& request, const std::string& what) {
    SCOPED_TRACE(absl::StrCat(encoding.name(), ", ", what));
    const auto response = client_.Attend(request);
    ASSERT_TRUE(response.ok()) << response.status();
    const v1::ResolvedEncoding* one = &encoding;
    const auto answer = Attention(request, absl::MakeConstSpan(&one, 1));
    ASSERT_TRUE(answer.ok()) << answer.status();
    const auto verdict = Judge(*response, *answer, ConditionOf(encoding));
    ASSERT_TRUE(verdict.ok()) << verdict.status();
    EXPECT_LE(verdict->output, 1);
    EXPECT_LE(verdict->lse, 1);
    EXPECT_LE(verdict->scores, 1);
    EXPECT_LE(verdict->weights, 1);
  }

  // One for all: it tries some sixty encodings before it serves.
  static void SetUpTestSuite() {
    server_ = new AttndProcess("deploy/encodings.yaml");
  }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }

  static AttndProcess* server_;
  Client client_ = *Client::Create({.endpoints = {server_->target()}});
};

AttndProcess* ResolvedAttnd::server_ = nullptr;

TEST_F(ResolvedAttnd, EveryFamilyKeepsTheAccuracyContract) {
  const auto list = client_.ListEncodings();
  ASSERT_TRUE(list.ok()) << list.status();
  Probe probe = {.batch = 2,
                 .heads = kHeads,
                 .kv_heads = kKvHeads,
                 .queries = 20,
                 .keys = kKeys};
  for (const v1::ResolvedEncoding& listed : list->encodings()) {
    const v1::ResolvedEncoding encoding = Show(
        listed.name(), SizesOf(listed.head_dim(), kHeads, kKvHeads, kKeys));
    for (const Gaps& gaps :
         {Gaps{"a unit apart", 0.5, 2}, Gaps{"six decades", 1e-3, 1e3},
          Gaps{"up to years", 1e-9, 1e9}}) {
      ++probe.seed;
      probe.shortest_gap = gaps.shortest;
      probe.longest_gap = gaps.longest;
      v1::AttendRequest request = MakeProbe(encoding, probe);
      Expect(encoding, request, gaps.name);
      if (!encoding.causal_only()) continue;
      request.clear_mask();
      request.set_two_sided(v1::TWO_SIDED_RULE_ABSOLUTE_LAG);
      Expect(encoding, request, absl::StrCat(gaps.name, ", two-sided"));
    }
  }
}

// The linear kind, under every family that has a meaning for it.
TEST_F(ResolvedAttnd, TheLinearKindKeepsTheAccuracyContract) {
  const auto list = client_.ListEncodings();
  ASSERT_TRUE(list.ok()) << list.status();
  Probe probe = {.batch = 1, .heads = kHeads, .kv_heads = kKvHeads};
  int served = 0;
  for (const v1::ResolvedEncoding& listed : list->encodings()) {
    const v1::ResolvedEncoding encoding = Show(
        listed.name(), SizesOf(listed.head_dim(), kHeads, kKvHeads, kKeys));
    for (const auto rule : {v1::LinearOptions::INPUT_RULE_EVENT,
                            v1::LinearOptions::INPUT_RULE_ZERO_ORDER_HOLD,
                            v1::LinearOptions::INPUT_RULE_TRAPEZOID}) {
      ++probe.seed;
      const bool event = rule == v1::LinearOptions::INPUT_RULE_EVENT;
      // More than a chunk of keys. Integrals over many turns cancel, which the
      // contract does not cover.
      probe.queries = probe.keys = event ? 70 : kKeys;
      probe.shortest_gap = 1e-3;
      probe.longest_gap = event ? 1e3 : 1;
      v1::AttendRequest request = MakeProbe(encoding, probe);
      request.set_kind(v1::ATTENTION_KIND_LINEAR);
      request.clear_mask();
      request.clear_outputs();
      request.mutable_linear()->set_input_rule(rule);
      request.mutable_linear()->set_feature_map(
          v1::LinearOptions::FEATURE_MAP_ELU_PLUS_ONE);
      if (absl::IsInvalidArgument(client_.Attend(request).status())) break;
      Expect(encoding, request, v1::LinearOptions::InputRule_Name(rule));
      ++served;
    }
  }
  // Rotations, decays, damped, real and complex Jordan, dense, clocks.
  EXPECT_GE(served, 3 * 12);
}

// The frequency of each plane, in order.
std::vector<double> Frequencies(const v1::ResolvedEncoding& encoding) {
  std::vector<double> frequencies;
  for (const v1::ResolvedBlock& block : encoding.generators(0).blocks()) {
    if (block.frequency() != 0) frequencies.push_back(block.frequency());
  }
  return frequencies;
}

// Published frequencies, computed elsewhere to the digits shown.
TEST_F(ResolvedAttnd, FrequenciesAreThePublishedOnes) {
  const auto at = [&](const char* name, int dim) {
    return Frequencies(Show(name, SizesOf(dim, 1, 1)));
  };
  const std::vector<double> yarn = at("rope_yarn", 128);
  EXPECT_NEAR(yarn[20], .0562341325, 1e-10);
  EXPECT_NEAR(yarn[30], .00948851788, 1e-11);
  EXPECT_NEAR(yarn[40], .0013378867, 1e-10);
  EXPECT_NEAR(yarn[45], .000429402589, 1e-12);
  EXPECT_NEAR(yarn[63], 2.88695496e-5, 1e-13);
  const double amplitude =
      Show("rope_yarn", SizesOf(128, 1, 1)).generators(0).blocks(0).amplitude();
  EXPECT_NEAR(amplitude, 1.138629436111989 * 1.138629436111989, 1e-14);
  const std::vector<double> llama = at("rope_llama3", 128);
  EXPECT_NEAR(llama[25], .00594073038, 1e-11);
  EXPECT_NEAR(llama[28], .00321144599, 1e-11);
  EXPECT_NEAR(llama[29], .00216657076, 1e-11);
  EXPECT_NEAR(llama[30], .00137189357, 1e-11);
  EXPECT_NEAR(llama[31], .000856751413, 1e-12);
  EXPECT_NEAR(llama[33], .00031269375, 1e-11);
  EXPECT_NEAR(llama[35], 9.55621235e-5, 1e-13);
  EXPECT_NEAR(llama[63], 3.06892599e-7, 1e-15);
  EXPECT_EQ(at("hugging_face", 128), llama);
  const std::vector<double> ntk = at("rope_ntk", 128);
  EXPECT_NEAR(ntk[1], std::pow(40889.94243248622, -1.0 / 64), 1e-14);
  EXPECT_EQ(at("rope_proportional", 512).size(), 64u);
}

}  // namespace
}  // namespace attnd::client::resolved
