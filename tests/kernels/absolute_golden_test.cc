// Absolute parts against the golden vectors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/absolute.h"
#include "tests/golden/golden_file.h"
#include "tests/kernels/absolute_parts.h"

namespace attnd {
namespace {

using testing::Compile;
using testing::GoldenRecord;
using testing::ReadGoldenFile;
using testing::Row;
using testing::Vector;

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

}  // namespace
}  // namespace attnd
