// Encodings over the wire, where users were caught out: state between requests,
// factors dropped, tables left, stiff matrices. Closed forms, computed here.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "tests/integration/service_test.h"
#include "tests/server/requests.h"

namespace attnd::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kRotations[] = R"(
encodings:
  - {name: rope, time_unit: position, blocks: [{rotary: {pair_layout: half_split}}]}
  - name: dynamic
    time_unit: position
    blocks:
      - rotary:
          pair_layout: half_split
          dynamic_ntk: {factor: 2, original_length: 16}
  - name: longrope
    time_unit: position
    blocks:
      - rotary:
          pair_layout: half_split
          longrope:
            short_factor: [1, 1]
            long_factor: [1, 10]
            original_length: 16
            factor: 1
)";
constexpr char kYarn[] = R"(
encodings:
  - name: yarn
    time_unit: position
    blocks:
      - rotary:
          rope_parameters:
            {rope_type: yarn, factor: 10, original_max_position_embeddings: 64}
  - name: yarn_flat
    time_unit: position
    blocks:
      - rotary:
          rope_parameters:
            rope_type: yarn
            factor: 10
            original_max_position_embeddings: 64
            attention_factor: 1.0
)";
constexpr char kDense[] = R"(
encodings:
  - name: stiff
    time_unit: 1s
    blocks: [{dense: {dim: 2, matrix: [-1, 0, 1000, -1000]}}]
  - name: markov
    time_unit: 1s
    blocks: [{dense: {dim: 2, matrix: [-1, 1, 0, 0]}}]
)";
constexpr char kTables[] = R"(
encodings:
  - name: table
    time_unit: position
    absolutes:
      - learned_table:
          {rows: 8, dim: 2, table: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]}
  - name: clamped
    time_unit: position
    absolutes:
      - learned_table: {rows: 2, dim: 2, table: [1, 2, 3, 4], boundary: clamp}
)";
constexpr char kLieRe[] = R"(
encodings:
  - name: liere
    time_unit: position
    preset: {liere: {tile: 4, coordinates: 2, generators: [1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]}}
)";

class EncodingsTest : public ServiceTest {
 protected:
  // Scores [queries, keys] of one head at scale 1, every row alike.
  static v1::AttendRequest Rows(const std::string& encoding, int64_t queries,
                                int64_t keys, const std::vector<float>& row) {
    v1::AttendRequest request;
    const auto fill = [&](int64_t rows, v1::Tensor& tensor) {
      std::vector<float> values;
      for (int64_t r = 0; r < rows; ++r) {
        values.insert(values.end(), row.begin(), row.end());
      }
      SetTensor({1, 1, rows, static_cast<int64_t>(row.size())}, values, tensor);
    };
    fill(queries, *request.mutable_query());
    fill(keys, *request.mutable_key());
    fill(keys, *request.mutable_value());
    request.set_encoding(encoding);
    request.set_scale(1);
    request.add_outputs(v1::OUTPUT_SCORES);
    return request;
  }

  static void SetPositions(const std::vector<int64_t>& query,
                           const std::vector<int64_t>& key,
                           v1::AttendRequest& request,
                           v1::TickUnit unit = v1::TICK_UNIT_POSITIONS) {
    SetTicks(query, unit, *request.mutable_query_time());
    SetTicks(key, unit, *request.mutable_key_time());
  }

  static std::vector<float> Ask(TestClient& client,
                                const v1::AttendRequest& request) {
    const auto result = client.Attend(request);
    EXPECT_TRUE(result.ok()) << result.code << ": " << result.message;
    return FromBytes<float>(result.reply.scores().data());
  }
  std::vector<float> Ask(const v1::AttendRequest& request) {
    return Ask(*client_, request);
  }
};

// Stale tables, batch outliers and long requests that change later short ones:
// an answer is a function of its request alone, whatever came before, from
// whichever connection, in a server as old as you like.
TEST_F(EncodingsTest, NoRequestChangesAnother) {
  Start(kRotations);
  for (const char* name : {"dynamic", "longrope"}) {
    const bool dynamic = std::string(name) == "dynamic";
    const v1::AttendRequest a = Rows(name, 16, 16, {0, 1, 0, 0});
    const v1::AttendRequest b = Rows(name, 64, 64, {0, 1, 0, 0});
    const std::vector<float> first = Ask(a), longer = Ask(b);
    EXPECT_NEAR(first[15], std::cos(0.15), 1e-6) << name;
    // 16 rows on: base 10000 * 7^2, or the divisor of long items.
    EXPECT_NEAR(longer[60], dynamic ? std::cos(60 / 700.0) : std::cos(0.06),
                1e-6)
        << name;
    EXPECT_EQ(Ask(a), first) << name;
    TestClient other(server_->addresses()[0]);
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(Ask(i % 2 == 0 ? *client_ : other, a), first) << name;
      EXPECT_EQ(Ask(i % 3 == 0 ? *client_ : other, b), longer) << name;
    }
    Start(kRotations);  // a fresh server, the other way round
    EXPECT_EQ(Ask(b), longer) << name;
    EXPECT_EQ(Ask(a), first) << name;
  }
}

// The regime is that of each sequence, not of the longest in the batch.
TEST_F(EncodingsTest, ALongNeighbourInTheBatchChangesNothing) {
  Start(kRotations);
  for (const char* name : {"dynamic", "longrope"}) {
    const std::vector<float> alone = Ask(Rows(name, 16, 16, {0, 1, 0, 0}));
    v1::AttendRequest both;
    for (v1::Tensor* tensor :
         {both.mutable_query(), both.mutable_key(), both.mutable_value()}) {
      std::vector<float> values;
      for (int i = 0; i < 2 * 64; ++i)
        values.insert(values.end(), {0, 1, 0, 0});
      SetTensor({2, 1, 64, 4}, values, *tensor);
    }
    both.set_encoding(name);
    both.set_scale(1);
    both.add_outputs(v1::OUTPUT_SCORES);
    both.mutable_mask()->add_query_lengths(64);
    both.mutable_mask()->add_query_lengths(16);
    both.mutable_mask()->add_key_lengths(64);
    both.mutable_mask()->add_key_lengths(16);
    const std::vector<float> scores = Ask(both);
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 16; ++j) {
        EXPECT_EQ(scores[(64 + i) * 64 + j], alone[i * 16 + j]) << name;
      }
    }
  }
}

// Nor does what the mask takes out of a sequence lengthen it: padding, invalid
// keys and keys outside the ranges of time are as if they were not sent.
TEST_F(EncodingsTest, KeysThatNobodySeesDoNotLengthenASequence) {
  Start(kRotations);
  std::vector<int64_t> times(64);
  std::iota(times.begin(), times.end(), 0);
  const std::vector<int64_t> first(times.begin(), times.begin() + 16);
  for (const char* name : {"dynamic", "longrope"}) {
    v1::AttendRequest alone = Rows(name, 16, 16, {0, 1, 0, 0});
    SetPositions(first, first, alone);
    const std::vector<float> expected = Ask(alone);
    for (const char* by : {"lengths", "validity", "ranges"}) {
      v1::AttendRequest request = Rows(name, 16, 64, {0, 1, 0, 0});
      SetPositions(first, times, request);
      v1::Mask& mask = *request.mutable_mask();
      if (by[0] == 'l') mask.add_key_lengths(16);
      if (by[0] == 'v') {
        mask.set_key_validity(std::string(16, '\1') + std::string(48, '\0'));
      }
      if (by[0] == 'r') mask.add_key_ranges()->set_end_ticks(15);
      const std::vector<float> scores = Ask(request);
      for (int i = 0; i < 16; ++i) {
        for (int j = 0; j < 16; ++j) {
          EXPECT_EQ(scores[i * 64 + j], expected[i * 16 + j]) << name << by;
        }
      }
    }
  }
}

// A table of angles that forgets where a piece begins.
TEST_F(EncodingsTest, PiecesStandWhereTheirPositionsSay) {
  Start(kRotations);
  v1::AttendRequest request = Rows("rope", 4, 4, {1, 0});
  SetPositions({0, 1, 2, 3}, {0, 1, 2, 3}, request);
  EXPECT_NEAR(Ask(request)[0], 1, 1e-6);
  SetPositions({5, 6, 7, 8}, {0, 1, 2, 3}, request);
  EXPECT_NEAR(Ask(request)[0], std::cos(5.0), 1e-6);
  SetPositions({-4, 1, 2, 3}, {-5, 1, 2, 3}, request);
  EXPECT_NEAR(Ask(request)[0], std::cos(1.0), 1e-6);
}

// An attention factor replaces 0.1 ln(factor) + 1 and counts twice in a logit.
TEST_F(EncodingsTest, AttentionFactorsReachTheLogit) {
  Start(kYarn);
  v1::AttendRequest request = Rows("yarn", 1, 1, {1, 1, 1, 1});
  SetPositions({5}, {5}, request);
  EXPECT_NEAR(Ask(request)[0], 4 * std::pow(0.1 * std::log(10.0) + 1, 2), 4e-6);
  request.set_encoding("yarn_flat");
  EXPECT_NEAR(Ask(request)[0], 4, 4e-6);
}

// exp(DX) of stiff but stable generators; the semigroup; growth.
TEST_F(EncodingsTest, StiffGeneratorsAreExact) {
  Start(kDense);
  const auto ask = [&](const char* name, std::vector<float> query,
                       std::vector<float> key, int64_t lag) {
    v1::AttendRequest request = Rows(name, 1, 1, query);
    SetTensor({1, 1, 1, 2}, key, *request.mutable_key());
    SetPositions({lag}, {0}, request, v1::TICK_UNIT_SECONDS);
    return Ask(request)[0];
  };
  EXPECT_NEAR(ask("stiff", {1, 0}, {1, 0}, 1), std::exp(-1.0), 1e-6);
  EXPECT_NEAR(ask("stiff", {0, 1}, {1, 0}, 1), 1000 / 999.0 * std::exp(-1.0),
              1e-6);
  EXPECT_NEAR(ask("stiff", {0, 1}, {1, 0}, 2), 1000 / 999.0 * std::exp(-2.0),
              1e-6);
  EXPECT_EQ(ask("stiff", {1, 0}, {1, 0}, 1'000'000), 0);
  EXPECT_EQ(ask("stiff", {0, 1}, {1, 0}, 1'000'000), 0);
  EXPECT_EQ(ask("stiff", {1, 2}, {3, 4}, 0), 11);
  for (const int64_t lag : {3000, 100'000'000}) {
    EXPECT_NEAR(ask("markov", {1, 0}, {1, 0}, lag), 0, 1e-6);
    EXPECT_NEAR(ask("markov", {1, 0}, {0, 1}, lag), 1, 1e-6);
    EXPECT_NEAR(ask("markov", {0, 1}, {0, 1}, lag), 1, 1e-6);
    EXPECT_NEAR(ask("markov", {0, 1}, {1, 0}, lag), 0, 1e-6);
  }
  const auto grows = server::ParseConfig(
      "encodings: [{name: a, time_unit: 1s, blocks: [{dense: {dim: 2, matrix: "
      "[-1, 0, 0, 0.001]}}]}]",
      "a.yaml", server::ReadMachine());
  EXPECT_THAT(std::string(grows.status().message()), HasSubstr("dense"));
}

// Positions outside a learned table are refused before anything is read.
TEST_F(EncodingsTest, PositionsOutsideATableAreRefused) {
  Start(kTables);
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const auto ask = [&](const char* name, const std::vector<int64_t>& places) {
    v1::AttendRequest request =
        Rows(name, static_cast<int64_t>(places.size()), 1, {0, 0});
    SetPositions(places, {0}, request);
    return client_->Attend(request);
  };
  EXPECT_TRUE(ask("table", {0, 7}).ok());
  for (const int64_t bad :
       {int64_t{8}, int64_t{-1}, int64_t{2147483648}, kMax - 1}) {
    const auto result = ask("table", {3, bad});
    EXPECT_EQ(result.code, kInvalidArgument) << bad;
    EXPECT_THAT(result.message,
                HasSubstr("time " + std::to_string(bad) + " of row 1"));
  }
  std::vector<int64_t> many(4096);
  for (size_t i = 0; i < many.size(); ++i)
    many[i] = static_cast<int64_t>(i % 8);
  many[2345] = 8;
  EXPECT_THAT(ask("table", many).message,
              AllOf(HasSubstr("time 8 of row 2345"), HasSubstr("1 such row")));
  for (const double bad : {7.5, std::numeric_limits<double>::quiet_NaN()}) {
    v1::AttendRequest request = Rows("table", 1, 1, {0, 0});
    SetReal({bad}, *request.mutable_query_time());
    SetReal({0}, *request.mutable_key_time());
    for (auto* axis :
         {request.mutable_query_time(), request.mutable_key_time()}) {
      axis->clear_units();
      axis->add_units(v1::TICK_UNIT_POSITIONS);
    }
    EXPECT_EQ(client_->Attend(request).code, kInvalidArgument) << bad;
  }
  // Clamped where the configuration says so.
  v1::AttendRequest request = Rows("clamped", 2, 1, {0, 0});
  SetPositions({-5, 1'000'000}, {0}, request);
  const std::vector<float> scores = Ask(request);
  EXPECT_NEAR(scores[0], 1 * 1 + 2 * 2, 1e-6);
  EXPECT_NEAR(scores[1], 3 * 1 + 4 * 2, 1e-6);
}

// Turns in the planes (0, 1) along x and (1, 2) along y, which do not commute:
// each row by its own place, so that a common shift is seen.
TEST_F(EncodingsTest, LieReTurnsRowsByTheirPlaces) {
  Start(kLieRe);
  const auto ask = [&](std::vector<int64_t> query, std::vector<int64_t> key) {
    v1::AttendRequest request = Rows("liere", 1, 1, {1, 0, 0, 0});
    for (auto& [axis, place] : {std::pair(request.mutable_query_time(), query),
                                std::pair(request.mutable_key_time(), key)}) {
      SetTicks(place, v1::TICK_UNIT_POSITIONS, *axis);
      axis->set_shape(0, 1);
      axis->add_shape(2);
      axis->add_units(v1::TICK_UNIT_POSITIONS);
      axis->set_coordinates(2);
    }
    return Ask(request)[0];
  };
  // exp(x A + y B) turns about an axis in three dimensions by r = |(x, y)|; of
  // the first unit vector it leaves (y^2 + x^2 cos r) / r^2, x sin r / r,
  // x y (1 - cos r) / r^2, up to the sign of the last.
  const auto turned = [](double x, double y) {
    const double r = std::hypot(x, y), c = std::cos(r);
    if (r == 0) return std::vector<double>{1, 0, 0};
    return std::vector<double>{(y * y + x * x * c) / (r * r),
                               x * std::sin(r) / r, x * y * (1 - c) / (r * r)};
  };
  for (const auto& [q, k] :
       {std::pair(std::vector<int64_t>{3, 1}, std::vector<int64_t>{1, 0}),
        {{13, 11}, {11, 10}},
        {{0, 0}, {-2, 5}}}) {
    const auto a = turned(static_cast<double>(q[0]), static_cast<double>(q[1]));
    const auto b = turned(static_cast<double>(k[0]), static_cast<double>(k[1]));
    EXPECT_NEAR(ask(q, k),
                std::inner_product(a.begin(), a.end(), b.begin(), 0.0), 2e-6);
  }
  EXPECT_GT(std::abs(ask({3, 1}, {1, 0}) - ask({13, 11}, {11, 10})), 0.1);
  v1::ListEncodingsRequest list;
  list.add_names("liere");
  list.set_head_dim(8);
  const auto listed = client_->ListEncodings(list);
  ASSERT_TRUE(listed.ok()) << listed.message;
  EXPECT_FALSE(listed.reply.encodings(0).relative());
  EXPECT_TRUE(listed.reply.encodings(0).bounded());
  EXPECT_FALSE(listed.reply.encodings(0).causal_only());
}

}  // namespace
}  // namespace attnd::testing
