#include "client/number_range.h"

#include <cmath>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/duration_text.h"

namespace attnd::client {
namespace {

std::string Refusal(const std::string& text, const std::string& expected) {
  return absl::StrCat("'", text, "', expected ", expected);
}

// "a number above 0 and at most 1".
std::string RangeText(double low, double high, bool with_low, bool with_high) {
  std::string text =
      std::isinf(high) && !with_high ? "a finite number" : "a number";
  if (!std::isinf(low)) {
    absl::StrAppend(&text, with_low ? " of at least " : " above ", low);
    if (!std::isinf(high)) text += " and";
  }
  if (!std::isinf(high)) {
    absl::StrAppend(&text, with_high ? " at most " : " below ", high);
  }
  return text;
}

CLI::Validator Time(bool with_zero) {
  return CLI::Validator(
      [with_zero](const std::string& text) {
        const absl::StatusOr<int64_t> ns = ParseDuration(text);
        if (!ns.ok()) return std::string(ns.status().message());
        if (*ns > 0 || (with_zero && *ns == 0)) return std::string();
        return Refusal(text,
                       with_zero ? "a time of at least 0" : "a time above 0");
      },
      "");
}

}  // namespace

CLI::Validator WholeNumber(int64_t low, int64_t high) {
  return CLI::Validator(
      [low, high](const std::string& text) {
        int64_t number;
        if (absl::SimpleAtoi(text, &number) && number >= low &&
            number <= high) {
          return std::string();
        }
        return Refusal(
            text, high == std::numeric_limits<int64_t>::max()
                      ? absl::StrCat("a whole number of at least ", low)
                      : absl::StrCat("a whole number, ", low, " to ", high));
      },
      "");
}

CLI::Validator Seed() {
  return CLI::Validator(
      [](const std::string& text) {
        uint64_t number;
        if (absl::SimpleAtoi(text, &number)) return std::string();
        return Refusal(text,
                       absl::StrCat("a whole number, 0 to ",
                                    std::numeric_limits<uint64_t>::max()));
      },
      "");
}

CLI::Validator RealNumber(double low, double high, Ends ends) {
  const bool with_low = ends == Ends::kBoth || ends == Ends::kLow;
  const bool with_high = ends == Ends::kBoth || ends == Ends::kHigh;
  return CLI::Validator(
      [=](const std::string& text) {
        double number;
        if (absl::SimpleAtod(text, &number) &&
            (with_low ? number >= low : number > low) &&
            (with_high ? number <= high : number < high)) {
          return std::string();
        }
        return Refusal(text, RangeText(low, high, with_low, with_high));
      },
      "");
}

CLI::Validator TimeFrom0() { return Time(true); }

CLI::Validator TimeAbove0() { return Time(false); }

}  // namespace attnd::client
