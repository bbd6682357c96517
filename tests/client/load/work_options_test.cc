#include "client/load/work_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "client/files.h"
#include "client/load/work_kinds.h"
#include "client/npy.h"

namespace attnd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<double> Gaps(TimeKind kind, int64_t rows = 20'000) {
  Random random(11);
  const std::vector<int64_t> times =
      RowTimes(kind, 1'000'000'000, rows, random);
  EXPECT_EQ(times.back(), kSeriesEndNs);
  std::vector<double> gaps;
  for (size_t i = 1; i < times.size(); ++i) {
    gaps.push_back(1e-9 * static_cast<double>(times[i] - times[i - 1]));
  }
  return gaps;
}

double Mean(const std::vector<double>& gaps) {
  double sum = 0;
  for (double gap : gaps) sum += gap;
  return sum / static_cast<double>(gaps.size());
}

double Share(const std::vector<double>& gaps, auto which) {
  return static_cast<double>(std::count_if(gaps.begin(), gaps.end(), which)) /
         static_cast<double>(gaps.size());
}

TEST(RowTimes, NeverGoBack) {
  for (TimeKind kind : {TimeKind::kGrid, TimeKind::kJitter, TimeKind::kPoisson,
                        TimeKind::kBursts, TimeKind::kDuplicates,
                        TimeKind::kMissing, TimeKind::kDays}) {
    const std::vector<double> gaps = Gaps(kind);
    EXPECT_GE(*std::min_element(gaps.begin(), gaps.end()), 0);
  }
}

// Standard errors: 1 / sqrt(20000) of an exponential mean, times 4.8 for
// bursts, whose gaps have that deviation.
TEST(RowTimes, HaveTheMeanGap) {
  for (TimeKind kind : {TimeKind::kGrid, TimeKind::kJitter, TimeKind::kPoisson,
                        TimeKind::kDuplicates}) {
    EXPECT_NEAR(Mean(Gaps(kind)), 1, 5 * 1.3 / std::sqrt(20'000));
  }
  EXPECT_NEAR(Mean(Gaps(TimeKind::kBursts)), 1, 5 * 5.5 / std::sqrt(20'000));
}

TEST(RowTimes, AreIrregularAsTheirNamesSay) {
  EXPECT_EQ(Share(Gaps(TimeKind::kGrid), [](double g) { return g == 1; }), 1);
  EXPECT_NEAR(
      Share(Gaps(TimeKind::kDuplicates), [](double g) { return g == 0; }), 0.25,
      0.02);
  EXPECT_NEAR(Share(Gaps(TimeKind::kMissing), [](double g) { return g >= 2; }),
              1.0 / 64, 0.005);
  EXPECT_NEAR(Share(Gaps(TimeKind::kDays), [](double g) { return g >= 86400; }),
              1.0 / 50, 0.006);
  EXPECT_GT(Share(Gaps(TimeKind::kBursts), [](double g) { return g < 0.2; }),
            0.9);
  // A grid that trembles by up to 0.4 has gaps of 0.2 to 1.8.
  for (double gap : Gaps(TimeKind::kJitter)) {
    EXPECT_GE(gap, 0.2 - 1e-9);
    EXPECT_LE(gap, 1.8 + 1e-9);
  }
}

TEST(RowTimes, StayWithinTheBoundThatIsChecked) {
  for (TimeKind kind : {TimeKind::kPoisson, TimeKind::kBursts,
                        TimeKind::kMissing, TimeKind::kDays}) {
    for (int64_t rows : {2, 100, 10'000}) {
      double span = 0;
      for (double gap : Gaps(kind, rows)) span += gap * 1e9;
      EXPECT_LE(span, LongestSpanNs(kind, 1'000'000'000, rows));
    }
  }
}

TEST(ParseMixEntry, OverridesTheBase) {
  const auto entry = ParseMixEntry(
      "weight=3 name=long,queries=1024 encoding=rope causal=time past=7d "
      "dtype=bf16 compute=bf16 ragged=0.5 priority=2 tenant=a",
      {.heads = 2, .dim = 32});
  ASSERT_TRUE(entry.ok()) << entry.status();
  EXPECT_EQ(entry->weight, 3);
  EXPECT_EQ(entry->name, "long");
  EXPECT_EQ(entry->arguments.queries, 1024);
  EXPECT_EQ(entry->arguments.heads, 2);
  EXPECT_EQ(entry->arguments.dim, 32);
  EXPECT_EQ(entry->arguments.past, "7d");
  EXPECT_EQ(entry->arguments.compute, "bf16");
  EXPECT_EQ(entry->arguments.tenant, "a");
}

TEST(ParseMixEntry, SaysWhatIsWrong) {
  const auto refusal = [](const char* text) {
    return std::string(ParseMixEntry(text, {}).status().message());
  };
  EXPECT_THAT(refusal("querys=3"), HasSubstr("'querys' is no option"));
  EXPECT_THAT(refusal("queries=many"), HasSubstr("expected a number"));
  EXPECT_THAT(refusal("dtype=f64"), HasSubstr("f32, bf16, f16"));
  EXPECT_THAT(refusal("weight=0"), HasSubstr("above 0"));
}

TEST(MakeWorkKinds, ReadNumericTimesAndTextsForMissingValues) {
  const std::string path = ::testing::TempDir() + "work_options_numeric.csv";
  ASSERT_TRUE(WriteFile(path, "t,v\n100,1\n200,gone\n300,2\n400,3\n").ok());
  WorkArguments arguments = {
      .queries = 1, .keys = 3, .series = path, .missing = "gone"};
  auto kinds = MakeWorkKinds(arguments);
  EXPECT_THAT(std::string(kinds.status().message()), HasSubstr("--time-unit"));
  arguments.time_unit = "ms";
  kinds = MakeWorkKinds(arguments);
  ASSERT_TRUE(kinds.ok()) << kinds.status();
  const v1::TimeAxis& times = (*kinds)[0].requests[0].key_time();
  ASSERT_EQ(times.data().size(), 3 * sizeof(int64_t));
  int64_t ns[3];
  std::memcpy(ns, times.data().data(), sizeof ns);
  EXPECT_THAT(ns, ElementsAre(100'000'000, 300'000'000, 400'000'000));
  arguments.time_unit = "fortnight";
  EXPECT_THAT(std::string(MakeWorkKinds(arguments).status().message()),
              HasSubstr("--time-unit fortnight"));
}

// All requests are held at once, those of all kinds.
TEST(MakeWorkKinds, RefuseWorkThatDoesNotFitIntoMemory) {
  const auto refusal = [](const WorkArguments& arguments) {
    return std::string(MakeWorkKinds(arguments).status().message());
  };
  EXPECT_THAT(refusal({.distinct = int64_t{1} << 62}),
              AllOf(HasSubstr("--distinct 4611686018427387904"),
                    HasSubstr("expected at most 2 GiB")));
  // 3 GiB each: 8 heads of a million rows of 32, thrice.
  EXPECT_THAT(refusal({.queries = 1 << 20, .dim = 32, .distinct = 1}),
              HasSubstr("--distinct 1: as many requests of 3.1"));
  // Half of it twice over is more than all of it.
  const std::string half = "heads=1 queries=1048576 dim=100 distinct=1";
  EXPECT_THAT(refusal({.mix = {half, half + " queries=1048575"}}),
              HasSubstr("--mix 'heads=1 queries=1048576"));
}

TEST(MakeWorkKinds, GiveEachKindItsRequests) {
  const auto kinds =
      MakeWorkKinds({.queries = 8,
                     .distinct = 2,
                     .mix = {"weight=2", "keys=16 distinct=3 tenant=b"}});
  ASSERT_TRUE(kinds.ok()) << kinds.status();
  ASSERT_EQ(kinds->size(), 2u);
  EXPECT_EQ((*kinds)[0].requests.size(), 2u);
  EXPECT_EQ((*kinds)[1].requests.size(), 3u);
  EXPECT_EQ((*kinds)[1].tenant, "b");
  EXPECT_THAT((*kinds)[1].name, HasSubstr("Lk16"));
  EXPECT_NE((*kinds)[0].requests[0].query().data(),
            (*kinds)[1].requests[0].query().data());
}

TEST(MakeWorkKinds, TheLinearKindIsOneOfThem) {
  const auto kinds = MakeWorkKinds(
      {.queries = 8,
       .distinct = 1,
       .mix = {"", "kind=linear normaliser=sum feature-map=relu"}});
  ASSERT_TRUE(kinds.ok()) << kinds.status();
  EXPECT_FALSE((*kinds)[0].requests[0].has_linear());
  const v1::AttendRequest& request = (*kinds)[1].requests[0];
  EXPECT_EQ(request.kind(), v1::ATTENTION_KIND_LINEAR);
  EXPECT_EQ(request.linear().normaliser(), v1::LinearOptions::NORMALISER_SUM);
  EXPECT_EQ(request.linear().feature_map(),
            v1::LinearOptions::FEATURE_MAP_RELU);
  EXPECT_THAT((*kinds)[1].name, HasSubstr("linear"));
  EXPECT_THAT(
      std::string(MakeWorkKinds({.feature_map = "relu"}).status().message()),
      HasSubstr("--kind linear"));
  EXPECT_THAT(std::string(MakeWorkKinds(
                              {.kind = "linear", .outputs = {"output", "lse"}})
                              .status()
                              .message()),
              HasSubstr("--outputs"));
}

TEST(MakeWorkKinds, ReadArraysOfTheUser) {
  const std::string prefix = ::testing::TempDir() + "load_arrays";
  const std::string floats(2 * 4 * 4, '\0');
  for (const char* name : {"query", "key", "value"}) {
    ASSERT_TRUE(WriteNpy(absl::StrCat(prefix, ".", name, ".npy"),
                         {.shape = {2, 4}, .data = floats})
                    .ok());
  }
  for (const char* name : {"query_time", "key_time"}) {
    ASSERT_TRUE(
        WriteNpy(
            absl::StrCat(prefix, ".", name, ".npy"),
            {.type = NpyType::kI8, .shape = {2}, .data = std::string(16, '\1')})
            .ok());
  }
  const auto kinds =
      MakeWorkKinds({.encoding = "rope", .arrays = prefix, .unit = "ms"});
  ASSERT_TRUE(kinds.ok()) << kinds.status();
  const v1::AttendRequest& request = (*kinds)[0].requests[0];
  EXPECT_THAT(request.query().shape(), ElementsAre(1, 1, 2, 4));
  EXPECT_EQ(request.encoding(), "rope");
  EXPECT_EQ(request.key_time().units(0), v1::TICK_UNIT_MILLISECONDS);
  // Without their unit integer times say nothing.
  EXPECT_FALSE(MakeWorkKinds({.arrays = prefix}).ok());
  EXPECT_FALSE(MakeWorkKinds({.arrays = prefix + "x"}).ok());
}

TEST(MakeWorkKinds, ReadASeries) {
  const auto kinds = MakeWorkKinds({.queries = 4,
                                    .keys = 64,
                                    .series = "client/examples/co2_weekly.csv",
                                    .distinct = 5});
  ASSERT_TRUE(kinds.ok()) << kinds.status();
  EXPECT_EQ((*kinds)[0].requests.size(), 5u);
  EXPECT_FALSE(MakeWorkKinds({.keys = 100'000,
                              .series = "client/examples/co2_weekly.csv"})
                   .ok());
}

}  // namespace
}  // namespace attnd::client
