// The command line of `attnctl interpolate`.
#ifndef ATTND_CLIENT_ATTNCTL_INTERPOLATE_OPTIONS_H_
#define ATTND_CLIENT_ATTNCTL_INTERPOLATE_OPTIONS_H_

#include <CLI/App.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/attnctl/target_options.h"
#include "client/interpolate/estimate.h"
#include "client/interpolate/time_text.h"

namespace attnd::client {

// As typed.
struct InterpolateArguments {
  TargetOptions target;
  std::string input;
  std::string time_column = "1";
  std::string value_column = "2";
  bool no_header = false;
  char delimiter = ',';
  std::string time_unit;
  std::vector<std::string> missing;
  std::string trend = "2";
  std::vector<std::string> encodings = {"co2", "co2_level"};
  std::vector<std::string> plane_weights;
  bool causal = false;
  std::string at = "rows";
  std::string holdout;
  uint64_t seed = 1;
  std::string out = "-";
  std::string plot;
  std::string unit_label;
  std::string title;
};

// Adds all options but those of the target, and the manual.
void AddInterpolateOptions(CLI::App* command, InterpolateArguments* arguments);

// What they mean. InvalidArgument names the option.
absl::StatusOr<int> TrendDegreeOf(const InterpolateArguments& arguments);
absl::StatusOr<EstimateOptions> MakeEstimateOptions(
    const InterpolateArguments& arguments);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_ATTNCTL_INTERPOLATE_OPTIONS_H_
