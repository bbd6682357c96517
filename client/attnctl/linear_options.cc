#include "client/attnctl/linear_options.h"

#include "absl/strings/str_cat.h"
#include "client/files.h"
#include "client/linear_names.h"

namespace attnd::client {
namespace {

absl::Status ReadState(const std::string& path, v1::LinearState* state) {
  absl::StatusOr<std::string> bytes = ReadFile(path, kMaxArrayBytes);
  if (!bytes.ok()) return bytes.status();
  if (state->ParseFromString(*bytes) && state->version() != 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": not a state that attnctl wrote"));
}

}  // namespace

void AddLinearOptions(CLI::App* command, LinearArguments* arguments) {
  const auto one_of = [&](const char* name, std::string& value,
                          const char* text,
                          const std::vector<std::string>& values) {
    command->add_option(name, value, text)
        ->check(CLI::IsMember(values).description(""))
        ->type_name("")
        ->capture_default_str();
  };
  one_of("--kind", arguments->kind,
         "softmax, or linear: cost grows with the length alone",
         {"softmax", "linear"});
  one_of("--normaliser", arguments->normaliser,
         "With --kind linear: none, sum or retnet", {"none", "sum", "retnet"});
  one_of("--feature-map", arguments->feature_map,
         "With --kind linear: identity, elu_plus_one, relu or softplus",
         {"identity", "elu_plus_one", "relu", "softplus"});
  one_of("--input-rule", arguments->input_rule,
         "With --kind linear: event, zero_order_hold or trapezoid",
         {"event", "zero_order_hold", "trapezoid"});
  command->add_flag("--bidirectional", arguments->bidirectional,
                    "With --kind linear: see the future as well");
  command
      ->add_option("--state", arguments->state,
                   "With --kind linear: go on from the state in this file, if "
                   "it exists, and replace it by the state after the last key")
      ->type_name("FILE");
  command
      ->add_option("--merge", arguments->merge,
                   "With --state: add the states of further segments")
      ->type_name("FILE,...")
      ->delimiter(',');
}

absl::Status SetLinear(const LinearArguments& arguments,
                       v1::AttendRequest* request) {
  if (arguments.kind != "linear") {
    if (arguments.normaliser == "none" && arguments.feature_map == "identity" &&
        arguments.input_rule == "event" && !arguments.bidirectional &&
        arguments.state.empty() && arguments.merge.empty()) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        "--normaliser, --feature-map, --input-rule, --bidirectional, --state "
        "and --merge need --kind linear");
  }
  request->set_kind(v1::ATTENTION_KIND_LINEAR);
  v1::LinearOptions* linear = request->mutable_linear();
  *linear = LinearOptionsOf(arguments.normaliser, arguments.feature_map,
                            arguments.input_rule);
  linear->set_bidirectional(arguments.bidirectional);
  if (arguments.state.empty() && !arguments.merge.empty()) {
    return absl::InvalidArgumentError("--merge needs --state");
  }
  if (!arguments.state.empty()) {
    linear->set_return_state(true);
    absl::Status status =
        ReadState(arguments.state, linear->mutable_initial_state());
    if (absl::IsNotFound(status)) {
      linear->clear_initial_state();
    } else if (!status.ok()) {
      return status;
    }
  }
  for (const std::string& path : arguments.merge) {
    absl::Status status = ReadState(path, linear->add_merge_states());
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status WriteState(const LinearArguments& arguments,
                        const v1::AttendResponse& answer) {
  if (arguments.state.empty() || !answer.has_final_state()) {
    return absl::OkStatus();
  }
  return WriteFile(arguments.state, answer.final_state().SerializeAsString());
}

}  // namespace attnd::client
