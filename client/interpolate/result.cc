#include "client/interpolate/result.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/interpolate/csv.h"
#include "client/interpolate/straight_line.h"

namespace attnd::client {
namespace {

// What the rows at one time say.
struct RowsAt {
  double sum = 0;
  int64_t count = 0;
  const char* state = "missing";
};

// Numbers with as many digits as needed and no more than a float has.
std::string Number(double value) {
  return std::isnan(value) ? "" : absl::StrFormat("%.7g", value);
}

double Space(int64_t from, int64_t to) {
  return static_cast<double>(absl::int128(to) - from);
}

// Runs of hidden observations without a visible one between, each reaching to
// its visible neighbours: there the straight line begins.
std::vector<PlotStretch> HiddenStretches(const Split& split) {
  std::vector<PlotStretch> stretches;
  const std::vector<int64_t>& visible = split.visible.time_ns;
  for (int64_t ns : split.hidden.time_ns) {
    const auto after = std::upper_bound(visible.begin(), visible.end(), ns);
    const PlotStretch stretch = {
        after == visible.begin() ? ns : *std::prev(after),
        after == visible.end() ? ns : *after};
    if (stretches.empty() || stretches.back().end_ns < stretch.end_ns) {
      stretches.push_back(stretch);
    }
  }
  return stretches;
}

std::vector<PlotPoint> Finite(absl::Span<const int64_t> times_ns,
                              absl::Span<const double> values) {
  std::vector<PlotPoint> points;
  for (size_t i = 0; i < times_ns.size(); ++i) {
    if (std::isfinite(values[i])) points.push_back({times_ns[i], values[i]});
  }
  return points;
}

}  // namespace

double Estimates::At(int64_t ns) const {
  return value[std::lower_bound(time_ns.begin(), time_ns.end(), ns) -
               time_ns.begin()];
}

std::string ResultCsv(const Series& series, const Split& split,
                      const Estimates& estimates,
                      absl::Span<const int64_t> wanted_ns,
                      const TimeFormat& format) {
  std::map<int64_t, RowsAt> rows;
  for (int64_t ns : split.missing_ns) rows[ns];
  const auto add = [&](const Points& points, const char* state) {
    for (size_t i = 0; i < points.time_ns.size(); ++i) {
      RowsAt& at = rows[points.time_ns[i]];
      at.sum += points.value[i];
      ++at.count;
      at.state = state;
    }
  };
  add(split.hidden, "hidden");
  add(split.visible, "observed");

  const std::vector<std::string> texts = TimeTexts(wanted_ns, format);
  std::string csv =
      absl::StrCat(CsvField(series.time_name), ",estimate,observed,state\n");
  for (size_t i = 0; i < wanted_ns.size(); ++i) {
    const auto found = rows.find(wanted_ns[i]);
    absl::StrAppend(&csv, texts[i], ",", Number(estimates.At(wanted_ns[i])),
                    ",");
    if (found != rows.end()) {
      const RowsAt& at = found->second;
      if (at.count > 0) {
        absl::StrAppend(&csv, Number(at.sum / static_cast<double>(at.count)));
      }
      absl::StrAppend(&csv, ",", at.state);
    } else {
      absl::StrAppend(&csv, ",");
    }
    absl::StrAppend(&csv, "\n");
  }
  return csv;
}

Verdict Judge(const Split& split, const Estimates& estimates) {
  std::vector<double> attention;
  for (int64_t ns : split.hidden.time_ns) attention.push_back(estimates.At(ns));
  return {.attention = RootMeanSquare(attention, split.hidden.value),
          .straight_line = RootMeanSquare(
              StraightLine(split.visible.time_ns, split.visible.value,
                           split.hidden.time_ns),
              split.hidden.value)};
}

std::string VerdictText(const Verdict& verdict, const std::string& unit,
                        const std::string& plot_path) {
  const std::string space = unit.empty() ? "" : " ";
  return absl::StrFormat(
      "held-out rmse: attention %.3g%s%s, straight line %.3g%s%s%s%s",
      verdict.attention, space, unit, verdict.straight_line, space, unit,
      plot_path.empty() ? "" : ", plot ", plot_path);
}

std::vector<PlotStretch> MissingStretches(const Series& series) {
  const std::set<int64_t> rows(series.time_ns.begin(), series.time_ns.end());
  std::vector<int64_t> known;
  for (size_t i = 0; i < series.time_ns.size(); ++i) {
    if (!std::isnan(series.value[i])) known.push_back(series.time_ns[i]);
  }
  std::vector<double> spacing;
  for (auto at = rows.begin(); at != rows.end() && std::next(at) != rows.end();
       ++at) {
    spacing.push_back(Space(*at, *std::next(at)));
  }
  if (spacing.empty()) return {};
  const auto middle = spacing.begin() + spacing.size() / 2;
  std::nth_element(spacing.begin(), middle, spacing.end());

  std::vector<PlotStretch> stretches;
  for (size_t i = 1; i < known.size(); ++i) {
    if (Space(known[i - 1], known[i]) > 1.5 * *middle) {
      stretches.push_back({known[i - 1], known[i]});
    }
  }
  return stretches;
}

PlotData MakePlotData(const Series& series, const Split& split,
                      const Estimates& estimates) {
  PlotData data;
  data.observed = Finite(split.visible.time_ns, split.visible.value);
  data.hidden = Finite(split.hidden.time_ns, split.hidden.value);
  data.estimate = Finite(estimates.time_ns, estimates.value);
  data.hidden_stretches = HiddenStretches(split);
  data.missing_stretches = MissingStretches(series);
  std::set<int64_t> line_times(split.hidden.time_ns.begin(),
                               split.hidden.time_ns.end());
  for (const PlotStretch& stretch : data.hidden_stretches) {
    line_times.insert({stretch.begin_ns, stretch.end_ns});
  }
  const std::vector<int64_t> times(line_times.begin(), line_times.end());
  if (!split.visible.time_ns.empty()) {
    data.straight_line = Finite(
        times, StraightLine(split.visible.time_ns, split.visible.value, times));
  }
  return data;
}

}  // namespace attnd::client
