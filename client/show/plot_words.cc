#include "client/show/plot_words.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace attnd::client {
namespace {

constexpr size_t kMostRanges = 4;

struct Drives {
  bool time = false, clock = false, axes = false;

  template <typename Message>
  void Add(const Message& drive) {
    const bool by_clock = drive.clock() == v1::CLOCK_REQUEST;
    clock |= by_clock;
    time |= !by_clock;
    axes |= !by_clock && drive.coordinate() != 0;
  }
};

Drives DrivesOf(const v1::ResolvedEncoding& encoding) {
  Drives drives;
  for (const v1::ResolvedGenerator& generator : encoding.generators()) {
    for (const v1::ResolvedBlock& block : generator.blocks()) {
      if (block.kind() == "identity") continue;
      drives.Add(block);
      if (block.has_decay_drive()) drives.Add(block.decay_drive());
      for (const v1::ResolvedTerm& term : block.further()) drives.Add(term);
    }
  }
  return drives;
}

}  // namespace

std::string KernelLagLabel(const v1::ResolvedEncoding& encoding) {
  const Drives drives = DrivesOf(encoding);
  if (drives.clock && !drives.time) {
    return "advance of the request's clock from key to query, in its units";
  }
  std::string label = "lag D in units, query after key";
  if (drives.axes) label += "; the same along every coordinate";
  if (drives.clock) label += "; clocks of the request advance alike";
  return label;
}

std::vector<std::string> NotDrawn(const v1::ResolvedEncoding& encoding) {
  std::vector<std::string> notes;
  for (const v1::Bias& bias : encoding.definition().biases()) {
    if (bias.has_cumulative_gate()) {
      notes.emplace_back(
          "cumulative_gate: driven by the request's gates, no function of the "
          "lag: not drawn");
    } else if (bias.has_path_integral()) {
      notes.emplace_back(
          "path_integral: driven by the request's gates, no function of the "
          "lag: not drawn");
    } else if (bias.has_grape_additive()) {
      notes.emplace_back(
          "grape_additive: its slope depends on each query and key: not drawn");
    }
  }
  const v1::QueryTemperature& temperature =
      encoding.definition().query_temperature();
  if (temperature.form() == v1::QueryTemperature::FORM_LOG_LENGTH) {
    notes.emplace_back(
        "query temperature: a factor that depends on how many keys a query "
        "sees, not on the lag: not drawn");
  } else if (encoding.definition().has_query_temperature()) {
    notes.emplace_back(
        "query temperature: a factor that depends on the query's own place, "
        "not on the lag: not drawn");
  }
  return notes;
}

std::string ChannelRanges(std::vector<int> channels) {
  std::sort(channels.begin(), channels.end());
  std::vector<std::string> ranges;
  for (size_t first = 0; first < channels.size();) {
    size_t last = first;
    while (last + 1 < channels.size() &&
           channels[last + 1] == channels[last] + 1) {
      ++last;
    }
    ranges.push_back(last == first
                         ? absl::StrCat(channels[first])
                         : absl::StrCat(channels[first], "-", channels[last]));
    first = last + 1;
  }
  if (ranges.size() > kMostRanges) {
    ranges.resize(kMostRanges);
    ranges.emplace_back("...");
  }
  return absl::StrCat("channels ", absl::StrJoin(ranges, ","));
}

}  // namespace attnd::client
