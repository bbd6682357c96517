#include "client/attnctl/attend_request.h"

#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/attnctl/npy_tensors.h"
#include "client/duration_text.h"

namespace attnd::client {
namespace {

absl::Status About(const std::string& what, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(what, ": ", status.message()));
}

absl::StatusOr<v1::Output> OutputOf(const std::string& name) {
  const std::pair<const char*, v1::Output> outputs[] = {
      {"output", v1::OUTPUT_OUTPUT},     {"lse", v1::OUTPUT_LSE},
      {"scores", v1::OUTPUT_SCORES},     {"weights", v1::OUTPUT_WEIGHTS},
      {"key_mass", v1::OUTPUT_KEY_MASS}, {"entropy", v1::OUTPUT_ENTROPY}};
  for (const auto& [known, output] : outputs) {
    if (name == known) return output;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--outputs '", name,
                   "', expected output, lse, scores, weights, key_mass or "
                   "entropy"));
}

// A bound of a window: a plain number counts in the axis' own unit, "7d" is a
// length of time.
struct Bound {
  std::optional<int64_t> ticks;
  double time = 0;
};

absl::StatusOr<Bound> ParseBound(const std::string& text,
                                 const v1::TimeAxis& axis) {
  const std::string unit_names[] = {"", "ns", "us", "ms", "s"};
  const v1::TickUnit unit =
      axis.units().empty() ? v1::TICK_UNIT_POSITIONS : axis.units(0);
  const bool floating = axis.type() == v1::TIME_TYPE_F64;
  Bound bound;
  int64_t ticks;
  if (absl::SimpleAtoi(text, &ticks)) {
    bound.ticks = ticks;
    bound.time = static_cast<double>(ticks);
    return bound;
  }
  if (floating && absl::SimpleAtod(text, &bound.time)) return bound;
  if (unit == v1::TICK_UNIT_POSITIONS) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text,
                     "', expected a number of positions: without --unit there "
                     "is no clock to measure a duration"));
  }
  const absl::StatusOr<int64_t> ns = ParseDuration(text);
  if (!ns.ok()) return ns.status();
  const int64_t tick_ns = *UnitNanoseconds(unit_names[unit]);
  bound.time = static_cast<double>(*ns) / static_cast<double>(tick_ns);
  if (*ns % tick_ns == 0) bound.ticks = *ns / tick_ns;
  if (!floating && !bound.ticks) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "', expected a whole number of ticks of 1 ",
                     unit_names[unit]));
  }
  return bound;
}

absl::Status SetMask(const AttendArguments& arguments,
                     v1::AttendRequest* request) {
  v1::Mask* mask = request->mutable_mask();
  if (arguments.causal == "time") mask->set_causal(v1::CAUSALITY_TIME);
  if (arguments.causal == "index") mask->set_causal(v1::CAUSALITY_INDEX);
  mask->set_strict(arguments.strict);
  mask->mutable_query_lengths()->Add(arguments.query_lengths.begin(),
                                     arguments.query_lengths.end());
  mask->mutable_key_lengths()->Add(arguments.key_lengths.begin(),
                                   arguments.key_lengths.end());
  const v1::TimeAxis& axis = request->key_time();
  const bool floating = axis.type() == v1::TIME_TYPE_F64;
  if (!arguments.past.empty()) {
    absl::StatusOr<Bound> bound = ParseBound(arguments.past, axis);
    if (!bound.ok()) return About("--past", bound.status());
    floating ? mask->set_past_time(bound->time)
             : mask->set_past_ticks(*bound->ticks);
  }
  if (!arguments.future.empty()) {
    absl::StatusOr<Bound> bound = ParseBound(arguments.future, axis);
    if (!bound.ok()) return About("--future", bound.status());
    floating ? mask->set_future_time(bound->time)
             : mask->set_future_ticks(*bound->ticks);
  }
  return absl::OkStatus();
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
  for (const std::string& name : arguments.outputs) {
    absl::StatusOr<v1::Output> output = OutputOf(name);
    if (!output.ok()) return output.status();
    request.add_outputs(*output);
  }
  return request;
}

}  // namespace attnd::client
