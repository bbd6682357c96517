#include "kernels/absolute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kernels/circle_points.h"
#include "kernels/query_temperature.h"
#include "tests/golden/golden_file.h"
#include "tests/kernels/each_target.h"
#include "tests/kernels/item_builder.h"

namespace attnd {
namespace {

using ::testing::AllOf;
using testing::GoldenRecord;
using ::testing::HasSubstr;
using testing::Random;
using testing::ReadGoldenFile;

constexpr TickRatio kNsToSeconds{.tick_ns = 1, .unit_ns = 1000000000};
constexpr int64_t kYear = 31557600000000000;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

AbsoluteTime At(int64_t ticks) { return {.ticks = ticks}; }

std::shared_ptr<const Absolute> Compile(const AbsolutePart& part, int dim,
                                        const TickRatio& ratio = kNsToSeconds) {
  auto absolute = Absolute::Compile({part}, dim, 2, ratio);
  EXPECT_TRUE(absolute.ok()) << absolute.status();
  return *std::move(absolute);
}

std::vector<double> Vector(const Absolute& absolute, int dim,
                           const AbsoluteTime& time, bool query = true,
                           int head = 0) {
  std::vector<double> vector(dim);
  absolute.Exact(query, head, time, vector.data());
  return vector;
}

// What AddToRow adds to zeros.
std::vector<float> Row(const Absolute& absolute, int dim,
                       const AbsoluteTime& time, bool query = true,
                       int head = 0) {
  std::vector<float> row(dim);
  AbsoluteScratch scratch;
  absolute.AddToRow(query, head, time, &scratch, row.data());
  return row;
}

AbsolutePart Sinusoids(
    SinusoidalPart::Order order = SinusoidalPart::Order::kInterleaved) {
  return {.kind = SinusoidalPart{.order = order}};
}

Time2VecPart RandomTime2Vec(Random& random, int channels) {
  Time2VecPart part;
  for (int c = 0; c < channels; ++c) {
    part.frequencies.push_back(random.Normal() *
                               std::pow(10, 6 * random.Uniform() - 3));
    part.phases.push_back(10 * random.Normal());
  }
  return part;
}

// ---- golden vectors ---------------------------------------------------------

std::vector<float> Floats(const GoldenRecord& record, const char* key) {
  const std::vector<double> values = record.Get(key).Numbers();
  return {values.begin(), values.end()};
}

AbsolutePart PartOf(const GoldenRecord& record) {
  const std::string& name = record.Get("part").values[0];
  const auto word = [&](const char* key) { return record.Get(key).values[0]; };
  AbsolutePart part;
  part.origin_ticks = record.Get("origin").Integer(0);
  if (name == "sinusoidal") {
    using Order = SinusoidalPart::Order;
    part.kind = SinusoidalPart{
        .base = record.Get("base").Number(0),
        .order = word("order") == "interleaved"    ? Order::kInterleaved
                 : word("order") == "concatenated" ? Order::kConcatenated
                                                   : Order::kEndpoints,
        .amplitude = record.Get("amplitude").Number(0)};
  } else if (name == "time2vec" || name == "mtand") {
    const Time2VecPart phi{.frequencies = record.Get("frequencies").Numbers(),
                           .phases = record.Get("phases").Numbers()};
    part.kind = phi;
    if (name == "mtand") {
      part.kind = MultiTimePart{.embedding = {phi},
                                .query_projection = Floats(record, "query"),
                                .key_projection = Floats(record, "key")};
    }
  } else if (name == "thp") {
    part.kind = HawkesPart{};
  } else if (name == "sahp") {
    part.kind = HawkesPart{
        .index_form = true,
        .index_frequencies = record.Get("index_frequencies").Numbers(),
        .time_frequencies = record.Get("time_frequencies").Numbers()};
  } else {
    using Boundary = LearnedTablePart::Boundary;
    using Interpolation = LearnedTablePart::Interpolation;
    part.kind = LearnedTablePart{
        .rows = static_cast<int>(record.Get("rows").Integer(0)),
        .dim = 2,
        .table = Floats(record, "table"),
        .step = record.Get("step").Number(0),
        .row_offset = static_cast<int>(record.Get("row_offset").Integer(0)),
        .boundary = word("boundary") == "error"   ? Boundary::kError
                    : word("boundary") == "clamp" ? Boundary::kClamp
                                                  : Boundary::kWrap,
        .interpolation =
            word("interpolation") == "exact"     ? Interpolation::kExact
            : word("interpolation") == "nearest" ? Interpolation::kNearest
            : word("interpolation") == "linear"  ? Interpolation::kLinear
                                                 : Interpolation::kCubic};
  }
  return part;
}

// Adds up to one time's line, or is refused where the line holds "-".
void ExpectLine(const Absolute& absolute, const GoldenRecord::Line& line,
                bool query, const AbsoluteTime& time) {
  const std::string which = "time " + line.values[0];
  const bool covered = absolute.Check(query, {time}, "times").ok();
  EXPECT_EQ(covered, line.values[2] != "-") << which;
  if (!covered || line.values[2] == "-") return;
  const std::vector<double> expected = line.Numbers(2);
  const int dim = static_cast<int>(expected.size());
  const std::vector<double> exact = Vector(absolute, dim, time, query);
  const std::vector<float> row = Row(absolute, dim, time, query);
  for (int c = 0; c < dim; ++c) {
    const double size = std::max(1.0, std::fabs(expected[c]));
    EXPECT_NEAR(exact[c], expected[c], 1e-10 * size)
        << which << " channel " << c;
    EXPECT_NEAR(row[c], expected[c], kAbsoluteError * size)
        << which << " channel " << c;
  }
}

TEST(AbsoluteGolden, PartsAgree) {
  for (const GoldenRecord& record : ReadGoldenFile("absolutes.txt")) {
    if (record.Find("part") == nullptr) continue;
    const AbsolutePart part = PartOf(record);
    SCOPED_TRACE(record.Get("part").values[0]);
    const int dim = static_cast<int>(record.Get("dim").Integer(0));
    const GoldenRecord::Line& ratio = record.Get("ratio");
    const auto absolute = Compile(
        part, dim, {.tick_ns = ratio.Integer(0), .unit_ns = ratio.Integer(1)});
    const GoldenRecord::Line* target = record.Find("target");
    const bool query = target == nullptr || target->Integer(0) == 0;
    for (const GoldenRecord::Line& line : record.lines()) {
      if (line.key != "at") continue;
      const int64_t ticks = line.Integer(0);
      ExpectLine(*absolute, line, query,
                 {.ticks = ticks, .index = line.Integer(1)});
      ExpectLine(*absolute, line, query,
                 {.exact = false,
                  .real = static_cast<double>(ticks),
                  .index = line.Integer(1)});
    }
  }
}

TEST(TemperatureGolden, FactorsAgree) {
  for (const GoldenRecord& record : ReadGoldenFile("absolutes.txt")) {
    const GoldenRecord::Line* head = record.Find("temperature");
    if (head == nullptr) continue;
    const QueryTemperature temperature{.llama4 = head->values[0] == "llama4",
                                       .length = head->Number(1),
                                       .scale = head->Number(2),
                                       .offset = head->Number(3)};
    for (const GoldenRecord::Line& line : record.lines()) {
      if (line.key != "at") continue;
      ItemGeometry item = testing::TickItem({0, 1LL << 40}, {0}, true);
      if (temperature.llama4) {
        item.query_ticks[1] = line.Integer(0);
      } else {
        item.begin[1] = 5;
        item.end[1] = 5 + static_cast<int32_t>(line.Integer(0));
      }
      EXPECT_NEAR(TemperatureFactor(temperature,
                                    {.tick_ns = 1000000, .unit_ns = 1000000000},
                                    item, 1),
                  line.Number(1), 1e-14)
          << head->values[0] << " at " << line.values[0];
    }
  }
}

TEST(QueryTemperature, IsOneBeforeTheFirstKey) {
  const ItemGeometry item = testing::TickItem({-1000000, 5}, {0}, false);
  EXPECT_EQ(TemperatureFactor({.llama4 = true, .length = 2}, {}, item, 0), 1);
}

// ---- properties -------------------------------------------------------------

void ExpectExactPoints() {
  Random random(31);
  for (int64_t count : {1, 7, 8, 9, 64, 1000}) {
    std::vector<uint64_t> phases;
    for (int64_t i = 0; i < count; ++i) phases.push_back(random.Bits());
    for (uint64_t eighth = 0; eighth < 8 && count > 8; ++eighth) {
      phases[eighth] = eighth << 61;
    }
    std::vector<float> cosines(count), sines(count);
    CirclePoints(phases.data(), count, cosines.data(), sines.data());
    for (int64_t i = 0; i < count; ++i) {
      const double angle =
          std::ldexp(static_cast<double>(phases[i]), -63) * M_PI;
      EXPECT_NEAR(cosines[i], std::cos(angle), kCirclePointError);
      EXPECT_NEAR(sines[i], std::sin(angle), kCirclePointError);
    }
  }
}

TEST(CirclePoints, AreWithinTheirErrorOnEveryInstructionSet) {
  testing::OnEachTarget(ExpectExactPoints);
}

TEST(Absolute, RowsAreExactFromNanosecondsToCenturies) {
  Random random(32);
  constexpr int kDim = 24;
  const Time2VecPart phi = RandomTime2Vec(random, kDim);
  std::vector<AbsolutePart> parts = {
      Sinusoids(),
      Sinusoids(SinusoidalPart::Order::kConcatenated),
      Sinusoids(SinusoidalPart::Order::kEndpoints),
      AbsolutePart{.kind = phi, .origin_ticks = -292 * kYear},
      AbsolutePart{.kind = HawkesPart{}},
      AbsolutePart{.kind = HawkesPart{.index_form = true,
                                      .index_frequencies = phi.frequencies,
                                      .time_frequencies = phi.phases}}};
  for (const AbsolutePart& part : parts) {
    const auto absolute = Compile(part, kDim);
    for (int64_t ticks :
         {int64_t{0}, int64_t{1}, int64_t{-7}, kYear, 292 * kYear, -292 * kYear,
          std::numeric_limits<int64_t>::min(),
          std::numeric_limits<int64_t>::max()}) {
      const AbsoluteTime time{.ticks = ticks, .index = 12345};
      const std::vector<double> exact = Vector(*absolute, kDim, time);
      const std::vector<float> row = Row(*absolute, kDim, time);
      for (int c = 0; c < kDim; ++c) {
        EXPECT_NEAR(row[c], exact[c],
                    kAbsoluteError * std::max(1.0, std::fabs(exact[c])));
      }
    }
  }
}

TEST(Absolute, SinusoidsHaveNormOfHalfTheDimensionAndTurn) {
  constexpr int kDim = 32;
  const auto absolute = Compile(Sinusoids(), kDim);
  const int64_t step = 123456789;
  for (int64_t t : {int64_t{0}, 5 * kYear, -77 * kYear}) {
    const std::vector<double> a = Vector(*absolute, kDim, At(t));
    const std::vector<double> b = Vector(*absolute, kDim, At(t + step));
    double norm = 0;
    for (double x : a) norm += x * x;
    EXPECT_NEAR(norm, kDim / 2, 1e-12);
    for (int i = 0; i < kDim / 2; ++i) {
      const double angle = std::pow(10000.0, -2.0 * i / kDim) * step * 1e-9;
      const double c = std::cos(angle), s = std::sin(angle);
      EXPECT_NEAR(b[2 * i], a[2 * i] * c + a[2 * i + 1] * s, 1e-11);
      EXPECT_NEAR(b[2 * i + 1], a[2 * i + 1] * c - a[2 * i] * s, 1e-11);
    }
  }
}

TEST(Absolute, OriginIsWhereTimeIsZero) {
  Random random(33);
  const Time2VecPart phi = RandomTime2Vec(random, 8);
  for (int64_t origin : {int64_t{0}, 1700000000 * int64_t{1000000000},
                         std::numeric_limits<int64_t>::min(),
                         std::numeric_limits<int64_t>::max()}) {
    const auto absolute = Compile({.kind = phi, .origin_ticks = origin}, 8);
    const std::vector<double> vector = Vector(*absolute, 8, At(origin));
    EXPECT_DOUBLE_EQ(vector[0], phi.phases[0]);
    for (int c = 1; c < 8; ++c) {
      EXPECT_NEAR(vector[c], std::sin(phi.phases[c]), 1e-14);
    }
    // Positions have no origin.
    const AbsoluteTime first{.ticks = 0, .position = true};
    EXPECT_NEAR(Vector(*absolute, 8, first)[1], std::sin(phi.phases[1]), 1e-14);
  }
}

TEST(Absolute, PartsAddUpWhereTheyAreMeantTo) {
  AbsolutePart query = Sinusoids(), key = Sinusoids();
  query.on_key = false;
  key.on_query = false;
  key.kind = SinusoidalPart{.amplitude = 3};
  const auto absolute =
      Absolute::Compile({query, key, Sinusoids()}, 4, 1, kNsToSeconds);
  ASSERT_TRUE(absolute.ok()) << absolute.status();
  const std::vector<float> one = Row(*Compile(Sinusoids(), 4), 4, At(999));
  for (int c = 0; c < 4; ++c) {
    EXPECT_NEAR(Row(**absolute, 4, At(999), true)[c], 2 * one[c], 1e-6);
    EXPECT_NEAR(Row(**absolute, 4, At(999), false)[c], 4 * one[c], 1e-6);
  }
}

TEST(Absolute, EmbeddingsAndProjectionsAreTheirHeadsAndSides) {
  const Time2VecPart constant[2] = {{.frequencies = {0}, .phases = {2}},
                                    {.frequencies = {0}, .phases = {5}}};
  const auto absolute =
      Compile({.kind = MultiTimePart{.embedding = {constant[0], constant[1]},
                                     .query_projection = {1},
                                     .key_projection = {10}}},
              1);
  EXPECT_EQ(Vector(*absolute, 1, At(7), true, 0)[0], 2);
  EXPECT_EQ(Vector(*absolute, 1, At(7), true, 1)[0], 5);
  EXPECT_EQ(Vector(*absolute, 1, At(7), false, 1)[0], 50);
}

// ---- learned tables ---------------------------------------------------------

using Boundary = LearnedTablePart::Boundary;
using Interpolation = LearnedTablePart::Interpolation;

AbsolutePart Table(Boundary boundary, Interpolation interpolation,
                   int rows = 8) {
  LearnedTablePart table{.rows = rows,
                         .dim = 2,
                         .table = {},
                         .boundary = boundary,
                         .interpolation = interpolation};
  for (int r = 0; r < rows; ++r) {
    table.table.push_back(static_cast<float>(r));
    table.table.push_back(static_cast<float>(r * r % 5));
  }
  return {.kind = table};
}

AbsoluteTime Position(int64_t position, int64_t row) {
  return {.ticks = position, .position = true, .index = row};
}

// One bad position among 4096 good ones.
TEST(LearnedTable, PositionsOutsideAreRefusedByName) {
  const auto absolute =
      Compile(Table(Boundary::kError, Interpolation::kExact), 2, {});
  std::vector<AbsoluteTime> times;
  for (int64_t i = 0; i < 4097; ++i) times.push_back(Position(i % 8, i));
  EXPECT_TRUE(absolute->Check(true, times, "query_time").ok());
  for (int64_t bad : {int64_t{8}, int64_t{-1}, int64_t{2147483648},
                      std::numeric_limits<int64_t>::max(),
                      std::numeric_limits<int64_t>::min()}) {
    times[1234] = Position(bad, 1234);
    const absl::Status status = absolute->Check(true, times, "query_time");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("query_time: position " + std::to_string(bad) +
                                " of row 1234"),
                      HasSubstr("from 0 to 7"), HasSubstr("8 rows"),
                      HasSubstr("1 such row")));
  }
  for (double bad : {7.5, 0.5, -1e300, 1e300, 2147483648.0, kNaN,
                     std::numeric_limits<double>::infinity()}) {
    const AbsoluteTime time{.exact = false, .real = bad, .index = 3};
    EXPECT_EQ(absolute->Check(false, {time, time}, "key_time").code(),
              absl::StatusCode::kInvalidArgument)
        << bad;
    EXPECT_THAT(
        std::string(absolute->Check(false, {time, time}, "key_time").message()),
        HasSubstr("2 such rows"));
  }
}

TEST(LearnedTable, OnlyTheSideItIsAddedToIsChecked) {
  AbsolutePart part = Table(Boundary::kError, Interpolation::kExact);
  part.on_key = false;
  const auto absolute = Compile(part, 2, {});
  EXPECT_FALSE(absolute->Check(true, {Position(9, 0)}, "query_time").ok());
  EXPECT_TRUE(absolute->Check(false, {Position(9, 0)}, "key_time").ok());
}

TEST(LearnedTable, ClampAndWrapTakeEveryTime) {
  for (Interpolation interpolation :
       {Interpolation::kNearest, Interpolation::kLinear,
        Interpolation::kCubic}) {
    const auto clamp = Compile(Table(Boundary::kClamp, interpolation), 2, {});
    const auto wrap = Compile(Table(Boundary::kWrap, interpolation), 2, {});
    const int64_t least = std::numeric_limits<int64_t>::min();
    const int64_t most = std::numeric_limits<int64_t>::max();
    for (int64_t t : {least, most, int64_t{-1}, int64_t{8}}) {
      EXPECT_TRUE(clamp->Check(true, {At(t)}, "t").ok());
      EXPECT_EQ(Row(*clamp, 2, At(t))[0], t < 0 ? 0 : 7);
    }
    EXPECT_EQ(Row(*wrap, 2, At(-1))[0], 7);
    EXPECT_EQ(Row(*wrap, 2, At(8))[0], 0);
    EXPECT_EQ(Row(*wrap, 2, At(most))[0], 0) << "beyond 2^62 all is one";
    const AbsoluteTime far{.exact = false, .real = 1e300};
    EXPECT_EQ(Row(*clamp, 2, far)[0], 7);
  }
}

TEST(LearnedTable, InterpolationIsExactAtRowsAndContinuous) {
  constexpr int64_t kStep = 1000000;  // ticks per row
  const TickRatio ratio{.tick_ns = 1, .unit_ns = kStep};
  for (Boundary boundary :
       {Boundary::kError, Boundary::kClamp, Boundary::kWrap}) {
    for (Interpolation interpolation :
         {Interpolation::kLinear, Interpolation::kCubic}) {
      const auto absolute = Compile(Table(boundary, interpolation), 2, ratio);
      for (int64_t r = 0; r < 8; ++r) {
        const auto row = [&](int64_t ticks) {
          return Row(*absolute, 2, At(ticks));
        };
        EXPECT_EQ(row(r * kStep)[0], static_cast<float>(r));
        EXPECT_EQ(row(r * kStep)[1], static_cast<float>(r * r % 5));
        for (int64_t near : {r * kStep - 1, r * kStep + 1}) {
          if (boundary == Boundary::kError && (near < 0 || near > 7 * kStep)) {
            continue;
          }
          EXPECT_NEAR(row(near)[1], row(r * kStep)[1], 2e-5);
        }
      }
    }
  }
}

TEST(LearnedTable, CubicHasAContinuousSlope) {
  constexpr int64_t kStep = 1000000;
  const auto absolute = Compile(Table(Boundary::kClamp, Interpolation::kCubic),
                                2, {.tick_ns = 1, .unit_ns = kStep});
  for (int64_t r = 1; r < 7; ++r) {
    const auto at = [&](int64_t ticks) {
      return Vector(*absolute, 2, At(r * kStep + ticks))[1];
    };
    EXPECT_NEAR((at(0) - at(-1000)) / 1e-3, (at(1000) - at(0)) / 1e-3, 2e-2);
  }
}

TEST(LearnedTable, RowsOfOddLengthsAreFoundExactly) {
  // A third of a second: not a whole number of ticks.
  AbsolutePart part = Table(Boundary::kError, Interpolation::kNearest);
  std::get<LearnedTablePart>(part.kind).step = 1.0 / 3;
  const auto absolute = Compile(part, 2);
  EXPECT_EQ(Row(*absolute, 2, At(166666666))[0], 0);
  EXPECT_EQ(Row(*absolute, 2, At(166666667))[0], 1);
  EXPECT_EQ(Row(*absolute, 2, At(2333333333))[0], 7);
  EXPECT_TRUE(absolute->Check(true, {At(2499999999)}, "t").ok());
  EXPECT_FALSE(absolute->Check(true, {At(2500000001)}, "t").ok());
}

// ---- refusals ---------------------------------------------------------------

TEST(Absolute, RefusesWhatDoesNotFit) {
  const auto message = [](const AbsolutePart& part, int dim) {
    return std::string(
        Absolute::Compile({Sinusoids(), part}, dim, 2, {}).status().message());
  };
  EXPECT_THAT(message(Table(Boundary::kClamp, Interpolation::kExact), 4),
              HasSubstr("absolutes[1].learned_table.dim: 2, expected 4"));
  EXPECT_THAT(
      message({.kind = Time2VecPart{.frequencies = {1, 2}, .phases = {0, 0}}},
              4),
      HasSubstr("absolutes[1].time2vec.frequencies: 2 entries"));
  EXPECT_THAT(message({.kind = HawkesPart{.index_form = true,
                                          .index_frequencies = {1},
                                          .time_frequencies = {1}}},
                      4),
              HasSubstr("absolutes[1].transformer_hawkes.index_frequencies"));
  const Time2VecPart phi{.frequencies = {1}, .phases = {0}};
  EXPECT_THAT(message({.kind = MultiTimePart{.embedding = {phi, phi, phi},
                                             .query_projection = {1, 2, 3, 4},
                                             .key_projection = {1, 2, 3, 4}}},
                      4),
              HasSubstr("absolutes[1].mtand.embedding: 3 entries, expected 2"));
  EXPECT_THAT(message({.kind = MultiTimePart{.embedding = {phi},
                                             .query_projection = {1, 2},
                                             .key_projection = {1, 2}}},
                      4),
              HasSubstr("absolutes[1].mtand.query_projection: 2 entries"));
  const auto odd = Absolute::Compile({Sinusoids()}, 5, 2, {});
  EXPECT_THAT(std::string(odd.status().message()),
              HasSubstr("absolutes[0].sinusoidal: head dimension 5"));
}

}  // namespace
}  // namespace attnd
