// attnctl attend: one request from .npy files, its answer to .npy files.
#include <google/protobuf/util/json_util.h>

#include <iostream>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/attnctl/attend_request.h"
#include "client/attnctl/commands.h"
#include "client/attnctl/exit_code.h"
#include "client/attnctl/failure.h"
#include "client/attnctl/linear_options.h"
#include "client/attnctl/npy_tensors.h"
#include "client/attnctl/target_options.h"
#include "client/attnctl/wait_notice.h"
#include "client/duration_text.h"
#include "client/files.h"
#include "client/named_files.h"
#include "client/number_range.h"
#include "proto/wire.h"

namespace attnd::client {
namespace {

// What the request holds as float.
constexpr double kMinFloat = std::numeric_limits<float>::min();
constexpr double kMaxFloat = std::numeric_limits<float>::max();

constexpr char kManual[] = R"(
Arrays
  Queries, keys and values have the axes [B,H,L,D]; [H,L,D] is read as B = 1 and
  [L,D] as B = H = 1. float32, float16 and bfloat16 travel as they are, float64
  is rounded to float32. bfloat16, which NumPy does not know, is '<V2' (as
  ml_dtypes writes it) or, with --bf16, uint16 bits.
  Times are [L] or [B,L]: int64 or float64 with --unit, or datetime64, which has
  its unit with it. Without times rows stand at positions 0, 1, 2, ...
  Results become PREFIX.output.npy, PREFIX.lse.npy and so on; top_k becomes
  PREFIX.top_indices.npy, PREFIX.top_weights.npy and PREFIX.top_times.npy.

Exit codes
  0  done
  1  the service refused the request; every wrong field is named
  2  the service was not reached, or not in time
  4  wrong arguments, or a file that cannot be read
  5  a result could not be written

Examples
  attnctl attend --query q.npy --key k.npy --value v.npy --out result
  attnctl attend --query q.npy --key k.npy --value v.npy \
      --query-time t.npy --key-time t.npy --unit ns \
      --encoding rope --causal --past 7d --outputs output,lse --out result
  attnctl attend --query q2.npy --key k2.npy --value v2.npy \
      --query-time t2.npy --key-time t2.npy --unit ns \
      --kind linear --encoding decay --state stream.state --out piece2
  attnctl attend --replay attnctl-mismatch-1.pb --out again)";

struct Arguments {
  TargetOptions target;
  AttendArguments attend;
  std::string replay;
  LinearArguments linear;
  std::string prefix;
  bool json = false;
  bool real_times = false;  // the request's are float64
};

void PrintJsonStats(const v1::Stats& stats) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string json;
  if (google::protobuf::util::MessageToJsonString(stats, &json, options).ok()) {
    std::cout << json;
  }
}

// Prints what was written, so that shapes need no other tool.
absl::Status WriteArray(const NpyArray& array, const std::string& path,
                        bool quiet) {
  absl::Status status = WriteNpy(path, array);
  if (status.ok() && !quiet) {
    std::cout << path << "  " << NpyTypeText(array) << " "
              << wire::ShapeText(array.shape) << "\n";
  }
  return status;
}

absl::Status WriteTensor(const v1::Tensor& tensor, const std::string& path,
                         bool quiet) {
  absl::StatusOr<NpyArray> array = NpyFromTensor(tensor);
  if (!array.ok()) return array.status();
  return WriteArray(*array, path, quiet);
}

// PREFIX.top_indices.npy, .top_weights.npy and, with times, .top_times.npy.
absl::Status WriteTopKeys(const v1::TopK& top, const Arguments& arguments) {
  const auto path = [&](const char* name) {
    return absl::StrCat(arguments.prefix, ".top_", name, ".npy");
  };
  absl::Status status =
      WriteTensor(top.weights(), path("weights"), arguments.json);
  const auto write = [&](NpyType type, const std::string& data,
                         const char* name) {
    if (!status.ok() || data.empty()) return;
    const auto& shape = top.weights().shape();
    status = WriteArray(
        {.type = type, .shape = {shape.begin(), shape.end()}, .data = data},
        path(name), arguments.json);
  };
  write(NpyType::kI8, top.indices(), "indices");
  write(arguments.real_times ? NpyType::kF8 : NpyType::kI8, top.times(),
        "times");
  return status;
}

ExitCode WriteAnswer(const v1::AttendResponse& answer,
                     const Arguments& arguments) {
  const std::pair<const char*, std::pair<bool, const v1::Tensor*>> tensors[] = {
      {"output", {answer.has_output(), &answer.output()}},
      {"lse", {answer.has_lse(), &answer.lse()}},
      {"scores", {answer.has_scores(), &answer.scores()}},
      {"weights", {answer.has_weights(), &answer.weights()}},
      {"key_mass", {answer.has_key_mass(), &answer.key_mass()}},
      {"entropy", {answer.has_entropy(), &answer.entropy()}}};
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.first) continue;
    absl::Status status = WriteTensor(
        *tensor.second, absl::StrCat(arguments.prefix, ".", name, ".npy"),
        arguments.json);
    if (!status.ok()) return FailedOutput(status);
  }
  if (answer.has_top_k()) {
    absl::Status status = WriteTopKeys(answer.top_k(), arguments);
    if (!status.ok()) return FailedOutput(status);
  }
  absl::Status state = WriteState(arguments.linear, answer);
  if (!state.ok()) return FailedOutput(state);
  if (arguments.json) {
    PrintJsonStats(answer.stats());
  } else {
    std::cout << "computed in "
              << DurationText(answer.stats().compute_seconds() * 1e9)
              << " after " << DurationText(answer.stats().queue_seconds() * 1e9)
              << " in the queue\n";
  }
  return kDone;
}

absl::StatusOr<v1::AttendRequest> ReadSaved(const std::string& path) {
  const absl::StatusOr<std::string> file = ReadFile(path, kMaxArrayBytes);
  if (!file.ok()) return file.status();
  v1::AttendRequest request;
  if (request.ParseFromString(*file)) return request;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": expected a serialized AttendRequest"));
}

absl::StatusOr<v1::AttendRequest> RequestOf(const Arguments& arguments) {
  if (!arguments.replay.empty()) return ReadSaved(arguments.replay);
  const AttendArguments& attend = arguments.attend;
  if (attend.query.empty() || attend.key.empty() || attend.value.empty()) {
    return absl::InvalidArgumentError(
        "expected --query, --key and --value, or --replay");
  }
  return MakeAttendRequest(attend);
}

// What will be read and written; the request says which results there are.
absl::Status CheckFilesOf(const Arguments& arguments,
                          const v1::AttendRequest& request) {
  const AttendArguments& attend = arguments.attend;
  std::vector<NamedFile> inputs = TargetFiles(arguments.target);
  inputs.insert(inputs.end(), {{"--query", attend.query},
                               {"--key", attend.key},
                               {"--value", attend.value},
                               {"--query-time", attend.query_time},
                               {"--key-time", attend.key_time},
                               {"--key-validity", attend.key_validity},
                               {"--value-mask", attend.value_mask},
                               {"--bias", attend.bias},
                               {"--replay", arguments.replay}});
  for (const std::string& path : arguments.linear.merge) {
    inputs.push_back({"--merge", path});
  }
  std::vector<NamedFile> outputs = {{"--state", arguments.linear.state}};
  const auto add = [&](const char* name) {
    outputs.push_back(
        {"--out", absl::StrCat(arguments.prefix, ".", name, ".npy")});
  };
  if (request.outputs().empty()) add("output");
  for (const int output : request.outputs()) {
    if (output == v1::OUTPUT_TOP_K) {
      for (const char* name : {"top_indices", "top_weights", "top_times"}) {
        add(name);
      }
    } else {
      add(OutputName(static_cast<v1::Output>(output)));
    }
  }
  return CheckFiles(inputs, outputs);
}

ExitCode Run(Arguments& arguments) {
  absl::StatusOr<v1::AttendRequest> request = RequestOf(arguments);
  if (!request.ok()) return FailedInput(request.status());
  const absl::Status files = CheckFilesOf(arguments, *request);
  if (!files.ok()) return FailedInput(files);
  arguments.real_times = request->key_time().type() == v1::TIME_TYPE_F64;
  const absl::Status linear = SetLinear(arguments.linear, &*request);
  if (!linear.ok()) return FailedInput(linear);
  absl::StatusOr<Client> client = MakeClient(arguments.target);
  if (!client.ok()) return FailedInput(client.status());
  absl::StatusOr<v1::AttendResponse> answer;
  {
    const WaitNotice notice(arguments.target);
    answer = client->Attend(*request);
  }
  if (!answer.ok()) return FailedCall(answer.status());
  return WriteAnswer(*answer, arguments);
}

void AddMaskArguments(CLI::App* command, AttendArguments* attend) {
  const CLI::Validator count = WholeNumber(0);
  command
      ->add_flag("--causal{time}", attend->causal,
                 "Hide keys after the query, by time; --causal=index by place")
      ->type_name("RULE")
      ->check(CLI::IsMember({"time", "index"}).description(""));
  command->add_flag("--strict", attend->strict,
                    "With --causal: hide keys at the query's own time too");
  command
      ->add_option("--past", attend->past,
                   "Hide keys older than this: 7d, or a number of ticks")
      ->type_name("TIME");
  command
      ->add_option("--future", attend->future,
                   "Hide keys further ahead than this")
      ->type_name("TIME");
  command
      ->add_option("--query-lengths", attend->query_lengths,
                   "Valid queries of each batch item: 5,3,8")
      ->check(count)
      ->delimiter(',');
  command
      ->add_option("--key-lengths", attend->key_lengths,
                   "Valid keys of each batch item")
      ->check(count)
      ->delimiter(',');
  command
      ->add_option("--past-keys", attend->past_keys,
                   "At most so many keys at or before the query")
      ->check(count);
  command
      ->add_option("--future-keys", attend->future_keys,
                   "At most so many keys after the query")
      ->check(count);
  command
      ->add_option("--prefix", attend->prefix,
                   "So many first keys are visible to every query")
      ->check(count);
  command
      ->add_option("--key-range", attend->key_ranges,
                   "Only keys within this time, BEGIN:END in ticks; repeatable")
      ->type_name("RANGE");
  command
      ->add_option("--query-offsets", attend->query_offsets,
                   "Sequences packed into one item begin at: 0,5,8")
      ->check(count)
      ->delimiter(',');
  command
      ->add_option("--key-offsets", attend->key_offsets,
                   "The same for the keys")
      ->check(count)
      ->delimiter(',');
  command
      ->add_option("--key-validity", attend->key_validity,
                   "0 = invalid key, .npy of uint8, [B,L]")
      ->type_name("FILE");
  command
      ->add_option("--value-mask", attend->value_mask,
                   "0 = not observed, .npy of uint8, [B,L,D]: each channel of "
                   "the values is averaged over its observed keys")
      ->type_name("FILE");
  command
      ->add_option("--sinks", attend->sinks,
                   "Logits of no key in the denominator, one per query head; "
                   "-inf for none")
      ->check(RealNumber(-kNoEnd, kMaxFloat))
      ->delimiter(',');
}

void AddArguments(CLI::App* command, Arguments* arguments) {
  AttendArguments* attend = &arguments->attend;
  command->add_option("--query", attend->query, "Queries, .npy")
      ->type_name("FILE");
  command->add_option("--key", attend->key, "Keys, .npy")->type_name("FILE");
  command->add_option("--value", attend->value, "Values, .npy")
      ->type_name("FILE");
  command
      ->add_option("--replay", arguments->replay,
                   "Send a whole request that attnctl load has saved, instead "
                   "of arrays; no option but --out, --json and those of the "
                   "connection counts then")
      ->type_name("FILE")
      ->excludes("--query")
      ->excludes("--key")
      ->excludes("--value");
  CLI::Option* query_time = command->add_option(
      "--query-time", attend->query_time, "Times of the queries, .npy");
  CLI::Option* key_time = command->add_option("--key-time", attend->key_time,
                                              "Times of the keys, .npy");
  query_time->type_name("FILE");
  key_time->type_name("FILE");
  query_time->needs(key_time);
  key_time->needs(query_time);
  command
      ->add_option("--unit", attend->unit,
                   "What one tick of the times lasts: ns us ms s positions")
      ->type_name("UNIT");
  command->add_flag("--bf16", attend->bf16, "Read uint16 as bfloat16 bits");
  command->add_option("--layout", attend->layout, "bhld or blhd")
      ->check(CLI::IsMember({"bhld", "blhd"}).description(""))
      ->type_name("")
      ->capture_default_str();
  command
      ->add_option("--encoding", attend->encoding,
                   "Name of a configured encoding; default: none")
      ->type_name("NAME");
  AddMaskArguments(command, attend);
  command
      ->add_option("--two-sided", attend->two_sided,
                   "Keys ahead of the query under an encoding for the past "
                   "alone: refuse, or absolute_lag; default: the encoding's")
      ->check(CLI::IsMember({"refuse", "absolute_lag"}).description(""))
      ->type_name("RULE");
  command
      ->add_option("--scale", attend->scale,
                   "Multiplies q.k; default 1/sqrt(D)")
      ->check(RealNumber(-kMaxFloat, kMaxFloat));
  command
      ->add_option("--softcap", attend->softcap,
                   "Bounds logits softly: cap * tanh(logit / cap)")
      ->check(RealNumber(kMinFloat, kMaxFloat));
  command
      ->add_option("--bias", attend->bias,
                   "Added to the logits, .npy, axes of 1 broadcast")
      ->type_name("FILE");
  command
      ->add_option("--outputs", attend->outputs,
                   "output,lse,scores,weights,top_k,key_mass,entropy")
      ->delimiter(',')
      ->capture_default_str();
  command
      ->add_option("--top-k", attend->top_k,
                   "With --outputs top_k: keys per query")
      ->check(WholeNumber(1, std::numeric_limits<int32_t>::max()));
  command
      ->add_option("--output-dtype", attend->output_dtype,
                   "f32, bf16 or f16; default: as the queries")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}).description(""))
      ->type_name("TYPE");
  command
      ->add_option("--compute", attend->compute,
                   "f32 (default) or bf16: products of operands rounded to "
                   "bf16, where the server's processor has them")
      ->check(CLI::IsMember({"f32", "bf16"}).description(""))
      ->type_name("TYPE");
  command->add_option("--out", arguments->prefix, "Prefix of the result files")
      ->type_name("PREFIX")
      ->required();
  command->add_flag("--json", arguments->json,
                    "Print the server's statistics as JSON, nothing else");
}

}  // namespace

void AddAttendCommand(CLI::App& app, int* exit_code) {
  CLI::App* command =
      app.add_subcommand("attend", "Compute attention over .npy arrays");
  auto arguments = std::make_shared<Arguments>();
  command->footer(kManual);
  AddArguments(command, arguments.get());
  AddLinearOptions(command, &arguments->linear);
  AddTargetOptions(command, &arguments->target);
  command->callback([arguments, exit_code] { *exit_code = Run(*arguments); });
}

}  // namespace attnd::client
