#include "client/load/load_options.h"

#include "absl/strings/str_cat.h"
#include "client/duration_text.h"

namespace attnd::client {
namespace {

absl::StatusOr<std::chrono::nanoseconds> Length(const char* option,
                                                const std::string& text) {
  const absl::StatusOr<int64_t> ns = ParseDuration(text);
  if (ns.ok() && *ns >= 0) return std::chrono::nanoseconds(*ns);
  return absl::InvalidArgumentError(absl::StrCat(
      option, ": ",
      ns.ok() ? "expected no negative time" : ns.status().message()));
}

absl::StatusOr<Work> MakeWork(const LoadArguments& arguments) {
  Work work = arguments.work;
  work.kv_heads = arguments.kv_heads > 0 ? arguments.kv_heads : work.heads;
  work.keys = arguments.keys > 0 ? arguments.keys : work.queries;
  work.value_dim = arguments.value_dim > 0 ? arguments.value_dim : work.dim;
  work.dtype = arguments.dtype == "bf16" ? v1::DTYPE_BF16 : v1::DTYPE_F32;
  work.times = arguments.times == "none"   ? TimeKind::kNone
               : arguments.times == "grid" ? TimeKind::kGrid
                                           : TimeKind::kPoisson;
  const auto gap = Length("--gap", arguments.gap);
  if (!gap.ok()) return gap.status();
  work.mean_gap_ns = gap->count();
  if (absl::Status bad = CheckWork(work); !bad.ok()) return bad;
  return work;
}

void AddWorkOptions(CLI::App* command, LoadArguments* arguments) {
  const std::string group = "Work";
  Work* work = &arguments->work;
  const auto add = [&](const char* name, auto& value, const char* text) {
    return command->add_option(name, value, text)->group(group);
  };
  add("--batch", work->batch, "Batch items")->capture_default_str();
  add("--heads", work->heads, "Query heads")->capture_default_str();
  add("--kv-heads", arguments->kv_heads, "Key/value heads; default --heads");
  add("--queries", work->queries, "Query rows")->capture_default_str();
  add("--keys", arguments->keys, "Key rows; default --queries");
  add("--dim", work->dim, "Head dimension")->capture_default_str();
  add("--value-dim", arguments->value_dim, "Value dimension; default --dim");
  add("--dtype", arguments->dtype, "f32 or bf16")
      ->check(CLI::IsMember({"f32", "bf16"}).description(""))
      ->type_name("TYPE")
      ->capture_default_str();
  add("--encoding", work->encoding, "Configured encoding; default: none")
      ->type_name("NAME");
  command->add_flag("--causal", work->causal, "Causal by time")->group(group);
  add("--times", arguments->times,
      "Times of the rows: poisson (irregular), grid, or none")
      ->check(CLI::IsMember({"poisson", "grid", "none"}).description(""))
      ->type_name("KIND")
      ->capture_default_str();
  add("--gap", arguments->gap, "Mean time between rows")->capture_default_str();
  add("--distinct", work->distinct, "Requests with data of their own")
      ->capture_default_str();
  add("--seed", work->seed, "Of the data")->capture_default_str();
}

}  // namespace

void AddLoadOptions(CLI::App* command, LoadArguments* arguments) {
  const std::string group = "Load";
  const auto add = [&](const char* name, auto& value, const char* text) {
    return command->add_option(name, value, text)->group(group);
  };
  add("-n,--in-flight", arguments->in_flight, "Calls in flight at any time")
      ->capture_default_str();
  add("-c,--connections", arguments->connections, "Connections that they share")
      ->capture_default_str();
  CLI::Option* duration =
      add("-d,--duration", arguments->duration, "Length of the measured part")
          ->type_name("TIME")
          ->capture_default_str();
  add("-r,--requests", arguments->requests,
      "Calls of the measured part, instead of a length")
      ->excludes(duration);
  add("-w,--warmup", arguments->warm_up, "Time before it")
      ->type_name("TIME")
      ->capture_default_str();
  AddWorkOptions(command, arguments);
  command->add_flag("--json", arguments->json, "Print JSON")->group("Output");
  command
      ->add_option("--hdr", arguments->hdr,
                   "File for the latencies (ms) as HdrHistogram's percentile "
                   "distribution")
      ->type_name("FILE")
      ->group("Output");
}

absl::StatusOr<LoadPlan> MakeLoadPlan(const LoadArguments& arguments) {
  LoadPlan plan;
  if (arguments.in_flight < 1 || arguments.in_flight > 100'000) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--in-flight ", arguments.in_flight, ": expected 1 to 100000"));
  }
  if (arguments.connections < 1 ||
      arguments.connections > arguments.in_flight) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--connections ", arguments.connections, ": expected 1 to --in-flight ",
        arguments.in_flight, ", or some would stay idle"));
  }
  if (arguments.requests < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--requests ", arguments.requests, ": expected at least 1"));
  }
  plan.loop.in_flight = arguments.in_flight;
  plan.loop.calls = arguments.requests;
  plan.connections = arguments.connections;
  const auto warm_up = Length("--warmup", arguments.warm_up);
  if (!warm_up.ok()) return warm_up.status();
  plan.loop.warm_up = *warm_up;
  if (arguments.requests == 0) {
    const auto duration = Length("--duration", arguments.duration);
    if (!duration.ok()) return duration.status();
    if (duration->count() == 0) {
      return absl::InvalidArgumentError("--duration: expected more than 0");
    }
    plan.loop.duration = *duration;
  }
  absl::StatusOr<Work> work = MakeWork(arguments);
  if (!work.ok()) return work.status();
  plan.work = *std::move(work);
  return plan;
}

}  // namespace attnd::client
