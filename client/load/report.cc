#include "client/load/report.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/duration_text.h"
#include "client/json_writer.h"

namespace attnd::client {
namespace {

constexpr std::pair<const char*, double> kPercentiles[] = {
    {"p50", 50}, {"p90", 90}, {"p99", 99}, {"p99.9", 99.9}};

std::string BytesText(double bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 4) {
    bytes /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.*f %s", unit == 0 ? 0 : 2, bytes, units[unit]);
}

// Per second of the span.
double Rate(int64_t amount, const LoadResult& result) {
  return result.span_seconds > 0
             ? static_cast<double>(amount) / result.span_seconds
             : 0;
}

double CpuShare(const LoadResult& result) {
  return result.span_seconds > 0
             ? result.client_cpu_seconds / result.span_seconds
             : 0;
}

void WriteLatency(const LoadResult& result, JsonWriter* json) {
  const Histogram& latency = result.latency_ns;
  json->Key("latency_seconds");
  json->BeginObject();
  json->Field("count", latency.count());
  json->Field("min", 1e-9 * static_cast<double>(latency.Min()));
  json->Field("mean", 1e-9 * latency.Mean());
  json->Field("stddev", 1e-9 * latency.StdDev());
  for (const auto& [name, percent] : kPercentiles) {
    json->Field(name,
                1e-9 * static_cast<double>(latency.ValueAtPercentile(percent)));
  }
  json->Field("max", 1e-9 * static_cast<double>(latency.Max()));
  json->EndObject();
}

void WriteErrors(const LoadResult& result, JsonWriter* json) {
  json->Key("errors");
  json->BeginObject();
  for (const auto& [code, errors] : result.errors) {
    json->Key(absl::StatusCodeToString(code));
    json->BeginObject();
    json->Field("count", errors.count);
    json->Field("example", errors.example);
    json->EndObject();
  }
  json->EndObject();
}

}  // namespace

std::string Invalidity(const LoadResult& result) {
  if (result.ok > 0) return "";
  if (result.failed == 0) return "no call was measured";
  return absl::StrCat("none of ", result.failed, " calls succeeded");
}

std::string ReportText(const LoadSetting& setting, const LoadResult& result) {
  std::string text = absl::StrFormat(
      "closed loop  %d in flight over %d connection%s to %s\n"
      "work         %s, %s per request, seed %u\n"
      "warm-up      %s, %d calls, not in the figures\n"
      "measured     %s, %d OK, %d failed\n",
      setting.in_flight, setting.connections,
      setting.connections == 1 ? "" : "s", setting.target, setting.work,
      BytesText(static_cast<double>(setting.request_bytes)), setting.seed,
      DurationText(1e9 * setting.warm_up_seconds), result.warm_up_calls,
      DurationText(1e9 * result.span_seconds), result.ok, result.failed);
  absl::StrAppendFormat(
      &text,
      "throughput   %.1f answers/s, sent %s/s, received %s/s\n"
      "latency     ",
      result.Throughput(), BytesText(Rate(result.request_bytes, result)),
      BytesText(Rate(result.response_bytes, result)));
  const Histogram& latency = result.latency_ns;
  for (const auto& [name, percent] : kPercentiles) {
    absl::StrAppend(&text, " ", name, " ",
                    DurationText(latency.ValueAtPercentile(percent)), " ");
  }
  absl::StrAppendFormat(
      &text, " max %s  mean %s +- %s\n", DurationText(latency.Max()),
      DurationText(latency.Mean()), DurationText(latency.StdDev()));
  absl::StrAppendFormat(&text, "client       %.0f %% of one core\n",
                        100 * CpuShare(result));
  for (const auto& [code, errors] : result.errors) {
    absl::StrAppendFormat(&text, "failed       %d x %s: %s\n", errors.count,
                          absl::StatusCodeToString(code), errors.example);
  }
  if (const std::string reason = Invalidity(result); !reason.empty()) {
    absl::StrAppend(&text, "INVALID      ", reason, "\n");
  }
  return text;
}

std::string ReportJson(const LoadSetting& setting, const LoadResult& result) {
  JsonWriter json;
  json.BeginObject();
  json.Field("schema", "attnctl.load/1");
  json.Field("mode", "closed");
  json.Field("target", setting.target);
  json.Field("work", setting.work);
  json.Field("seed", static_cast<int64_t>(setting.seed));
  json.Field("in_flight", int64_t{setting.in_flight});
  json.Field("connections", int64_t{setting.connections});
  json.Field("request_bytes", setting.request_bytes);
  json.Field("warm_up_seconds", setting.warm_up_seconds);
  json.Field("warm_up_calls", result.warm_up_calls);
  json.Field("span_seconds", result.span_seconds);
  json.Field("ok", result.ok);
  json.Field("failed", result.failed);
  json.Field("answers_per_second", result.Throughput());
  json.Field("sent_bytes_per_second", Rate(result.request_bytes, result));
  json.Field("received_bytes_per_second", Rate(result.response_bytes, result));
  WriteLatency(result, &json);
  WriteErrors(result, &json);
  json.Field("client_cpu_seconds", result.client_cpu_seconds);
  const std::string reason = Invalidity(result);
  json.Field("valid", reason.empty());
  json.Field("invalid_because", reason);
  json.EndObject();
  return json.Finish();
}

}  // namespace attnd::client
