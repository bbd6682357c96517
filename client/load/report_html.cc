#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "client/duration_text.h"
#include "client/load/load_report.h"
#include "client/load/report_charts.h"
#include "client/plot/svg.h"

namespace attnd::client {
namespace {

constexpr char kStyle[] = R"(
body { margin: 2em auto; max-width: 1160px; padding: 0 1em; color: #222;
       font: 15px/1.45 Helvetica, Arial, "DejaVu Sans", sans-serif; }
h1 { font-size: 24px; margin-bottom: 0; }
h2 { font-size: 18px; margin-top: 2em; }
table { border-collapse: collapse; margin: .6em 0; }
td, th { padding: .25em .9em .25em 0; text-align: left; vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
tr { border-bottom: 1px solid #e3e6ea; }
svg { width: 100%; height: auto; margin: .4em 0; }
.good { color: #00664d; font-weight: bold; }
.bad { color: #a33b00; font-weight: bold; }
.tiles { display: flex; flex-wrap: wrap; gap: 1em; margin: 1em 0; }
.tile { border: 1px solid #c3c9d0; border-radius: 6px; padding: .6em 1.1em; }
.tile b { display: block; font-size: 22px; }
)";

std::string Time(int64_t ns) { return DurationText(static_cast<double>(ns)); }

std::string Cell(const std::string& text, const char* kind = "") {
  return absl::StrCat("<td", kind, ">", XmlText(text), "</td>");
}
constexpr char kNumber[] = " class=\"n\"";

std::string Tile(const std::string& value, const std::string& label) {
  return absl::StrCat("<div class=\"tile\"><b>", XmlText(value), "</b>",
                      XmlText(label), "</div>\n");
}

std::string Verdict(const LoadReport& report) {
  if (!report.invalid.empty()) {
    return "<p class=\"bad\">INVALID: these figures must not be used</p>\n";
  }
  if (report.verification && !report.verification->Passed()) {
    return absl::StrCat(
        "<p class=\"bad\">Answers ",
        report.verification->wrong > 0 ? "were wrong" : "could not be verified",
        "</p>\n");
  }
  if (!AllMet(report.slo)) {
    return "<p class=\"bad\">Service level missed</p>\n";
  }
  return absl::StrCat("<p class=\"good\">Valid run",
                      report.slo.empty() ? "" : ", service levels met",
                      "</p>\n");
}

std::string Tiles(const LoadReport& report) {
  const LoadResult& result = report.result;
  const Histogram& latency = result.all.latency_ns;
  std::string html = "<div class=\"tiles\">\n";
  if (report.searched) {
    html += Tile(report.found_rate
                     ? absl::StrCat(RateText(*report.found_rate), "/s")
                     : "none",
                 "largest sustained rate");
  }
  html += Tile(absl::StrCat(RateText(result.Throughput()), "/s"), "answers");
  html += Tile(Time(latency.ValueAtPercentile(50)), "latency p50");
  html += Tile(Time(latency.ValueAtPercentile(99)), "latency p99");
  html += Tile(Time(latency.Max()), "latency max");
  html += Tile(absl::StrFormat("%.3g %%", 100 * result.ErrorShare()),
               "failed or dropped");
  return html + "</div>\n";
}

std::string NotesTable(const LoadReport& report) {
  std::string rows;
  for (const std::string& reason : report.invalid) {
    absl::StrAppend(&rows, "<tr><td class=\"bad\">invalid</td>", Cell(reason),
                    "</tr>\n");
  }
  for (const SloCheck& check : report.slo) {
    absl::StrAppend(&rows, "<tr><td class=\"",
                    check.met ? "good\">met" : "bad\">missed", "</td>",
                    Cell(absl::StrCat(check.clause, " (", check.found, ")")),
                    "</tr>\n");
  }
  if (const auto& verification = report.verification) {
    absl::StrAppend(&rows, "<tr><td class=\"",
                    verification->Passed()     ? "good\">verified"
                    : verification->wrong == 0 ? "bad\">not verified"
                                               : "bad\">wrong",
                    "</td>",
                    Cell(absl::StrFormat(
                        "%d answers, %d wrong; largest error %.2g of the "
                        "bound; %d more not verifiable, %d not kept",
                        verification->checked, verification->wrong,
                        verification->largest_error_share,
                        verification->unverifiable, verification->not_kept)),
                    "</tr>\n");
    for (const auto* texts :
         {&verification->mismatches, &verification->unverified}) {
      for (const std::string& text : *texts) {
        absl::StrAppend(&rows, "<tr><td></td>", Cell(text), "</tr>\n");
      }
    }
  }
  for (const std::string& remark : report.remarks) {
    absl::StrAppend(&rows, "<tr><td>note</td>", Cell(remark), "</tr>\n");
  }
  return rows.empty() ? "" : absl::StrCat("<table>\n", rows, "</table>\n");
}

std::string SettingTable(const LoadReport& report) {
  const LoadSetting& setting = report.setting;
  std::string work;
  for (const std::string& kind : setting.work) {
    absl::StrAppend(&work, work.empty() ? "" : "; ", kind);
  }
  const std::pair<const char*, std::string> rows[] = {
      {"Load", setting.mode},
      {"Target", absl::StrFormat(
                     "%s, %s, connections: %d, in flight: %s %d",
                     setting.target, setting.transport, setting.connections,
                     report.arrivals || report.searched ? "at most" : "always",
                     setting.in_flight)},
      {"Work",
       absl::StrFormat("%s; %s a request, seed %u", work,
                       BytesText(static_cast<double>(setting.request_bytes)),
                       setting.seed)},
      {"Started",
       absl::FormatTime(
           "%Y-%m-%d %H:%M:%S UTC",
           absl::UnixEpoch() + absl::Seconds(setting.start_epoch_seconds),
           absl::UTCTimeZone())},
      {"Measured",
       absl::StrFormat("%s after a warm-up of %s",
                       DurationText(1e9 * report.result.span_seconds),
                       DurationText(1e9 * setting.warm_up_seconds))},
      {"Client", absl::StrFormat(
                     "attnctl %s, %.0f us of processor a call, late by p99 %s",
                     setting.client_version, 1e6 * CpuPerAttempt(report.result),
                     Time(report.result.lag_ns.ValueAtPercentile(99)))}};
  std::string html = "<table>\n";
  for (const auto& [name, value] : rows) {
    absl::StrAppend(&html, "<tr><th>", name, "</th>", Cell(value), "</tr>\n");
  }
  return html + "</table>\n";
}

std::string FiguresRow(const CallFigures& figures, const char* what,
                       const Histogram& histogram, const LoadResult& result) {
  std::string html =
      absl::StrCat("<tr>", Cell(absl::StrCat(figures.name, what)),
                   Cell(absl::StrCat(figures.ok), kNumber),
                   Cell(absl::StrCat(figures.failed), kNumber),
                   Cell(RateText(PerSecond(figures.ok, result)), kNumber));
  for (const auto& [name, percent] : kPercentiles) {
    absl::StrAppend(&html,
                    Cell(Time(histogram.ValueAtPercentile(percent)), kNumber));
  }
  return absl::StrCat(html, Cell(Time(histogram.Max()), kNumber), "</tr>\n");
}

std::string FiguresTable(const LoadReport& report) {
  const LoadResult& result = report.result;
  std::string html =
      "<table>\n<tr><th></th><th class=\"n\">OK</th><th class=\"n\">failed</th>"
      "<th class=\"n\">per second</th>";
  for (const auto& [name, percent] : kPercentiles) {
    absl::StrAppend(&html, "<th class=\"n\">", name, "</th>");
  }
  html += "<th class=\"n\">max</th></tr>\n";
  html += FiguresRow(result.all, ", latency from the planned moment",
                     result.all.latency_ns, result);
  html += FiguresRow(result.all, ", service time from sending",
                     result.all.service_ns, result);
  for (const auto* parts : {&result.work, &result.endpoints}) {
    if (parts->size() < 2) continue;
    for (const CallFigures& part : *parts) {
      if (!part.note.empty()) {
        absl::StrAppend(&html, "<tr>", Cell(part.name), Cell("0", kNumber),
                        Cell("0", kNumber), "<td colspan=\"6\">",
                        XmlText(part.note), "</td></tr>\n");
        continue;
      }
      html += FiguresRow(part, "", part.latency_ns, result);
    }
  }
  html += "</table>\n";
  if (result.all.errors.empty()) return html;
  html +=
      "<table>\n<tr><th>Error</th><th class=\"n\">calls</th>"
      "<th>first text</th></tr>\n";
  for (const auto& [code, errors] : result.all.errors) {
    absl::StrAppend(&html, "<tr>", Cell(absl::StatusCodeToString(code)),
                    Cell(absl::StrCat(errors.count), kNumber),
                    Cell(errors.example), "</tr>\n");
  }
  return html + "</table>\n";
}

std::string Knee(const LoadReport& report) {
  if (!report.searched) return "";
  std::vector<Trial> trials = report.trials;
  std::stable_sort(
      trials.begin(), trials.end(),
      [](const Trial& a, const Trial& b) { return a.rate < b.rate; });
  std::string table =
      "<table>\n<tr><th class=\"n\">planned/s</th><th "
      "class=\"n\">reached/s</th>"
      "<th class=\"n\">p50</th><th class=\"n\">p99</th>"
      "<th class=\"n\">errors</th><th>verdict</th></tr>\n";
  for (const Trial& trial : trials) {
    absl::StrAppend(
        &table, "<tr>", Cell(RateText(trial.rate), kNumber),
        Cell(RateText(trial.reached), kNumber),
        Cell(Time(trial.p50_ns), kNumber), Cell(Time(trial.p99_ns), kNumber),
        Cell(absl::StrFormat("%.3g %%", 100 * trial.error_share), kNumber),
        Cell(trial.sustained ? "sustained" : trial.reason), "</tr>\n");
  }
  return absl::StrCat("<h2>Search</h2>\n", KneeChart(trials), table,
                      "</table>\n");
}

std::string ServerTable(const ServerMetrics& server) {
  const std::pair<const char*, const char*> counters[] = {
      {"queue, seconds", "attnd_stage_seconds_sum{stage=\"queue\"}"},
      {"compute, seconds", "attnd_stage_seconds_sum{stage=\"compute\"}"},
      {"offered, worker seconds", "attnd_offered_worker_seconds_total"},
      {"admitted, worker seconds", "attnd_admitted_worker_seconds_total"},
      {"busy, worker seconds", "attnd_worker_busy_seconds_total"},
      {"refused", "attnd_rejected_total"},
      {"processor, seconds", "process_cpu_seconds_total"},
      {"resident memory", "process_resident_memory_bytes"}};
  std::string html =
      "<table>\n<tr><th></th><th class=\"n\">before</th>"
      "<th class=\"n\">after</th><th class=\"n\">difference</th></tr>\n";
  for (const auto& [label, name] : counters) {
    if (!server.Has(name)) continue;
    const double after = server.samples.back().values.at(name);
    const double difference = server.Difference(name);
    const bool bytes = absl::EndsWith(name, "_bytes");
    absl::StrAppend(&html, "<tr>", Cell(label));
    for (double value : {after - difference, after, difference}) {
      absl::StrAppend(
          &html, Cell(bytes ? BytesText(value) : absl::StrFormat("%.6g", value),
                      kNumber));
    }
    html += "</tr>\n";
  }
  for (const auto& [tenant, seconds] : OfferedByTenant(server)) {
    absl::StrAppend(
        &html, "<tr>",
        Cell(absl::StrCat("offered by tenant ", tenant, ", worker seconds")),
        Cell(""), Cell(""), Cell(absl::StrFormat("%.6g", seconds), kNumber),
        "</tr>\n");
  }
  return html + "</table>\n";
}

std::string Servers(const LoadReport& report) {
  std::string html;
  for (size_t i = 0; i < report.servers.size(); ++i) {
    const ServerMetrics& server = report.servers[i];
    absl::StrAppend(&html, "<h2>Server ", XmlText(server.url), "</h2>\n",
                    ServerTable(server),
                    // Letters only: a, b, ...
                    ServerCharts(server, std::string(i + 1, 's')));
  }
  return html;
}

}  // namespace

std::string ReportHtml(const LoadReport& report) {
  return absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n"
      "<title>attnctl load</title>\n<style>",
      kStyle, "</style>\n</head>\n<body>\n<h1>attnctl load</h1>\n",
      Verdict(report), Tiles(report), NotesTable(report), SettingTable(report),
      Knee(report),
      report.searched ? "<h2>The run at that rate</h2>\n"
                      : "<h2>Figures</h2>\n",
      FiguresTable(report), LatencyChart(report), PercentileChart(report),
      RateChart(report), ErrorChart(report), Servers(report),
      "</body>\n</html>\n");
}

}  // namespace attnd::client
