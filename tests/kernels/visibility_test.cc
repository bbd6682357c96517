// Every order and interval of keys against the rules pair by pair.
#include "kernels/visibility.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/kernels/masked_item.h"
#include "tests/kernels/problem_builder.h"

namespace attnd {
namespace {

using ::testing::HasSubstr;
using testing::Item;
using Kind = TimeAxis::Kind;

// "" when the geometry is an order of valid rows by (time, index) whose
// intervals hold exactly the visible pairs.
std::string Check(const Item& item) {
  const auto made = item.Geometry();
  if (!made.ok()) return made.status().ToString();
  const ItemGeometry& g = *made;
  if (g.query_rows != item.ValidQueries()) return "query_rows";
  const auto queries = static_cast<size_t>(g.query_rows);
  const auto keys = static_cast<size_t>(g.key_rows);
  if (g.begin.size() != queries || g.end.size() != queries) return "sizes";
  std::vector<std::vector<char>> seen(item.queries,
                                      std::vector<char>(item.keys, 0));
  for (size_t i = 0; i < queries; ++i) {
    if (g.begin[i] > g.end[i] || g.begin[i] < 0 ||
        g.end[i] > static_cast<int32_t>(keys)) {
      return absl::StrCat("interval of query ", i, " is ", g.begin[i], " to ",
                          g.end[i]);
    }
    if (i > 0 && (g.begin[i] < g.begin[i - 1] || g.end[i] < g.end[i - 1])) {
      return absl::StrCat("border goes back at query ", i);
    }
    for (int64_t j = g.begin[i]; j < g.end[i]; ++j) {
      seen.at(g.QueryRow(i)).at(g.KeyRow(j)) += 1;
    }
  }
  for (int64_t i = 0; i < item.queries; ++i) {
    for (int64_t j = 0; j < item.keys; ++j) {
      if (seen[i][j] != (item.Visible(i, j) ? 1 : 0)) {
        return absl::StrCat("query ", i, " key ", j, ": expected ",
                            item.Visible(i, j), ", got ",
                            static_cast<int>(seen[i][j]));
      }
    }
  }
  return "";
}

// Every small item with these times under every mask.
template <typename Visit>
void ForEachMask(Item item, const std::vector<int64_t>& bounds, Visit visit) {
  std::vector<std::optional<int64_t>> windows = {std::nullopt};
  for (int64_t bound : bounds) windows.emplace_back(bound);
  for (int order = 0; order < 3; ++order) {
    item.mask.causal = order > 0;
    item.mask.strict = order > 1;
    for (const auto& past : windows) {
      for (const auto& future : windows) {
        item.mask.past_ticks = past;
        item.mask.future_ticks = future;
        if (past)
          item.mask.past_time = static_cast<double>(*past);
        else
          item.mask.past_time.reset();
        if (future)
          item.mask.future_time = static_cast<double>(*future);
        else
          item.mask.future_time.reset();
        visit(item);
      }
    }
  }
}

TEST(Visibility, MatchesThePairRulesForAllSmallTimes) {
  // Times 0 to 2 in every order: ties, duplicates, unsorted.
  for (int64_t queries = 0; queries <= 3; ++queries) {
    for (int64_t keys = 0; keys <= 3; ++keys) {
      const int64_t count = static_cast<int64_t>(std::pow(3, queries + keys));
      for (int64_t code = 0; code < count; ++code) {
        std::vector<int64_t> digits;
        for (int64_t c = code, n = 0; n < queries + keys; ++n, c /= 3) {
          digits.push_back(c % 3);
        }
        const auto middle = digits.begin() + queries;
        const Item ticks =
            Item::Ticks({digits.begin(), middle}, {middle, digits.end()});
        const Item real =
            Item::Real({digits.begin(), middle}, {middle, digits.end()});
        for (const Item& times : {ticks, real}) {
          ForEachMask(times, {0, 1}, [](const Item& item) {
            ASSERT_EQ(Check(item), "") << item.Describe();
          });
        }
      }
    }
  }
}

TEST(Visibility, PositionsAlignTheLastValidRows) {
  for (int64_t queries = 0; queries <= 4; ++queries) {
    for (int64_t keys = 0; keys <= 4; ++keys) {
      for (int64_t nq = 0; nq <= queries; ++nq) {
        for (int64_t nk = 0; nk <= keys; ++nk) {
          Item item = Item::Positions(queries, keys);
          item.query_lengths = {nq};
          item.key_lengths = {nk};
          ForEachMask(item, {0, 1, 2}, [](const Item& masked) {
            ASSERT_EQ(Check(masked), "") << masked.Describe();
          });
        }
      }
    }
  }
}

TEST(Visibility, LengthsAndValidityTakeKeysOut) {
  for (int64_t nq = 0; nq <= 3; ++nq) {
    for (int64_t nk = 0; nk <= 3; ++nk) {
      for (int bits = 0; bits < 8; ++bits) {
        for (Item item :
             {Item::Ticks({2, 0, 1}, {1, 2, 0}), Item::Positions(3, 3)}) {
          item.query_lengths = {nq};
          item.key_lengths = {nk};
          // Any byte but 0 is valid.
          item.validity = {static_cast<char>(bits & 1),
                           static_cast<char>(bits & 2),
                           static_cast<char>(bits & 4 ? 0x80 : 0)};
          ForEachMask(item, {1}, [](const Item& masked) {
            ASSERT_EQ(Check(masked), "") << masked.Describe();
          });
        }
      }
    }
  }
}

TEST(Visibility, HoldsAtTheEndsOfInt64) {
  constexpr int64_t kMin = INT64_MIN, kMax = INT64_MAX;
  const std::vector<std::vector<int64_t>> sets = {
      {kMin, kMin + 1, kMin + 2, -1},
      {kMax, kMax - 1, 0, 1},
      {kMin + 1, 0, -1},
      {kMin, kMin},
      {kMax, kMax},
  };
  for (const std::vector<int64_t>& times : sets) {
    ForEachMask(Item::Ticks(times, times), {0, 1, kMax - 1, kMax},
                [](const Item& item) {
                  ASSERT_EQ(Check(item), "") << item.Describe();
                });
  }
}

TEST(Visibility, RandomTimesMatchThePairRules) {
  testing::Random random(11);
  for (int trial = 0; trial < 400; ++trial) {
    const int64_t queries = random.Integer(0, 40), keys = random.Integer(0, 40);
    const int64_t range = random.Pick(std::vector<int64_t>{3, 50, INT64_MAX});
    Item item = Item::Ticks({}, {});
    item.queries = queries;
    item.keys = keys;
    for (int64_t i = 0; i < queries; ++i) {
      item.query_ticks.push_back(random.Integer(0, range));
    }
    for (int64_t j = 0; j < keys; ++j) {
      item.key_ticks.push_back(random.Integer(0, range));
    }
    item.query_lengths = {random.Integer(0, queries)};
    item.key_lengths = {random.Integer(0, keys)};
    for (int64_t j = 0; j < keys; ++j) item.validity.push_back(random.Coin());
    item.mask.causal = random.Coin();
    item.mask.strict = random.Coin();
    if (random.Coin()) item.mask.past_ticks = random.Integer(0, range);
    if (random.Coin()) item.mask.future_ticks = random.Integer(0, range);
    ASSERT_EQ(Check(item), "") << "trial " << trial << " " << item.Describe();
  }
}

TEST(Visibility, RealDifferencesAreRoundedOnceThenCompared) {
  testing::Random random(12);
  for (int trial = 0; trial < 400; ++trial) {
    std::vector<double> queries, keys;
    const double step =
        std::ldexp(1.0, -static_cast<int>(random.Integer(0, 30)));
    const double origin =
        random.Pick(std::vector<double>{0, 1.7e9, -1e-9, 0.1});
    for (int i = 0; i < 8; ++i) {
      queries.push_back(origin + step * random.Integer(-4, 4) / 3);
      keys.push_back(origin + step * random.Integer(-4, 4) / 3);
    }
    Item item = Item::Real(queries, keys);
    item.mask.causal = random.Coin();
    item.mask.strict = random.Coin();
    // A bound that is some pair's very lag.
    if (random.Coin()) {
      item.mask.past_time = std::abs(random.Pick(queries) - random.Pick(keys));
    }
    if (random.Coin()) {
      item.mask.future_time =
          std::abs(random.Pick(queries) - random.Pick(keys));
    }
    ASSERT_EQ(Check(item), "") << "trial " << trial << " " << item.Describe();
  }
}

TEST(Visibility, LagIsTheDifferenceRoundedOnce) {
  testing::Random random(13);
  for (int trial = 0; trial < 100; ++trial) {
    std::vector<double> queries, keys;
    for (int i = 0; i < 5; ++i) {
      queries.push_back(random.Uniform() * std::pow(10, random.Integer(-9, 9)));
      keys.push_back(random.Uniform() * std::pow(10, random.Integer(-9, 9)));
    }
    const auto g = Item::Real(queries, keys).Geometry();
    ASSERT_TRUE(g.ok()) << g.status();
    for (int64_t i = 0; i < 5; ++i) {
      for (int64_t j = 0; j < 5; ++j) {
        EXPECT_EQ(g->Lag(i, j), queries[g->QueryRow(i)] - keys[g->KeyRow(j)]);
      }
    }
  }
}

TEST(Visibility, OrderIsByTimeThenIndex) {
  const auto g = Item::Ticks({5, 3, 5, 3}, {9, 1, 9, 1, 4}).Geometry();
  ASSERT_TRUE(g.ok()) << g.status();
  EXPECT_EQ(g->query_order, (std::vector<int32_t>{1, 3, 0, 2}));
  EXPECT_EQ(g->key_order, (std::vector<int32_t>{1, 3, 4, 0, 2}));
}

TEST(Visibility, ShiftingAllTicksChangesNothing) {
  const std::vector<int64_t> queries = {7, 0, 3, 7}, keys = {3, 3, 9, 1};
  for (int64_t shift : {int64_t{1}, int64_t{-20}, INT64_MAX - 9, INT64_MIN}) {
    std::vector<int64_t> q = queries, k = keys;
    for (int64_t& t : q) t += shift;
    for (int64_t& t : k) t += shift;
    ForEachMask(Item::Ticks(q, k), {0, 2, INT64_MAX}, [&](const Item& moved) {
      Item base = moved;
      base.query_ticks = queries;
      base.key_ticks = keys;
      const auto a = base.Geometry(), b = moved.Geometry();
      ASSERT_TRUE(a.ok()) << a.status();
      ASSERT_TRUE(b.ok()) << b.status();
      EXPECT_EQ(a->query_ticks, b->query_ticks) << moved.Describe();
      EXPECT_EQ(a->key_ticks, b->key_ticks) << moved.Describe();
      EXPECT_EQ(a->begin, b->begin) << moved.Describe();
      EXPECT_EQ(a->end, b->end) << moved.Describe();
    });
  }
}

TEST(Visibility, RefusesSpansOver63Bits) {
  EXPECT_TRUE(Item::Ticks({INT64_MIN}, {-1}).Geometry().ok());
  EXPECT_TRUE(Item::Ticks({0}, {INT64_MAX}).Geometry().ok());
  for (const auto& times : std::vector<std::vector<int64_t>>{
           {INT64_MIN, 0}, {INT64_MIN, INT64_MAX}, {-1, INT64_MAX}}) {
    const auto g = Item::Ticks({times[0]}, {times[1]}).Geometry();
    EXPECT_EQ(g.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_FALSE(Item::Ticks({times[1]}, {times[0]}).Geometry().ok());
    EXPECT_FALSE(Item::Ticks(times, {}).Geometry().ok());
  }
}

TEST(Visibility, TimesOfPaddingMayHoldAnything) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  Item real = Item::Real({1, 2, kNaN}, {kInf, 1, 2, kNaN});
  real.query_lengths = {2};
  real.key_lengths = {3};
  real.validity = {0, 1, 1, 1};
  EXPECT_EQ(Check(real), "");
  Item ticks = Item::Ticks({1, 2, INT64_MIN}, {INT64_MAX, 1, 2, INT64_MIN});
  ticks.query_lengths = {2};
  ticks.key_lengths = {3};
  ticks.validity = {0, 1, 1, 1};
  EXPECT_EQ(Check(ticks), "");
}

TEST(Visibility, RefusesTimesThatAreNotFinite) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (double bad : {kNaN, kInf, -kInf}) {
    const auto query = Item::Real({1, bad}, {1}).Geometry();
    EXPECT_EQ(query.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(query.status().message()), HasSubstr("query_time"));
    const auto key = Item::Real({1}, {1, bad}).Geometry();
    EXPECT_EQ(key.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(key.status().message()), HasSubstr("key_time"));
  }
}

TEST(Visibility, RefusesLengthsOutsideTheRows) {
  for (int64_t bad : {int64_t{-1}, int64_t{3}, INT64_MAX, INT64_MIN}) {
    Item item = Item::Ticks({1, 2}, {1, 2});
    item.query_lengths = {bad};
    EXPECT_FALSE(item.Geometry().ok()) << bad;
    item.query_lengths = {};
    item.key_lengths = {bad};
    EXPECT_FALSE(item.Geometry().ok()) << bad;
  }
}

}  // namespace
}  // namespace attnd
