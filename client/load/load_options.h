// The command line of `attnctl load`.
#ifndef ATTND_CLIENT_LOAD_LOAD_OPTIONS_H_
#define ATTND_CLIENT_LOAD_LOAD_OPTIONS_H_

#include <CLI/App.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/load/closed_loop.h"
#include "client/load/workload.h"

namespace attnd::client {

// As typed.
struct LoadArguments {
  int in_flight = 1;
  int connections = 1;
  std::string duration = "10s";
  int64_t requests = 0;
  std::string warm_up = "1s";
  Work work;
  int64_t kv_heads = 0;
  int64_t keys = 0;
  int64_t value_dim = 0;
  std::string dtype = "f32";
  std::string times = "poisson";
  std::string gap = "1s";
  bool json = false;
  std::string hdr;
};

void AddLoadOptions(CLI::App* command, LoadArguments* arguments);

// What to run, checked. InvalidArgument names the option.
struct LoadPlan {
  ClosedLoop loop;
  int connections = 1;
  Work work;
};
absl::StatusOr<LoadPlan> MakeLoadPlan(const LoadArguments& arguments);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_LOAD_OPTIONS_H_
