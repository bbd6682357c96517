#include "server/encodings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "server/config.h"

namespace attnd::server {
namespace {

using ::testing::ElementsAre;

Config Load(const std::string& encodings) {
  auto config = ParseConfig("encodings:\n" + encodings, "a.yaml", Machine{});
  EXPECT_TRUE(config.ok()) << config.status();
  return *std::move(config);
}

TEST(EncodingCatalog, NopeIsAlwaysThere) {
  const Config config = Load("  - {name: plain}\n");
  const EncodingCatalog catalog(config.effective.encodings(), 4);
  EXPECT_THAT(catalog.names(), ElementsAre("nope", "plain"));
  ASSERT_NE(catalog.Find("nope"), nullptr);
  EXPECT_FALSE(catalog.Find("nope")->spec.uses_time());
  EXPECT_EQ(catalog.Find("other"), nullptr);
}

TEST(EncodingCatalog, EqualDefinitionsHaveEqualHashes) {
  const Config config = Load(R"(
  - {name: a, time_unit: 1s, biases: [{alibi: {}}]}
  - {name: b, time_unit: 1s, biases: [{alibi: {bias_max: 8}}], two_sided: refuse}
  - {name: c, time_unit: 1s, biases: [{alibi: {bias_max: 4}}]}
)");
  const EncodingCatalog catalog(config.effective.encodings(), 4);
  EXPECT_EQ(catalog.Find("a")->hash, catalog.Find("b")->hash);
  EXPECT_NE(catalog.Find("a")->hash, catalog.Find("c")->hash);
}

// Those that a reload leaves as they are need no other self-test.
TEST(EncodingCatalog, KnowsWhichAreNotInAnother) {
  const std::string a = "  - {name: a, time_unit: 1s, biases: [{alibi: {}}]}\n";
  const auto names = [](const std::string& encodings, const char* before) {
    const EncodingCatalog now(Load(encodings).effective.encodings(), 4);
    std::vector<std::string> names;
    const auto add = [&](const EncodingCatalog* other) {
      for (const NamedEncoding* each : now.NotIn(other)) {
        names.push_back(each->name);
      }
    };
    if (before == nullptr) {
      add(nullptr);
    } else {
      const EncodingCatalog other(Load(before).effective.encodings(), 4);
      add(&other);
    }
    return names;
  };
  EXPECT_THAT(names(a, nullptr), ElementsAre("nope", "a"));
  EXPECT_THAT(names(a, a.c_str()), ElementsAre());
  EXPECT_THAT(
      names("  - {name: b, time_unit: 1s, biases: [{alibi: {}}]}\n"
            "  - {name: a, time_unit: 1s, biases: [{alibi: {bias_max: 4}}]}\n",
            a.c_str()),
      ElementsAre("a"))
      << "another name, another definition";
}

TEST(EncoderCache, FindsWhatItCompiledAndForgetsTheOldest) {
  const Config config = Load(
      "  - {name: a, time_unit: 1s, biases: [{alibi: "
      "{}}]}\n");
  const EncodingCatalog catalog(config.effective.encodings(), 4);
  const NamedEncoding& encoding = *catalog.Find("a");
  EncoderCache cache(2);
  const auto get = [&](int heads) {
    return *cache.Get(encoding, false,
                      {.head_dim = 8, .query_heads = heads, .kv_heads = heads},
                      kPositionRatio);
  };
  const auto find = [&](int heads) {
    return cache.Find(encoding, false,
                      {.head_dim = 8, .query_heads = heads, .kv_heads = heads},
                      kPositionRatio);
  };
  EXPECT_EQ(find(1), nullptr);
  const auto first = get(1);
  EXPECT_EQ(get(1), first);
  EXPECT_EQ(find(1), first);
  EXPECT_EQ(find(2), nullptr);
  get(2);
  EXPECT_EQ(get(1), first);  // now the more recent one
  get(3);                    // drops 2
  EXPECT_EQ(cache.size(), 2u);
  EXPECT_EQ(get(1), first);
}

TEST(EncoderCache, KeepsRulesAndUnitsApart) {
  const Config config = Load(
      "  - {name: a, time_unit: 1s, biases: [{alibi: "
      "{}}]}\n");
  const EncodingCatalog catalog(config.effective.encodings(), 4);
  const NamedEncoding& encoding = *catalog.Find("a");
  EncoderCache cache(8);
  const EncoderSizes sizes = {.head_dim = 8, .query_heads = 1, .kv_heads = 1};
  EXPECT_TRUE(
      (*cache.Get(encoding, false, sizes, kPositionRatio))->one_sided());
  EXPECT_FALSE(
      (*cache.Get(encoding, true, sizes, kPositionRatio))->one_sided());
  EXPECT_DOUBLE_EQ(
      (*cache.Get(encoding, true, sizes, {.tick_ns = 1, .unit_ns = 1000}))
          ->ratio()
          .units_per_tick(),
      1e-3);
}

TEST(Resolve, GivesTheNumbersOfEveryHead) {
  const Config config = Load(R"(
  - name: both
    time_unit: 2h
    blocks:
      - identity: {width: 1}
      - rotation: {periods: [4], pair_layout: half_split}
    biases: [{alibi: {}}]
)");
  const EncodingCatalog catalog(config.effective.encodings(), 4);
  const auto resolved = Resolve(
      *catalog.Find("both"), {.head_dim = 4, .query_heads = 7, .kv_heads = 7});
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_EQ(resolved->unit_nanoseconds(), 7.2e12);
  EXPECT_THAT(
      resolved->alibi_slopes(),
      ElementsAre(0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125, 0.03125));
  EXPECT_NEAR(resolved->effective_horizon(0), 4, 1e-9);
  ASSERT_EQ(resolved->generators_size(), 1);
  const auto& blocks = resolved->generators(0).blocks();
  ASSERT_EQ(blocks.size(), 2);
  EXPECT_EQ(blocks[0].kind(), "rotation");
  EXPECT_THAT(blocks[0].channels(), ElementsAre(1, 2));
  EXPECT_DOUBLE_EQ(blocks[0].frequency(), M_PI / 2);
  EXPECT_EQ(blocks[1].kind(), "identity");
  EXPECT_THAT(blocks[1].channels(), ElementsAre(0, 3));
  EXPECT_TRUE(resolved->causal_only());
  EXPECT_TRUE(resolved->relative());
}

TEST(Resolve, RefusesSizesThatDoNotFit) {
  const Config config = Load(
      "  - {name: a, time_unit: 1s, biases: [{alibi: {slopes: [1, 2]}}]}\n");
  const EncodingCatalog catalog(config.effective.encodings(), 4);
  EXPECT_FALSE(Resolve(*catalog.Find("a"),
                       {.head_dim = 4, .query_heads = 3, .kv_heads = 3})
                   .ok());
}

}  // namespace
}  // namespace attnd::server
