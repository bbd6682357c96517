#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/duration_text.h"
#include "client/load/load_report.h"

namespace attnd::client {
namespace {

// First column of every line.
constexpr int kLabelWidth = 13;

void Line(std::string* text, absl::string_view label, absl::string_view rest) {
  absl::StrAppendFormat(text, "%-*s%s\n", kLabelWidth, label, rest);
}

std::string Times(const Histogram& histogram) {
  std::string text;
  for (const auto& [name, percent] : kPercentiles) {
    absl::StrAppendFormat(&text, "%s %-8s ", name,
                          DurationText(static_cast<double>(
                              histogram.ValueAtPercentile(percent))));
  }
  absl::StrAppendFormat(&text, "max %-8s mean %s +- %s",
                        DurationText(static_cast<double>(histogram.Max())),
                        DurationText(histogram.Mean()),
                        DurationText(histogram.StdDev()));
  return text;
}

// One line for each of several kinds of work or endpoints.
void Parts(std::string* text, const char* label,
           const std::vector<CallFigures>& parts, const LoadResult& result) {
  if (parts.size() < 2) return;
  for (const CallFigures& part : parts) {
    if (!part.note.empty()) {
      Line(text, label, absl::StrCat(part.name, ": ", part.note));
      continue;
    }
    Line(text, label,
         absl::StrFormat(
             "%s: %d OK, %d failed, %.1f/s, p50 %s, p99 %s", part.name, part.ok,
             part.failed, PerSecond(part.ok, result),
             DurationText(
                 static_cast<double>(part.latency_ns.ValueAtPercentile(50))),
             DurationText(
                 static_cast<double>(part.latency_ns.ValueAtPercentile(99)))));
  }
}

void Head(const LoadReport& report, std::string* text) {
  const LoadSetting& setting = report.setting;
  Line(text, "load", setting.mode);
  Line(text, "over",
       absl::StrFormat(
           "%s, %s %d in flight, %d connection%s to %s", setting.transport,
           report.arrivals || report.searched ? "at most" : "always",
           setting.in_flight, setting.connections,
           setting.connections == 1 ? "" : "s", setting.target));
  for (const std::string& work : setting.work) Line(text, "work", work);
  Line(text, "request",
       absl::StrFormat("%s, seed %u",
                       BytesText(static_cast<double>(setting.request_bytes)),
                       setting.seed));
}

void Trials(const LoadReport& report, std::string* text) {
  if (!report.searched) return;
  *text += "\n";
  absl::StrAppendFormat(text, "%10s %10s %9s %9s %8s  %s\n", "rate", "reached",
                        "p50", "p99", "errors", "verdict");
  std::vector<Trial> trials = report.trials;
  std::stable_sort(
      trials.begin(), trials.end(),
      [](const Trial& a, const Trial& b) { return a.rate < b.rate; });
  for (const Trial& trial : trials) {
    absl::StrAppendFormat(text, "%10s %10s %9s %9s %7.2f%%  %s\n",
                          RateText(trial.rate), RateText(trial.reached),
                          DurationText(static_cast<double>(trial.p50_ns)),
                          DurationText(static_cast<double>(trial.p99_ns)),
                          100 * trial.error_share,
                          trial.sustained ? "sustained" : trial.reason);
  }
  *text += "\n";
  Line(text, "largest rate",
       report.found_rate ? absl::StrCat(RateText(*report.found_rate),
                                        "/s, sustained twice in a row")
                         : "none was sustained twice in a row");
}

void Figures(const LoadReport& report, std::string* text) {
  const LoadResult& result = report.result;
  Line(text, "warm-up",
       absl::StrFormat("%s, %d calls (%d failed), not in the figures",
                       DurationText(1e9 * report.setting.warm_up_seconds),
                       result.warm_up_calls, result.warm_up_failed));
  Line(text, "measured",
       absl::StrFormat("%s, %d planned, %d OK, %d failed, %d dropped",
                       DurationText(1e9 * result.span_seconds), result.planned,
                       result.all.ok, result.all.failed, result.dropped));
  std::string planned;
  if (report.arrivals) {
    planned =
        absl::StrCat(" of ", RateText(result.PlannedRate()), "/s planned");
  }
  Line(text, "throughput",
       absl::StrFormat(
           "%.1f answers/s%s, sent %s/s, received %s/s", result.Throughput(),
           planned, BytesText(PerSecond(result.all.request_bytes, result)),
           BytesText(PerSecond(result.all.response_bytes, result))));
  Line(text, "latency", Times(result.all.latency_ns));
  if (report.arrivals) Line(text, "service", Times(result.all.service_ns));
  Parts(text, "by work", result.work, result);
  Parts(text, "by endpoint", result.endpoints, result);
  if (result.attempts > result.planned - result.dropped) {
    Line(text, "attempts",
         absl::StrFormat("%d for %d calls", result.attempts,
                         result.planned - result.dropped));
  }
  for (const auto& [code, errors] : result.all.errors) {
    Line(text, "failed",
         absl::StrFormat("%d x %s: %s", errors.count,
                         absl::StatusCodeToString(code), errors.example));
  }
}

void ClientLine(const LoadReport& report, std::string* text) {
  const LoadResult& result = report.result;
  std::string lag;
  if (result.lag_ns.count() > 0) {
    lag = absl::StrCat(
        ", late by p99 ",
        DurationText(static_cast<double>(result.lag_ns.ValueAtPercentile(99))));
  }
  Line(text, "client",
       absl::StrFormat(
           "%.0f %% of a processor, busiest thread %.0f %%, %.0f us a call%s",
           100 * result.client_cpu_seconds / std::max(result.run_seconds, 1e-9),
           100 * result.thread_cpu_seconds / std::max(result.run_seconds, 1e-9),
           1e6 * CpuPerAttempt(result), lag));
}

void Servers(const LoadReport& report, std::string* text) {
  for (const ServerMetrics& server : report.servers) {
    const auto mean = [&](const char* stage) {
      const std::string labels = absl::StrCat("{stage=\"", stage, "\"}");
      const double count =
          server.Difference("attnd_stage_seconds_count" + labels);
      return count > 0
                 ? server.Difference("attnd_stage_seconds_sum" + labels) / count
                 : 0;
    };
    Line(text, "server",
         absl::StrFormat(
             "%s: queue %s, compute %s a request; offered %.3g, busy %.3g "
             "worker seconds; processor %.3g s; memory %s at most",
             server.url, DurationText(1e9 * mean("queue")),
             DurationText(1e9 * mean("compute")),
             server.Difference("attnd_offered_worker_seconds_total"),
             server.Difference("attnd_worker_busy_seconds_total"),
             server.Difference("process_cpu_seconds_total"),
             BytesText(server.Largest("process_resident_memory_bytes"))));
    for (const auto& [tenant, seconds] : OfferedByTenant(server)) {
      Line(text, "by tenant",
           absl::StrFormat("%s: offered %.3g worker seconds", tenant, seconds));
    }
  }
}

void Verdicts(const LoadReport& report, std::string* text) {
  if (const auto& verification = report.verification) {
    std::string rest;
    if (verification->unverifiable > 0) {
      absl::StrAppendFormat(&rest, "; %d more not verifiable",
                            verification->unverifiable);
    }
    if (verification->not_kept > 0) {
      absl::StrAppendFormat(&rest, "; %d more not kept",
                            verification->not_kept);
    }
    Line(text, "verified",
         absl::StrFormat("%d answers, %d wrong; largest error %.2g of the "
                         "contract's bound%s",
                         verification->checked, verification->wrong,
                         verification->largest_error_share, rest));
    for (const std::string& mismatch : verification->mismatches) {
      Line(text, "WRONG", mismatch);
    }
    for (const std::string& reason : verification->unverified) {
      Line(text, "UNVERIFIED", reason);
    }
  }
  for (const SloCheck& check : report.slo) {
    Line(text, check.met ? "met" : "MISSED",
         absl::StrCat(check.clause, "  (", check.found, ")"));
  }
  for (const std::string& remark : report.remarks) Line(text, "note", remark);
  for (const std::string& reason : report.invalid) {
    Line(text, "INVALID", reason);
  }
}

}  // namespace

double CpuPerAttempt(const LoadResult& result) {
  const double attempts =
      static_cast<double>(result.attempts + result.warm_up_calls);
  return attempts > 0 ? result.client_cpu_seconds / attempts : 0;
}

double PerSecond(int64_t amount, const LoadResult& result) {
  return result.span_seconds > 0
             ? static_cast<double>(amount) / result.span_seconds
             : 0;
}

std::string RateText(double per_second) {
  return per_second < 1000 ? absl::StrFormat("%.4g", per_second)
                           : absl::StrFormat("%.0f", per_second);
}

std::string BytesText(double bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (std::abs(bytes) >= 1024 && unit < 4) {
    bytes /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.*f %s", unit == 0 ? 0 : 2, bytes, units[unit]);
}

std::string ReportText(const LoadReport& report) {
  std::string text;
  Head(report, &text);
  Trials(report, &text);
  Figures(report, &text);
  ClientLine(report, &text);
  Servers(report, &text);
  Verdicts(report, &text);
  return text;
}

}  // namespace attnd::client
