#include "client/attnctl/attend_request.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/attnctl/attend_mask.h"
#include "client/attnctl/npy_tensors.h"

namespace attnd::client {
namespace {

absl::Status About(const std::string& what, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(what, ": ", status.message()));
}

constexpr std::pair<const char*, v1::Output> kOutputs[] = {
    {"output", v1::OUTPUT_OUTPUT},     {"lse", v1::OUTPUT_LSE},
    {"scores", v1::OUTPUT_SCORES},     {"weights", v1::OUTPUT_WEIGHTS},
    {"key_mass", v1::OUTPUT_KEY_MASS}, {"entropy", v1::OUTPUT_ENTROPY},
    {"top_k", v1::OUTPUT_TOP_K}};

absl::StatusOr<v1::Output> OutputOf(const std::string& name) {
  for (const auto& [known, output] : kOutputs) {
    if (name == known) return output;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--outputs '", name,
                   "', expected output, lse, scores, weights, top_k, key_mass "
                   "or entropy"));
}

absl::Status SetTensor(const std::string& path,
                       const AttendArguments& arguments, v1::Tensor* tensor) {
  absl::StatusOr<NpyArray> array =
      ReadNpy(path, {.bf16_from_u2 = arguments.bf16});
  if (!array.ok()) return array.status();
  absl::StatusOr<v1::Tensor> made = TensorFromNpy(
      *std::move(array),
      arguments.layout == "blhd" ? v1::LAYOUT_BLHD : v1::LAYOUT_BHLD);
  if (!made.ok()) return About(path, made.status());
  *tensor = *std::move(made);
  return absl::OkStatus();
}

absl::Status SetTime(const std::string& path, const std::string& unit,
                     v1::TimeAxis* axis) {
  absl::StatusOr<NpyArray> array = ReadNpy(path);
  if (!array.ok()) return array.status();
  absl::StatusOr<v1::TimeAxis> made = TimeAxisFromNpy(*array, unit);
  if (!made.ok()) return About(path, made.status());
  *axis = *std::move(made);
  return absl::OkStatus();
}

}  // namespace

const char* OutputName(v1::Output output) {
  for (const auto& [name, known] : kOutputs) {
    if (output == known) return name;
  }
  return "";
}

absl::StatusOr<v1::AttendRequest> MakeAttendRequest(
    const AttendArguments& arguments) {
  v1::AttendRequest request;
  absl::Status status =
      SetTensor(arguments.query, arguments, request.mutable_query());
  if (status.ok()) {
    status = SetTensor(arguments.key, arguments, request.mutable_key());
  }
  if (status.ok()) {
    status = SetTensor(arguments.value, arguments, request.mutable_value());
  }
  if (status.ok() && !arguments.query_time.empty()) {
    status = SetTime(arguments.query_time, arguments.unit,
                     request.mutable_query_time());
  }
  if (status.ok() && !arguments.key_time.empty()) {
    status =
        SetTime(arguments.key_time, arguments.unit, request.mutable_key_time());
  }
  if (status.ok() && !arguments.bias.empty()) {
    status = SetTensor(arguments.bias, arguments, request.mutable_bias());
  }
  if (status.ok()) status = SetMask(arguments, &request);
  if (!status.ok()) return status;
  if (!arguments.encoding.empty()) request.set_encoding(arguments.encoding);
  if (arguments.two_sided == "refuse") {
    request.set_two_sided(v1::TWO_SIDED_RULE_REFUSE);
  } else if (arguments.two_sided == "absolute_lag") {
    request.set_two_sided(v1::TWO_SIDED_RULE_ABSOLUTE_LAG);
  }
  if (arguments.scale) {
    request.set_scale(static_cast<float>(*arguments.scale));
  }
  if (arguments.softcap) {
    request.set_softcap(static_cast<float>(*arguments.softcap));
  }
  request.set_top_k(arguments.top_k);
  request.set_output_dtype(arguments.output_dtype == "f32"    ? v1::DTYPE_F32
                           : arguments.output_dtype == "bf16" ? v1::DTYPE_BF16
                           : arguments.output_dtype == "f16"
                               ? v1::DTYPE_F16
                               : v1::DTYPE_UNSPECIFIED);
  request.set_compute(arguments.compute == "f32" ? v1::COMPUTE_PRECISION_F32
                      : arguments.compute == "bf16"
                          ? v1::COMPUTE_PRECISION_BF16
                          : v1::COMPUTE_PRECISION_UNSPECIFIED);
  for (const std::string& name : arguments.outputs) {
    absl::StatusOr<v1::Output> output = OutputOf(name);
    if (!output.ok()) return output.status();
    request.add_outputs(*output);
  }
  return request;
}

}  // namespace attnd::client
