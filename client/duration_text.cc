#include "client/duration_text.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/decimal.h"

namespace attnd::client {
namespace {

struct Unit {
  const char* name;
  int64_t nanoseconds;
};
constexpr int64_t kSecond = 1'000'000'000;
constexpr Unit kUnits[] = {
    {"ns", 1},
    {"us", 1000},
    {"ms", 1'000'000},
    {"s", kSecond},
    {"min", 60 * kSecond},
    {"h", 3600 * kSecond},
    {"d", 86400 * kSecond},
    {"w", 7 * 86400 * kSecond},
};

}  // namespace

std::optional<int64_t> UnitNanoseconds(absl::string_view unit) {
  for (const Unit& known : kUnits) {
    if (unit == known.name) return known.nanoseconds;
  }
  return {};
}

absl::StatusOr<int64_t> ParseDuration(absl::string_view text) {
  const size_t split =
      std::min(text.find_first_not_of("+-.0123456789"), text.size());
  const std::optional<int64_t> unit = UnitNanoseconds(text.substr(split));
  if (!unit) {
    return absl::InvalidArgumentError(
        absl::StrCat("duration '", text,
                     "', expected a number and one of ns us ms s min h d w, "
                     "for example 250ms or 7d"));
  }
  const std::optional<int64_t> value =
      ScaleDecimal(text.substr(0, split), *unit);
  if (!value) {
    return absl::InvalidArgumentError(absl::StrCat(
        "duration '", text,
        "', expected a whole number of nanoseconds below 292 years"));
  }
  return *value;
}

std::string DurationText(double nanoseconds) {
  const double size = std::abs(nanoseconds);
  const Unit* unit = std::begin(kUnits);
  while (std::next(unit) != std::end(kUnits) &&
         std::next(unit)->nanoseconds <= size * 1.0005 &&
         std::next(unit)->nanoseconds <= kUnits[6].nanoseconds) {
    ++unit;
  }
  const double value = nanoseconds / unit->nanoseconds;
  const double magnitude = std::abs(value);
  const int decimals = magnitude >= 99.95 ? 0 : magnitude >= 9.995 ? 1 : 2;
  if (unit == kUnits) return absl::StrFormat("%.0fns", value);
  return absl::StrFormat("%.*f%s", decimals, value, unit->name);
}

}  // namespace attnd::client
