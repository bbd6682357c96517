#include "client/histogram_codec.h"
#include "client/json_writer.h"
#include "client/load/load_report.h"

namespace attnd::client {
namespace {

double Seconds(int64_t ns) { return 1e-9 * static_cast<double>(ns); }

void WriteTimes(const char* key, const Histogram& histogram, bool counts,
                JsonWriter* json) {
  json->Key(key);
  json->BeginObject();
  json->Field("count", histogram.count());
  json->Field("min", Seconds(histogram.Min()));
  json->Field("mean", 1e-9 * histogram.Mean());
  json->Field("stddev", 1e-9 * histogram.StdDev());
  for (const auto& [name, percent] : kPercentiles) {
    json->Field(name, Seconds(histogram.ValueAtPercentile(percent)));
  }
  json->Field("max", Seconds(histogram.Max()));
  if (counts) json->Field("hdr_nanoseconds", EncodeHistogram(histogram));
  json->EndObject();
}

void WriteErrors(const CallFigures& figures, JsonWriter* json) {
  json->Key("errors");
  json->BeginObject();
  for (const auto& [code, errors] : figures.errors) {
    json->Key(absl::StatusCodeToString(code));
    json->BeginObject();
    json->Field("count", errors.count);
    json->Field("example", errors.example);
    json->EndObject();
  }
  json->EndObject();
}

void WriteParts(const char* key, const std::vector<CallFigures>& parts,
                const LoadResult& result, JsonWriter* json) {
  json->Key(key);
  json->BeginArray();
  for (const CallFigures& part : parts) {
    json->BeginObject();
    json->Field("name", part.name);
    if (!part.note.empty()) json->Field("note", part.note);
    json->Field("ok", part.ok);
    json->Field("failed", part.failed);
    json->Field("answers_per_second", PerSecond(part.ok, result));
    WriteTimes("latency_seconds", part.latency_ns, false, json);
    WriteTimes("service_seconds", part.service_ns, false, json);
    WriteErrors(part, json);
    json->EndObject();
  }
  json->EndArray();
}

void WriteSetting(const LoadReport& report, JsonWriter* json) {
  const LoadSetting& setting = report.setting;
  json->Field("client_version", setting.client_version);
  json->Field("start_epoch_seconds", setting.start_epoch_seconds);
  json->Field("mode", setting.mode);
  json->Field("open_loop", report.arrivals.has_value());
  json->Field("target", setting.target);
  json->Field("transport", setting.transport);
  json->Key("work");
  json->BeginArray();
  for (const std::string& work : setting.work) json->String(work);
  json->EndArray();
  json->Key("seed");
  json->Unsigned(setting.seed);
  json->Field("in_flight", int64_t{setting.in_flight});
  json->Field("connections", int64_t{setting.connections});
  json->Field("max_attempts", int64_t{setting.max_attempts});
  json->Field("timeout_seconds", setting.timeout_seconds);
  json->Field("request_bytes", setting.request_bytes);
}

void WriteFigures(const LoadReport& report, JsonWriter* json) {
  const LoadResult& result = report.result;
  json->Field("warm_up_seconds", report.setting.warm_up_seconds);
  json->Field("warm_up_calls", result.warm_up_calls);
  json->Field("warm_up_failed", result.warm_up_failed);
  json->Field("span_seconds", result.span_seconds);
  json->Field("planned", result.planned);
  json->Field("planned_per_second", result.PlannedRate());
  json->Field("ok", result.all.ok);
  json->Field("failed", result.all.failed);
  json->Field("dropped", result.dropped);
  json->Field("waited_for_a_place", result.waited);
  json->Field("attempts", result.attempts);
  json->Field("error_share", result.ErrorShare());
  json->Field("answers_per_second", result.Throughput());
  json->Field("sent_bytes_per_second",
              PerSecond(result.all.request_bytes, result));
  json->Field("received_bytes_per_second",
              PerSecond(result.all.response_bytes, result));
  WriteTimes("latency_seconds", result.all.latency_ns, true, json);
  WriteTimes("service_seconds", result.all.service_ns, true, json);
  WriteErrors(result.all, json);
  WriteParts("by_work", result.work, result, json);
  WriteParts("by_endpoint", result.endpoints, result, json);
  json->Field("client_cpu_seconds", result.client_cpu_seconds);
  json->Field("client_cpu_seconds_per_call", CpuPerAttempt(result));
  json->Field("busiest_thread_share",
              result.run_seconds > 0
                  ? result.thread_cpu_seconds / result.run_seconds
                  : 0);
  WriteTimes("client_lag_seconds", result.lag_ns, false, json);
}

void WriteTimeline(const Timeline& timeline, JsonWriter* json) {
  json->Key("timeline");
  json->BeginObject();
  json->Field("row_seconds", Seconds(timeline.row_ns()));
  json->Key("rows");
  json->BeginArray();
  for (int i = 0; i < timeline.size(); ++i) {
    const TimelineRow& row = timeline.row(i);
    json->BeginObject();
    json->Field("planned", row.planned);
    json->Field("started", row.started);
    json->Field("ok", row.ok);
    json->Field("failed", row.failed);
    json->Field("dropped", row.dropped);
    json->Field("latency_hdr_nanoseconds", EncodeHistogram(row.latency_ns));
    json->EndObject();
  }
  json->EndArray();
  json->EndObject();
}

void WriteTrials(const LoadReport& report, JsonWriter* json) {
  if (!report.searched) return;
  json->Field("largest_rate_found", report.found_rate.has_value());
  json->Field("largest_rate", report.found_rate.value_or(0));
  json->Key("trials");
  json->BeginArray();
  for (const Trial& trial : report.trials) {
    json->BeginObject();
    json->Field("rate", trial.rate);
    json->Field("reached", trial.reached);
    json->Field("p50_seconds", Seconds(trial.p50_ns));
    json->Field("p99_seconds", Seconds(trial.p99_ns));
    json->Field("error_share", trial.error_share);
    json->Field("sustained", trial.sustained);
    json->Field("reason", trial.reason);
    json->EndObject();
  }
  json->EndArray();
}

void WriteServers(const LoadReport& report, JsonWriter* json) {
  json->Key("servers");
  json->BeginArray();
  for (const ServerMetrics& server : report.servers) {
    json->BeginObject();
    json->Field("url", server.url);
    json->Field("failed_scrapes", int64_t{server.failed_scrapes});
    json->Key("samples");
    json->BeginArray();
    for (const MetricSample& sample : server.samples) {
      json->BeginObject();
      json->Field("seconds", sample.seconds);
      json->Key("values");
      json->BeginObject();
      for (const auto& [name, value] : sample.values) json->Field(name, value);
      json->EndObject();
      json->EndObject();
    }
    json->EndArray();
    json->EndObject();
  }
  json->EndArray();
}

void WriteVerdicts(const LoadReport& report, JsonWriter* json) {
  json->Key("slo");
  json->BeginArray();
  for (const SloCheck& check : report.slo) {
    json->BeginObject();
    json->Field("clause", check.clause);
    json->Field("found", check.found);
    json->Field("met", check.met);
    json->EndObject();
  }
  json->EndArray();
  const auto texts = [&](const char* key,
                         const std::vector<std::string>& values) {
    json->Key(key);
    json->BeginArray();
    for (const std::string& value : values) json->String(value);
    json->EndArray();
  };
  if (const auto& verification = report.verification) {
    json->Key("verification");
    json->BeginObject();
    json->Field("checked", verification->checked);
    json->Field("wrong", verification->wrong);
    json->Field("unverifiable", verification->unverifiable);
    json->Field("not_kept", verification->not_kept);
    json->Field("largest_error_share", verification->largest_error_share);
    texts("mismatches", verification->mismatches);
    texts("unverified", verification->unverified);
    json->EndObject();
  }
  texts("remarks", report.remarks);
  json->Field("valid", report.invalid.empty());
  texts("invalid_because", report.invalid);
}

}  // namespace

std::string ReportJson(const LoadReport& report) {
  JsonWriter json;
  json.BeginObject();
  json.Field("schema", "attnctl.load/1");
  WriteSetting(report, &json);
  WriteFigures(report, &json);
  WriteVerdicts(report, &json);
  WriteTrials(report, &json);
  WriteTimeline(report.result.timeline, &json);
  WriteServers(report, &json);
  json.EndObject();
  return json.Finish();
}

}  // namespace attnd::client
