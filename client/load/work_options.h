// What kinds of requests a load test sends, as typed.
#ifndef ATTND_CLIENT_LOAD_WORK_OPTIONS_H_
#define ATTND_CLIENT_LOAD_WORK_OPTIONS_H_

#include <CLI/App.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace attnd::client {

struct WorkArguments {
  int64_t batch = 1;
  int64_t heads = 8;
  std::optional<int64_t> kv_heads = std::nullopt;
  int64_t queries = 128;
  std::optional<int64_t> keys = std::nullopt;
  int64_t dim = 64;
  std::optional<int64_t> value_dim = std::nullopt;
  std::string dtype = "f32";
  std::string compute = "f32";
  std::string encoding = {};
  std::string kind = "softmax";
  std::string normaliser = "none";
  std::string feature_map = "identity";
  std::string input_rule = "event";
  std::string causal = "none";
  bool strict = false;
  std::string past = {};
  std::string future = {};
  std::optional<int64_t> past_keys = std::nullopt;
  double ragged = 0;
  std::vector<std::string> outputs = {"output"};
  std::string times = "poisson";
  std::string gap = "1s";
  // Files with tensors (.npz, or the prefix of .npy files) or a series (.csv).
  std::string arrays = {};
  std::string unit = {};
  std::string series = {};
  std::string time_column = "1";
  std::string value_column = "2";
  std::string time_unit = {};
  std::string missing = {};
  std::string tenant = {};
  int priority = 0;
  int64_t distinct = 4;
  uint64_t seed = 1;
  // Kinds of work beside it, each as ParseMixEntry() reads it.
  std::vector<std::string> mix = {};
};

void AddWorkOptions(CLI::App* command, WorkArguments* arguments);

// "weight=3 name=long queries=1024 encoding=rope causal=time": any option of
// the work without its dashes, separated by spaces or commas, over `base`.
struct MixEntry {
  std::string name = {};
  double weight = 1;
  WorkArguments arguments = {};
};
absl::StatusOr<MixEntry> ParseMixEntry(absl::string_view text,
                                       const WorkArguments& base);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_WORK_OPTIONS_H_
