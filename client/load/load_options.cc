#include "client/load/load_options.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/duration_text.h"
#include "client/files.h"
#include "client/load/array_work.h"
#include "client/number_range.h"
#include "client/random.h"

namespace attnd::client {
namespace {

// Cap of an open loop: far above what a healthy server holds at once, far below
// what exhausts this client's memory.
constexpr int kDefaultCap = 1000;
// What an option may ask for at most: beyond it, connections and memory of one
// client end.
constexpr int kMaxPlaces = 100'000;
// Where a search begins.
constexpr double kFirstRate = 100;
constexpr char kDefaultDuration[] = "10s";
// Rows of the timeline that a run of known length fills.
constexpr double kTimelineRows = 100;
// A schedule that is bounded by calls alone; a hundred years of seconds.
constexpr double kEndlessSeconds = 3e9;

absl::Status Wrong(const auto&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

// The option that plans the arrivals of an open loop, as typed.
std::string ScheduleText(const LoadArguments& arguments) {
  if (!arguments.ramp.empty()) return absl::StrCat("--ramp ", arguments.ramp);
  if (!arguments.steps.empty()) {
    return absl::StrCat("--steps ", arguments.steps);
  }
  return arguments.rate ? absl::StrCat("--rate ", *arguments.rate)
                        : "--find-max";
}

bool OpenLoop(const LoadArguments& arguments) {
  return arguments.rate || !arguments.ramp.empty() ||
         !arguments.steps.empty() || !arguments.replay.empty() ||
         arguments.find_max;
}

absl::Status CheckModes(const LoadArguments& arguments) {
  const int modes = (arguments.rate && !arguments.find_max) +
                    !arguments.ramp.empty() + !arguments.steps.empty() +
                    !arguments.replay.empty() + arguments.find_max;
  if (modes > 1) {
    return Wrong(
        "--rate, --ramp, --steps, --replay, --find-max: expected one of them");
  }
  if (arguments.find_max && arguments.slo.empty()) {
    return Wrong("--find-max: expected --slo, for example 'p99<20ms'");
  }
  if (arguments.poisson &&
      (!OpenLoop(arguments) || !arguments.replay.empty())) {
    return Wrong("--poisson: expected --rate, --ramp, --steps or --find-max");
  }
  return absl::OkStatus();
}

absl::Status SetPlaces(const LoadArguments& arguments, LoadPlan* plan) {
  const int places = arguments.in_flight ? *arguments.in_flight
                     : OpenLoop(arguments)
                         ? std::max(kDefaultCap, arguments.connections)
                         : 1;
  if (arguments.connections > places) {
    return Wrong("--connections ", arguments.connections,
                 ": expected 1 to --in-flight ", places,
                 ", or some would stay idle");
  }
  plan->conductor.slots = places;
  plan->conductor.calls = arguments.requests.value_or(0);
  plan->conductor.wait_when_full = arguments.when_full == "wait";
  plan->connections = arguments.connections;
  return absl::OkStatus();
}

absl::Status SetLengths(const LoadArguments& arguments, LoadPlan* plan) {
  std::string warm_up = arguments.warm_up;
  if (warm_up.empty()) warm_up = arguments.replay.empty() ? "1s" : "0s";
  const auto warm_up_ns = ParseDuration(warm_up);
  if (!warm_up_ns.ok()) return warm_up_ns.status();
  plan->conductor.warm_up_ns = *warm_up_ns;
  if (!arguments.max_lag.empty()) {
    const auto lag = ParseDuration(arguments.max_lag);
    if (!lag.ok()) return lag.status();
    plan->max_lag_ns = *lag;
  }
  const bool own_length = !arguments.steps.empty() || !arguments.replay.empty();
  if (own_length && arguments.duration) {
    return Wrong("--duration ", *arguments.duration,
                 ": --steps and --replay have a length of their own");
  }
  if (arguments.requests && arguments.duration) {
    return Wrong("--duration, --requests: expected one of them");
  }
  if (arguments.requests || own_length) return absl::OkStatus();
  const auto duration =
      ParseDuration(arguments.duration.value_or(kDefaultDuration));
  if (!duration.ok()) return duration.status();
  plan->conductor.duration_ns = *duration;
  plan->seconds = static_cast<double>(*warm_up_ns + *duration) * 1e-9;
  return absl::OkStatus();
}

absl::StatusOr<Arrivals> ArrivalsOf(const LoadArguments& arguments,
                                    const LoadPlan& plan,
                                    std::vector<RateSegment> segments) {
  // The warm-up goes on at the rate with which the measured part begins.
  if (plan.conductor.warm_up_ns > 0) {
    const double rate = segments.front().begin_rate;
    segments.insert(
        segments.begin(),
        {static_cast<double>(plan.conductor.warm_up_ns) * 1e-9, rate, rate});
  }
  absl::StatusOr<RateProfile> profile = RateProfile::Make(std::move(segments));
  if (!profile.ok()) {
    return Wrong(ScheduleText(arguments), ": ", profile.status().message());
  }
  return arguments.poisson
             ? Arrivals::Poisson(*std::move(profile), arguments.work.seed)
             : Arrivals::Even(*std::move(profile));
}

double MeasuredSeconds(const LoadPlan& plan) {
  return plan.conductor.duration_ns > 0
             ? static_cast<double>(plan.conductor.duration_ns) * 1e-9
             : kEndlessSeconds;
}

absl::StatusOr<std::vector<int64_t>> ReadMoments(
    const LoadArguments& arguments) {
  const absl::StatusOr<std::string> file = ReadFile(arguments.replay);
  if (!file.ok()) return file.status();
  TimeFormat format;
  if (arguments.replay_unit != "iso") {
    format.epoch_unit_ns = *UnitNanoseconds(arguments.replay_unit);
  }
  auto moments = ParseMoments(*file, format, arguments.speed);
  if (moments.ok()) return moments;
  return Wrong(arguments.replay, ": ", moments.status().message());
}

absl::Status SetSchedule(const LoadArguments& arguments, LoadPlan* plan) {
  absl::StatusOr<Arrivals> arrivals = absl::InternalError("no schedule");
  if (!arguments.replay.empty()) {
    auto moments = ReadMoments(arguments);
    if (!moments.ok()) return moments.status();
    plan->mode =
        absl::StrFormat("replay of %d moments from %s, speed %g",
                        moments->size(), arguments.replay, arguments.speed);
    plan->seconds = static_cast<double>(moments->back()) * 1e-9;
    arrivals = Arrivals::Replay(*std::move(moments));
  } else if (!arguments.steps.empty()) {
    auto steps = ParseSteps(arguments.steps);
    if (!steps.ok()) return Wrong("--steps: ", steps.status().message());
    plan->mode = absl::StrCat("open loop, steps ", arguments.steps);
    plan->seconds = static_cast<double>(plan->conductor.warm_up_ns) * 1e-9;
    for (const RateSegment& step : *steps) plan->seconds += step.seconds;
    arrivals = ArrivalsOf(arguments, *plan, *std::move(steps));
  } else if (!arguments.ramp.empty()) {
    if (arguments.requests) {
      return Wrong("--ramp: expected --duration, not --requests");
    }
    auto ramp = ParseRamp(arguments.ramp, MeasuredSeconds(*plan));
    if (!ramp.ok()) return Wrong("--ramp: ", ramp.status().message());
    plan->mode =
        absl::StrCat("open loop, ramp ", arguments.ramp, " per second");
    arrivals = ArrivalsOf(arguments, *plan, {*ramp});
  } else if (arguments.find_max) {
    plan->mode = "search of the largest rate";
    plan->find_max = true;
    plan->first_rate = arguments.rate.value_or(kFirstRate);
    return ConstantArrivals(arguments, *plan, plan->first_rate).status();
  } else if (arguments.rate) {
    plan->mode = absl::StrFormat("open loop, %.15g/s", *arguments.rate);
    arrivals = ConstantArrivals(arguments, *plan, *arguments.rate);
  } else {
    plan->mode = "closed loop";
    return absl::OkStatus();
  }
  if (!arrivals.ok()) return arrivals.status();
  if (arguments.poisson) absl::StrAppend(&plan->mode, ", Poisson arrivals");
  plan->arrivals = *std::move(arrivals);
  return absl::OkStatus();
}

void AddScheduleOptions(CLI::App* command, LoadArguments* arguments) {
  const std::string group = "Schedule";
  const auto add = [&](const char* name, auto& value, const char* type,
                       const char* text) {
    return command->add_option(name, value, text)
        ->type_name(type)
        ->group(group);
  };
  add("--rate", arguments->rate, "N",
      "Open loop: start this many calls per second, whatever becomes of them")
      ->check(RealNumber(0, RateProfile::kMaxRate, Ends::kHigh));
  command
      ->add_flag("--poisson", arguments->poisson,
                 "At random (exponential gaps) instead of evenly")
      ->group(group);
  add("--ramp", arguments->ramp, "A:B",
      "Open loop: from A to B calls per second over --duration");
  add("--steps", arguments->steps, "N:TIME,...",
      "Open loop: each rate for its time");
  add("--replay", arguments->replay, "FILE",
      "Open loop: at the moments of this file, one a line");
  add("--replay-unit", arguments->replay_unit, "UNIT",
      "What a number there counts: s ms us ns; or iso for dates and times")
      ->check(CLI::IsMember({"s", "ms", "us", "ns", "iso"}).description(""))
      ->capture_default_str();
  add("--speed", arguments->speed, "X", "Replay X times as fast")
      ->check(RealNumber(0, kNoEnd, Ends::kNeither))
      ->capture_default_str();
  add("--when-full", arguments->when_full, "RULE",
      "Open loop with --in-flight reached: drop the call and count it, or let "
      "it wait (its latency includes the wait)")
      ->check(CLI::IsMember({"drop", "wait"}).description(""))
      ->capture_default_str();
  command
      ->add_flag("--find-max", arguments->find_max,
                 "Search the largest rate that meets --slo; --duration is of "
                 "each trial, --rate where to begin (100)")
      ->group(group);
  add("--precision", arguments->precision, "X",
      "Relative width at which the search ends")
      ->check(RealNumber(0, 1, Ends::kHigh))
      ->capture_default_str();
}

void AddCheckOptions(CLI::App* command, LoadArguments* arguments) {
  const std::string group = "Checks";
  const auto add = [&](const char* name, auto& value, const char* type,
                       const char* text) {
    return command->add_option(name, value, text)
        ->type_name(type)
        ->group(group);
  };
  add("--slo", arguments->slo, "TEXT",
      "Service levels, for example 'p99<20ms,errors<0.1%,rate>100'; without a "
      "level of errors, errors<0.1% is added");
  add("--max-lag", arguments->max_lag, "TIME",
      "Largest p99 of this client's own lateness; default a tenth of the "
      "median latency, at least 1ms")
      ->check(TimeAbove0());
  add("--verify", arguments->verify, "SHARE",
      "Check this share of the answers against a double-precision computation "
      "of this client's own")
      ->check(RealNumber(0, 1))
      ->capture_default_str();
  add("--save", arguments->save, "PREFIX",
      "Requests with wrong answers go to PREFIX-1.pb and so on, for attnctl "
      "attend --replay")
      ->capture_default_str();
  add("--metrics", arguments->metrics, "URL",
      "Scrape http://HOST:PORT/metrics before, during and after; may be "
      "repeated")
      ->allow_extra_args(false);
}

void AddOutputOptions(CLI::App* command, LoadArguments* arguments) {
  const std::string group = "Output";
  command
      ->add_flag("--json{-}", arguments->json,
                 "Print JSON instead of text; with a file, write it there "
                 "beside the text")
      ->type_name("FILE")
      ->group(group);
  const auto add = [&](const char* name, std::string& value, const char* text) {
    command->add_option(name, value, text)->type_name("FILE")->group(group);
  };
  add("--csv", arguments->csv, "What happened over time, one row a stretch");
  add("--hdr", arguments->hdr,
      "Histograms of latency and service time as HdrHistogram's log");
  add("--hgrm", arguments->hgrm,
      "Percentiles of latency (ms) as HdrHistogram's plotter reads them");
  add("--junit", arguments->junit, "Service levels and checks as JUnit XML");
  add("--html", arguments->html, "A report with plots, in one file");
  command
      ->add_flag("-q,--quiet", arguments->quiet,
                 "No line that tells how the run goes; there is none anyway "
                 "unless standard error is a terminal")
      ->group(group);
}

}  // namespace

void AddLoadOptions(CLI::App* command, LoadArguments* arguments) {
  const std::string group = "Load";
  const auto add = [&](const char* name, auto& value, const char* text) {
    return command->add_option(name, value, text)->group(group);
  };
  add("-n,--in-flight", arguments->in_flight,
      "Closed loop: calls in flight at any time (default 1); open loop: at "
      "most (default 1000)")
      ->check(WholeNumber(1, kMaxPlaces))
      ->type_name("N");
  add("-c,--connections", arguments->connections,
      "Connections to each endpoint")
      ->check(WholeNumber(1, kMaxPlaces))
      ->type_name("N")
      ->capture_default_str();
  CLI::Option* duration = add("-d,--duration", arguments->duration,
                              "Length of the measured part: 500ms, 30s, 5min")
                              ->check(TimeAbove0())
                              ->type_name("TIME")
                              ->default_str(kDefaultDuration);
  add("-r,--requests", arguments->requests,
      "Calls of the measured part, instead of a length")
      ->type_name("N")
      ->check(WholeNumber(1))
      ->excludes(duration);
  add("-w,--warmup", arguments->warm_up,
      "Time before it, which is not measured (default 1s; replay: 0s)")
      ->check(TimeFrom0())
      ->type_name("TIME");
  add("--protocol", arguments->protocol, "What is spoken: attnd")
      ->check(CLI::IsMember({"attnd"}).description(""))
      ->type_name("NAME")
      ->capture_default_str();
  command
      ->add_flag("--stream", arguments->stream,
                 "Send through AttendStream, one stream a connection, instead "
                 "of one call a request")
      ->group(group);
  AddScheduleOptions(command, arguments);
  AddWorkOptions(command, &arguments->work);
  AddCheckOptions(command, arguments);
  AddOutputOptions(command, arguments);
}

std::vector<NamedFile> LoadInputs(const LoadArguments& arguments) {
  std::vector<NamedFile> inputs = {{"--replay", arguments.replay}};
  const auto add = [&](const WorkArguments& work) {
    inputs.push_back({"--series", work.series});
    if (work.arrays.empty()) return;
    for (const std::string& path : ArrayFiles(work.arrays)) {
      inputs.push_back({"--arrays", path});
    }
  };
  if (arguments.work.mix.empty()) add(arguments.work);
  for (const std::string& text : arguments.work.mix) {
    const auto entry = ParseMixEntry(text, arguments.work);
    if (entry.ok()) add(entry->arguments);
  }
  return inputs;
}

absl::StatusOr<Arrivals> ConstantArrivals(const LoadArguments& arguments,
                                          const LoadPlan& plan, double rate) {
  return ArrivalsOf(arguments, plan, {{MeasuredSeconds(plan), rate, rate}});
}

absl::StatusOr<LoadPlan> MakeLoadPlan(const LoadArguments& arguments) {
  LoadPlan plan;
  absl::Status status = CheckModes(arguments);
  if (status.ok()) status = SetPlaces(arguments, &plan);
  if (status.ok()) status = SetLengths(arguments, &plan);
  if (status.ok()) status = SetSchedule(arguments, &plan);
  if (!status.ok()) return status;
  if (!arguments.slo.empty()) {
    auto slo = ParseSlo(arguments.slo);
    if (!slo.ok()) return slo.status();
    plan.slo = *std::move(slo);
  }
  auto kinds = MakeWorkKinds(arguments.work);
  if (!kinds.ok()) return kinds.status();
  plan.kinds = *std::move(kinds);
  plan.conductor.verify_share = arguments.verify;
  // Not the numbers that make the arrivals.
  plan.conductor.seed = Random(arguments.work.seed).Next();
  plan.conductor.row_ns = std::max<int64_t>(
      std::llround(plan.seconds / kTimelineRows * 1e9), 50'000'000);
  return plan;
}

}  // namespace attnd::client
