#include "server/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"

namespace attnd::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

MetricsInfo Info() {
  return {.encodings = {"nope", "rope"},
          .tenants = {{.id = 0, .name = "default"}},
          .version = "1.2.3",
          .instruction_set = "AVX2",
          .limits = {.workers = 2},
          .machine = {},
          .calibrated_flops = 1e11};
}

std::vector<std::string> Lines(const std::string& text) {
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

TEST(Metrics, EverySeriesIsThereFromTheStart) {
  Metrics metrics(Info());
  const std::string text = metrics.Text({.limits = {.workers = 2}});
  for (const char* line : {
           "attnd_build_info{instruction_set=\"AVX2\",version=\"1.2.3\"} 1",
           "attnd_ready 0",
           "attnd_drain_state 0",
           "attnd_config_generation 1",
           "attnd_workers 2",
           "attnd_workers_busy 0",
           "attnd_worker_busy_seconds_total 0",
           "attnd_offered_worker_seconds_total{tenant_class=\"default\"} 0",
           "attnd_admitted_worker_seconds_total 0",
           "attnd_executed_flops_total{dtype=\"f32\",encoding=\"rope\",kernel="
           "\"softmax\"} 0",
           "attnd_requests_waiting 0",
           "attnd_requests_running 0",
           "attnd_inflight_requests 0",
           "attnd_queue_cost_seconds 0",
           "attnd_queue_bytes 0",
           "attnd_queue_limit_cost_seconds 4",
           "attnd_rejected_total{reason=\"queue_full\"} 0",
           "attnd_rejected_total{reason=\"hopeless\"} 0",
           "attnd_rejected_total{reason=\"draining\"} 0",
           "attnd_rejected_total{reason=\"invalid\"} 0",
           "attnd_expired_in_queue_total 0",
           "attnd_expired_in_compute_total 0",
           "attnd_cancelled_total{stage=\"queue\"} 0",
           "attnd_cancelled_total{stage=\"compute\"} 0",
           "attnd_stage_seconds_count{stage=\"queue\"} 0",
           "attnd_stage_seconds_count{stage=\"finish\"} 0",
           "attnd_request_seconds_count{encoding=\"nope\",method=\"Attend\"} 0",
           "attnd_cost_model_ratio 1",
           "attnd_cost_factor{encoding=\"rope\"} 1",
           "attnd_cpu_quota_cores 0",
           "attnd_cpu_throttled_seconds_total 0",
           "process_cpu_seconds_total 0",
           "process_resident_memory_bytes 0",
           "process_threads 0",
       }) {
    EXPECT_THAT(text, HasSubstr(std::string(line) + "\n"));
  }
  // One per method and code, never more.
  int handled = 0;
  for (const std::string& line : Lines(text)) {
    handled += line.rfind("grpc_server_handled_total{", 0) == 0;
  }
  EXPECT_EQ(handled, 5 * 17);
  EXPECT_THAT(text, HasSubstr("grpc_server_started_total{grpc_method=\"Attend"
                              "\",grpc_service=\"attnd.v1.AttentionScoring\","
                              "grpc_type=\"unary\"} 0"));
}

TEST(Metrics, EventsChangeValuesAndAddNoSeries) {
  Metrics metrics(Info());
  const size_t before = Lines(metrics.Text({})).size();
  metrics.CallStarted(Method::kAttend);
  metrics.MessageReceived(Method::kAttend);
  metrics.CallHandled(Method::kAttend, 3, 0.01);
  metrics.CallHandled(Method::kAttend, 99, 0.01);  // counted as Unknown
  metrics.Offered(0, 0.5);
  metrics.Offered(99, 0.5);  // no such tenant
  metrics.Admitted(0.25);
  metrics.Rejected(Reason::kQueueFull);
  metrics.Expired(EndedIn::kQueue);
  metrics.Cancelled(EndedIn::kCompute);
  metrics.StageTook(Stage::kQueue, 4.5);
  metrics.Answered(Method::kAttend, "rope", 0.02, 1000, 7);
  metrics.Answered(Method::kAttend, "never heard of", 0.02, 1000, 7);
  metrics.CostRatio(3);
  const std::string text =
      metrics.Text({.executor = {.waiting = 4,
                                 .running = 1,
                                 .busy_workers = 1,
                                 .busy_seconds = 2.5},
                    .admission = {.waiting_seconds = 0.75, .bytes = 77},
                    .ready = true,
                    .drain = DrainState::kDelay,
                    .cost_factors = {{"rope", 1.5}, {"never heard of", 2}}});
  EXPECT_EQ(Lines(text).size(), before);
  for (const char* line : {
           "grpc_server_handled_total{grpc_code=\"InvalidArgument\",grpc_method"
           "=\"Attend\",grpc_service=\"attnd.v1.AttentionScoring\",grpc_type="
           "\"unary\"} 1",
           "attnd_offered_worker_seconds_total{tenant_class=\"default\"} 0.5",
           "attnd_admitted_worker_seconds_total 0.25",
           "attnd_rejected_total{reason=\"queue_full\"} 1",
           "attnd_expired_in_queue_total 1",
           "attnd_cancelled_total{stage=\"compute\"} 1",
           "attnd_stage_seconds_sum{stage=\"queue\"} 4.5",
           "attnd_request_seconds_count{encoding=\"rope\",method=\"Attend\"} 1",
           "attnd_requests_waiting 4",
           "attnd_requests_running 1",
           "attnd_inflight_requests 5",
           "attnd_workers_busy 1",
           "attnd_worker_busy_seconds_total 2.5",
           "attnd_queue_cost_seconds 0.75",
           "attnd_queue_bytes 77",
           "attnd_ready 1",
           "attnd_drain_state 1",
           "attnd_cost_model_ratio 1.04",
           "attnd_cost_factor{encoding=\"rope\"} 1.5",
           "attnd_cost_factor{encoding=\"nope\"} 1",
       }) {
    EXPECT_THAT(text, HasSubstr(std::string(line) + "\n"));
  }
}

TEST(Metrics, TextHasNoNanAndNoInfinityButTheLastBucket) {
  Metrics metrics(Info());
  metrics.Offered(0, std::numeric_limits<double>::quiet_NaN());
  metrics.Offered(0, std::numeric_limits<double>::infinity());
  metrics.CostRatio(std::numeric_limits<double>::infinity());
  for (const std::string& line : Lines(metrics.Text(
           {.admission = {.waiting_seconds =
                              std::numeric_limits<double>::quiet_NaN()}}))) {
    if (line[0] == '#') continue;
    const std::string value =
        absl::AsciiStrToLower(line.substr(line.rfind(' ') + 1));
    EXPECT_THAT(value, Not(HasSubstr("nan"))) << line;
    EXPECT_THAT(value, Not(HasSubstr("inf"))) << line;
  }
}

TEST(Metrics, EveryFamilyHasHelpAndTypeOnce) {
  Metrics metrics(Info());
  std::multiset<std::string> helps, types;
  for (const std::string& line : Lines(metrics.Text({}))) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words[0] != "#") continue;
    (words[1] == "HELP" ? helps : types).insert(words[2]);
  }
  EXPECT_EQ(helps, types);
  for (const std::string& name : helps) EXPECT_EQ(helps.count(name), 1u);
}

TEST(Metrics, RoundObjectivesAreBucketEdges) {
  Metrics metrics(Info());
  const std::string text = metrics.Text({});
  for (const char* edge : {"0.01", "0.02", "0.05", "0.1", "0.5", "1", "60"}) {
    EXPECT_THAT(text, HasSubstr("attnd_request_seconds_bucket{encoding=\"nope\""
                                ",method=\"Attend\",le=\"" +
                                std::string(edge) + "\"} 0"));
  }
}

}  // namespace
}  // namespace attnd::server
