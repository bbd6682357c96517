#include "client/attnctl/attend_mask.h"

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/duration_text.h"
#include "client/npy.h"

namespace attnd::client {
namespace {

absl::Status About(const std::string& what, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(what, ": ", status.message()));
}

// A bound of a window: a plain number counts in the axis' own unit, "7d" is a
// length of time.
struct Bound {
  std::optional<int64_t> ticks;
  double time = 0;
};

absl::StatusOr<Bound> ParseNumber(const std::string& text,
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

absl::StatusOr<Bound> ParseBound(const char* option, const std::string& text,
                                 const v1::TimeAxis& axis) {
  absl::StatusOr<Bound> bound = ParseNumber(text, axis);
  if (!bound.ok()) return About(option, bound.status());
  if (bound->time >= 0 && std::isfinite(bound->time)) return bound;
  return absl::InvalidArgumentError(absl::StrCat(
      option, ": '", text, "', expected a finite time of at least 0"));
}

// "10:20", in the axis' own unit.
absl::Status AddRange(const std::string& text, bool floating, v1::Mask* mask) {
  const std::vector<std::string> ends = absl::StrSplit(text, ':');
  v1::TimeRange* range = mask->add_key_ranges();
  int64_t begin_ticks = 0, end_ticks = 0;
  double begin = 0, end = 0;
  const bool parsed = ends.size() == 2 &&
                      (floating ? absl::SimpleAtod(ends[0], &begin) &&
                                      absl::SimpleAtod(ends[1], &end)
                                : absl::SimpleAtoi(ends[0], &begin_ticks) &&
                                      absl::SimpleAtoi(ends[1], &end_ticks));
  if (!parsed || !(begin <= end) || begin_ticks > end_ticks) {
    return absl::InvalidArgumentError(
        absl::StrCat("--key-range '", text,
                     "', expected BEGIN:END, BEGIN not after END, as "
                     "numbers of ",
                     floating ? "the times' unit" : "ticks"));
  }
  range->set_begin_ticks(begin_ticks);
  range->set_end_ticks(end_ticks);
  range->set_begin_time(begin);
  range->set_end_time(end);
  return absl::OkStatus();
}

// A mask of uint8 from a file, none if `path` is empty.
absl::Status SetBytes(const std::string& path, std::string* bytes) {
  if (path.empty()) return absl::OkStatus();
  absl::StatusOr<NpyArray> array = ReadNpy(path);
  if (!array.ok()) return array.status();
  if (array->type != NpyType::kU1) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", NpyTypeText(*array),
                     ", expected uint8: array.astype('u1')"));
  }
  *bytes = std::move(array->data);
  return absl::OkStatus();
}

}  // namespace

absl::Status SetMask(const AttendArguments& arguments,
                     v1::AttendRequest* request) {
  v1::Mask* mask = request->mutable_mask();
  if (arguments.causal == "time") mask->set_causal(v1::CAUSALITY_TIME);
  if (arguments.causal == "index") mask->set_causal(v1::CAUSALITY_INDEX);
  mask->set_strict(arguments.strict);
  if (arguments.past_keys) mask->set_past_keys(*arguments.past_keys);
  if (arguments.future_keys) mask->set_future_keys(*arguments.future_keys);
  mask->set_prefix(arguments.prefix);
  mask->mutable_sinks()->Add(arguments.sinks.begin(), arguments.sinks.end());
  mask->mutable_query_offsets()->Add(arguments.query_offsets.begin(),
                                     arguments.query_offsets.end());
  mask->mutable_key_offsets()->Add(arguments.key_offsets.begin(),
                                   arguments.key_offsets.end());
  mask->mutable_query_lengths()->Add(arguments.query_lengths.begin(),
                                     arguments.query_lengths.end());
  mask->mutable_key_lengths()->Add(arguments.key_lengths.begin(),
                                   arguments.key_lengths.end());
  const v1::TimeAxis& axis = request->key_time();
  const bool floating = axis.type() == v1::TIME_TYPE_F64;
  if (!arguments.past.empty()) {
    absl::StatusOr<Bound> bound = ParseBound("--past", arguments.past, axis);
    if (!bound.ok()) return bound.status();
    floating ? mask->set_past_time(bound->time)
             : mask->set_past_ticks(*bound->ticks);
  }
  if (!arguments.future.empty()) {
    absl::StatusOr<Bound> bound =
        ParseBound("--future", arguments.future, axis);
    if (!bound.ok()) return bound.status();
    floating ? mask->set_future_time(bound->time)
             : mask->set_future_ticks(*bound->ticks);
  }
  for (const std::string& text : arguments.key_ranges) {
    absl::Status status = AddRange(text, floating, mask);
    if (!status.ok()) return status;
  }
  absl::Status status =
      SetBytes(arguments.key_validity, mask->mutable_key_validity());
  if (!status.ok()) return status;
  return SetBytes(arguments.value_mask, mask->mutable_value_channel_mask());
}

}  // namespace attnd::client
