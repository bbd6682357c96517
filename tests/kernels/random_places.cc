#include "tests/kernels/random_places.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/kernels/random_parts.h"
#include "tests/kernels/random_problem.h"

namespace attnd::testing {
namespace {

using Kind = TimeAxis::Kind;

// A coordinate behind each time: whole steps, as of patches and frames, or
// anything within the span.
void AddCoordinate(Random& random, double span, ProblemSpec& spec) {
  const int64_t origin = random.Pick(std::vector<int64_t>{
      0, 1'700'000'000'000'000'000, -1'700'000'000'000'000'000});
  const double step = random.Coin() ? span / 8 : 1;
  const auto most = static_cast<int64_t>(span / step);
  const int had = spec.coordinates++;
  for (auto* ticks : {&spec.query_ticks, &spec.key_ticks}) {
    std::vector<int64_t> wider;
    for (size_t e = 0; e < ticks->size(); ++e) {
      wider.push_back((*ticks)[e]);
      if ((e + 1) % had != 0) continue;
      wider.push_back(origin +
                      static_cast<int64_t>(
                          step * static_cast<double>(random.Integer(0, most))));
    }
    *ticks = std::move(wider);
  }
}

int64_t UnitOf(double span_ns, double units) {
  return static_cast<int64_t>(
      std::clamp(std::round(span_ns / units), 1.0, 9e18));
}

// The same places as doubles, in `tick_ns`, with parts of a tick.
void MakeReal(Random& random, int64_t tick_ns, ProblemSpec& spec) {
  for (auto [ticks, real] : {std::pair(&spec.query_ticks, &spec.query_real),
                             std::pair(&spec.key_ticks, &spec.key_real)}) {
    real->clear();
    for (const int64_t t : *ticks) {
      real->push_back(static_cast<double>(t) / static_cast<double>(tick_ns));
      // Some stand on the grid, with ties.
      if (tick_ns == 1 && random.Coin()) real->back() += random.Uniform();
    }
    ticks->clear();
  }
}

}  // namespace

double SetRandomPlaces(Random& random, ProblemSpec& spec) {
  spec.coordinates = 1;
  const bool ranges = !spec.key_ranges.empty();
  if (spec.kind == Kind::kPositions) {
    spec.ratio = {};
    if (ranges) spec.key_ranges = RandomRanges(random, spec);
    return static_cast<double>(std::max(spec.queries, spec.keys));
  }
  const Kind kind = spec.kind;
  const double span_ns = LogUniform(random, 1, 3e18);
  const double units = LogUniform(random, 1e-3, 1e6);
  SetRandomTimes(random, Kind::kTicks, random.Coin(), 1e-9 * span_ns, spec);
  spec.query_real.clear();
  spec.key_real.clear();
  spec.ratio = {.tick_ns = 1, .unit_ns = UnitOf(span_ns, units)};
  spec.encoding->coordinate_unit_ns.clear();
  if (random.Coin()) {
    for (int64_t more = random.Integer(1, 2); more > 0; --more) {
      const double along_ns = LogUniform(random, 1, 3e18);
      AddCoordinate(random, along_ns, spec);
      spec.encoding->coordinate_unit_ns.push_back(UnitOf(along_ns, units));
    }
  }
  if (kind == Kind::kReal) {
    spec.kind = kind;
    spec.ratio.tick_ns =
        random.Pick(std::vector<int64_t>{1, 1'000'000'000, 86'400'000'000'000});
    MakeReal(random, spec.ratio.tick_ns, spec);
  }
  spec.encoding->unit_ns = spec.ratio.unit_ns;
  const double span = span_ns / static_cast<double>(spec.ratio.unit_ns);
  const double ticks = span / spec.ratio.units_per_tick();
  if (spec.past_ticks) {
    spec.past_time = ticks * LogUniform(random, 1e-3, 1);
    spec.past_ticks = static_cast<int64_t>(*spec.past_time);
  }
  if (spec.future_ticks) {
    spec.future_time = ticks * LogUniform(random, 1e-3, 1);
    spec.future_ticks = static_cast<int64_t>(*spec.future_time);
  }
  if (ranges) spec.key_ranges = RandomRanges(random, spec);
  return span;
}

double PlaceOfRow(const ProblemSpec& spec, bool query, int64_t item,
                  int64_t row) {
  const int64_t rows = query ? spec.queries : spec.keys;
  const auto at = [&](const auto& times) {
    const int64_t count = rows * spec.coordinates;
    const bool per_item = static_cast<int64_t>(times.size()) > count;
    return times[(per_item ? item * count : 0) + row * spec.coordinates];
  };
  if (spec.kind == Kind::kTicks) {
    const auto ticks =
        static_cast<__int128>(at(query ? spec.query_ticks : spec.key_ticks)) -
        spec.key_ticks[0];
    return static_cast<double>(ticks) * spec.ratio.units_per_tick();
  }
  if (spec.kind == Kind::kReal) {
    return (at(query ? spec.query_real : spec.key_real) - spec.key_real[0]) *
           spec.ratio.units_per_tick();
  }
  int64_t first_query = 0, queries = spec.queries, first_key = 0,
          keys = spec.keys;
  if (!spec.query_lengths.empty()) queries = spec.query_lengths[item];
  if (!spec.key_lengths.empty()) keys = spec.key_lengths[item];
  const auto& offsets = query ? spec.query_offsets : spec.key_offsets;
  if (!offsets.empty()) {
    size_t n = 0;
    while (row >= offsets[n + 1]) ++n;
    first_query = spec.query_offsets[n];
    first_key = spec.key_offsets[n];
    queries = spec.query_offsets[n + 1] - first_query;
    keys = spec.key_offsets[n + 1] - first_key;
  }
  return static_cast<double>(query ? row - first_query + keys - queries
                                   : row - first_key);
}

double LongestGap(const ProblemSpec& spec) {
  if (spec.kind == Kind::kPositions) {
    return static_cast<double>(spec.queries + spec.keys);
  }
  double longest = 0;
  for (int c = 0; c < spec.coordinates; ++c) {
    double first = INFINITY, last = -INFINITY;
    const auto look = [&](const auto& times) {
      for (size_t e = c; e < times.size(); e += spec.coordinates) {
        first = std::min(first, static_cast<double>(times[e]));
        last = std::max(last, static_cast<double>(times[e]));
      }
    };
    look(spec.query_ticks);
    look(spec.key_ticks);
    look(spec.query_real);
    look(spec.key_real);
    const int64_t unit =
        c == 0 ? spec.ratio.unit_ns : spec.encoding->coordinate_unit_ns[c - 1];
    longest = std::max(longest, (last - first) *
                                    static_cast<double>(spec.ratio.tick_ns) /
                                    static_cast<double>(unit));
  }
  return longest;
}

}  // namespace attnd::testing
