// The command line of `attnctl load`.
#ifndef ATTND_CLIENT_LOAD_LOAD_OPTIONS_H_
#define ATTND_CLIENT_LOAD_LOAD_OPTIONS_H_

#include <CLI/App.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/load/conductor.h"
#include "client/load/slo.h"
#include "client/load/work_kinds.h"
#include "client/load/work_options.h"
#include "client/named_files.h"

namespace attnd::client {

// As typed. nullopt and empty mean: not given; the command line refuses empty
// texts.
struct LoadArguments {
  std::optional<int> in_flight = std::nullopt;
  int connections = 1;
  // 10 s, unless a schedule has a length of its own.
  std::optional<std::string> duration = std::nullopt;
  std::optional<int64_t> requests = std::nullopt;
  std::string warm_up = {};
  std::optional<double> rate = std::nullopt;
  bool poisson = false;
  std::string ramp = {};
  std::string steps = {};
  std::string replay = {};
  std::string replay_unit = "s";
  double speed = 1;
  std::string when_full = "drop";
  bool find_max = false;
  double precision = 0.05;
  std::string slo = {};
  std::string max_lag = {};
  std::string protocol = "attnd";
  bool stream = false;
  double verify = 0;
  std::string save = "attnctl-mismatch";
  std::vector<std::string> metrics = {};
  WorkArguments work = {};
  std::string json = {};
  std::string csv = {};
  std::string hdr = {};
  std::string hgrm = {};
  std::string junit = {};
  std::string html = {};
  bool quiet = false;
};

void AddLoadOptions(CLI::App* command, LoadArguments* arguments);

// What to run, checked.
struct LoadPlan {
  // All but the arrivals, work and time-out.
  ConductorOptions conductor = {};
  // The schedule of one run; nullopt for a closed loop and for a search.
  std::optional<Arrivals> arrivals = std::nullopt;
  // "open loop, 100/s, Poisson arrivals".
  std::string mode = {};
  int connections = 1;
  std::vector<SloClause> slo = {};
  // Of a search.
  bool find_max = false;
  double first_rate = 0;
  // Length of a run with its warm-up; 0 = bounded by calls.
  double seconds = 0;
  int64_t max_lag_ns = 0;
  std::vector<WorkKind> kinds = {};
};

// The files of the schedule and of the work.
std::vector<NamedFile> LoadInputs(const LoadArguments& arguments);

// Reads the files of the work and of a replay. InvalidArgument names the
// option.
absl::StatusOr<LoadPlan> MakeLoadPlan(const LoadArguments& arguments);

// A constant rate for the length of the plan, its warm-up included.
absl::StatusOr<Arrivals> ConstantArrivals(const LoadArguments& arguments,
                                          const LoadPlan& plan, double rate);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_LOAD_OPTIONS_H_
