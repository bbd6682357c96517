#include "client/load/report_charts.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "client/plot/chart.h"

namespace attnd::client {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double Ms(int64_t ns) { return 1e-6 * static_cast<double>(ns); }

// Values of the rows of the timeline, at the middle of each.
template <typename Value>
std::vector<ChartPoint> OverTime(const Timeline& timeline, Value value) {
  const double row_seconds = 1e-9 * static_cast<double>(timeline.row_ns());
  std::vector<ChartPoint> points;
  for (int i = 0; i < timeline.size(); ++i) {
    points.push_back({(i + 0.5) * row_seconds, value(timeline.row(i))});
  }
  return points;
}

// What was counted, per second.
ChartLine CountLine(const Timeline& timeline, const char* label, int color,
                    int64_t TimelineRow::*count) {
  const double row_seconds = 1e-9 * static_cast<double>(timeline.row_ns());
  return {.label = label,
          .color = kChartColors[color],
          .points = OverTime(timeline, [&](const TimelineRow& row) {
            return static_cast<double>(row.*count) / row_seconds;
          })};
}

// Value over log10(1 / (1 - p)): each nine as wide as the one before.
std::vector<ChartPoint> PercentileCurve(const Histogram& histogram) {
  std::vector<ChartPoint> points;
  if (histogram.count() == 0) return points;
  const double nines =
      std::log10(static_cast<double>(std::max<int64_t>(histogram.count(), 10)));
  constexpr int kSteps = 200;
  for (int i = 0; i <= kSteps; ++i) {
    const double x = nines * i / kSteps;
    const double percent = i == kSteps ? 100 : 100 * (1 - std::pow(10, -x));
    points.push_back({x, Ms(histogram.ValueAtPercentile(percent))});
  }
  return points;
}

// A gauge, or a counter's change per second between scrapes.
ChartLine MetricLine(const ServerMetrics& server, const char* label,
                     const std::string& name, bool counter, double scale,
                     int color) {
  ChartLine line = {.label = label, .color = kChartColors[color]};
  for (size_t i = counter ? 1 : 0; i < server.samples.size(); ++i) {
    const MetricSample& sample = server.samples[i];
    const auto found = sample.values.find(name);
    double y = found == sample.values.end() ? kNone : found->second * scale;
    if (counter) {
      const MetricSample& before = server.samples[i - 1];
      const auto old = before.values.find(name);
      y = old == before.values.end()
              ? kNone
              : (y - old->second * scale) / (sample.seconds - before.seconds);
    }
    line.points.push_back({sample.seconds, y});
  }
  return line;
}

// Scrapes begin before the warm-up; the other charts with the measured part.
constexpr char kSinceScrape[] = "seconds since the first scrape";

}  // namespace

std::string LatencyChart(const LoadReport& report) {
  Chart chart = {.title = "Latency over time, by planned moment",
                 .x_label = "seconds",
                 .y_label = "ms",
                 .log_y = true};
  int color = 0;
  for (const auto& [label, percent] :
       {NamedPercentile{"p50", 50}, {"p99", 99}, {"max", 100}}) {
    chart.lines.push_back(
        {.label = label,
         .color = kChartColors[color++],
         .points = OverTime(report.result.timeline,
                            [percent = percent](const TimelineRow& row) {
                              return row.latency_ns.count() > 0
                                         ? Ms(row.latency_ns.ValueAtPercentile(
                                               percent))
                                         : kNone;
                            })});
  }
  return ChartSvg(chart, "latency");
}

std::string RateChart(const LoadReport& report) {
  const Timeline& timeline = report.result.timeline;
  const double row_seconds = 1e-9 * static_cast<double>(timeline.row_ns());
  Chart chart = {
      .title = "Rate", .x_label = "seconds", .y_label = "per second"};
  if (report.arrivals) {
    chart.lines.push_back({.label = "planned", .color = "#777", .dash = "6 4"});
    for (int i = 0; i < timeline.size(); ++i) {
      const double at = (i + 0.5) * row_seconds;
      chart.lines.back().points.push_back(
          {at, report.arrivals->RateAt(report.setting.warm_up_seconds + at)});
    }
  }
  chart.lines.push_back(
      CountLine(timeline, "started", 0, &TimelineRow::started));
  chart.lines.push_back(CountLine(timeline, "answered", 2, &TimelineRow::ok));
  return ChartSvg(chart, "rate");
}

std::string ErrorChart(const LoadReport& report) {
  const LoadResult& result = report.result;
  if (result.all.failed + result.dropped == 0) return "";
  Chart chart = {.title = "Failed and dropped",
                 .x_label = "seconds",
                 .y_label = "per second",
                 .height = 220};
  chart.lines = {
      CountLine(result.timeline, "failed", 1, &TimelineRow::failed),
      CountLine(result.timeline, "dropped", 4, &TimelineRow::dropped)};
  return ChartSvg(chart, "errors");
}

std::string PercentileChart(const LoadReport& report) {
  const LoadResult& result = report.result;
  Chart chart = {.title = "Percentiles",
                 .x_label = "share of answers that took no longer",
                 .y_label = "ms",
                 .lines = {{.label = "latency (from the planned moment)",
                            .color = kChartColors[0],
                            .points = PercentileCurve(result.all.latency_ns)},
                           {.label = "service time (from sending)",
                            .color = kChartColors[1],
                            .points = PercentileCurve(result.all.service_ns),
                            .dash = "6 4"}},
                 .x_marks = {{0, "0 %"},
                             {std::log10(2), "50 %"},
                             {1, "90 %"},
                             {2, "99 %"},
                             {3, "99.9 %"},
                             {4, "99.99 %"},
                             {5, "99.999 %"}},
                 .log_y = true};
  return ChartSvg(chart, "percentiles");
}

std::string KneeChart(const std::vector<Trial>& trials) {
  Chart chart = {
      .title = "Latency by rate: the knee",
      .x_label = "planned per second",
      .y_label = "ms",
      .lines = {{.label = "p50", .color = kChartColors[0], .dots = true},
                {.label = "p99", .color = kChartColors[1], .dots = true}},
      .log_y = true};
  for (const Trial& trial : trials) {
    chart.lines[0].points.push_back({trial.rate, Ms(trial.p50_ns)});
    chart.lines[1].points.push_back({trial.rate, Ms(trial.p99_ns)});
  }
  return ChartSvg(chart, "knee");
}

std::string ServerCharts(const ServerMetrics& server, const std::string& name) {
  Chart load = {
      .title = "Workers",
      .x_label = kSinceScrape,
      .y_label = "worker seconds per second",
      .lines = {MetricLine(server, "offered",
                           "attnd_offered_worker_seconds_total", true, 1, 1),
                MetricLine(server, "busy", "attnd_worker_busy_seconds_total",
                           true, 1, 0)},
      .height = 240};
  Chart queue = {.title = "Requests at the server",
                 .x_label = kSinceScrape,
                 .y_label = "requests",
                 .lines = {MetricLine(server, "waiting",
                                      "attnd_requests_waiting", false, 1, 1),
                           MetricLine(server, "running",
                                      "attnd_requests_running", false, 1, 0)},
                 .height = 220};
  Chart memory = {
      .title = "Memory",
      .x_label = kSinceScrape,
      .y_label = "MiB resident",
      .lines = {MetricLine(server, "resident", "process_resident_memory_bytes",
                           false, 1.0 / (1 << 20), 0)},
      .height = 220};
  return absl::StrCat(ChartSvg(load, name + "load"),
                      ChartSvg(queue, name + "queue"),
                      ChartSvg(memory, name + "memory"));
}

}  // namespace attnd::client
