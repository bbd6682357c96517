// Refusals of numbers that came from outside: INVALID_ARGUMENT with the path of
// the field, what it holds and what was expected.
#ifndef ATTND_KERNELS_FIELD_CHECKS_H_
#define ATTND_KERNELS_FIELD_CHECKS_H_

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace attnd {

// "path: got, expected what".
inline absl::Status Refuse(absl::string_view path, const absl::AlphaNum& got,
                           absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", got, ", expected ", expected));
}

// "field: why".
inline absl::Status RefuseField(absl::string_view field,
                                absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", why));
}

// The first of the statuses that is not ok.
template <typename... Statuses>
absl::Status FirstRefusal(absl::Status first, Statuses... rest) {
  if constexpr (sizeof...(rest) == 0) {
    return first;
  } else {
    return first.ok() ? FirstRefusal(std::move(rest)...) : first;
  }
}

inline absl::Status CheckFinite(absl::string_view path, double value) {
  if (std::isfinite(value)) return absl::OkStatus();
  return Refuse(path, value, "finite");
}

inline absl::Status CheckPositive(absl::string_view path, double value) {
  if (std::isfinite(value) && value > 0) return absl::OkStatus();
  return Refuse(path, value, "finite and > 0");
}

inline absl::Status CheckAtLeast(absl::string_view path, double value,
                                 double least) {
  if (std::isfinite(value) && value >= least) return absl::OkStatus();
  return Refuse(path, value, absl::StrCat("finite and >= ", least));
}

// check(path of the element, element) for each; the first refusal.
template <typename Number, typename Check>
absl::Status CheckEach(const std::string& path,
                       const std::vector<Number>& values, Check check) {
  for (size_t i = 0; i < values.size(); ++i) {
    absl::Status status = check(absl::StrCat(path, "[", i, "]"), values[i]);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

template <typename Number>
absl::Status CheckAllFinite(const std::string& path,
                            const std::vector<Number>& values) {
  return CheckEach(path, values, CheckFinite);
}

template <typename Number>
absl::Status CheckNoneNegative(const std::string& path,
                               const std::vector<Number>& values) {
  return CheckEach(path, values, [](absl::string_view at, double value) {
    return CheckAtLeast(at, value, 0);
  });
}

inline absl::Status CheckCount(absl::string_view path, size_t count,
                               size_t expected, absl::string_view of_what) {
  if (count == expected) return absl::OkStatus();
  return Refuse(path, absl::StrCat(count, " entries"),
                absl::StrCat(expected, " (", of_what, ")"));
}

inline absl::Status CheckNotEmpty(absl::string_view path, size_t count,
                                  absl::string_view of_what) {
  if (count > 0) return absl::OkStatus();
  return Refuse(path, "empty", of_what);
}

}  // namespace attnd

#endif  // ATTND_KERNELS_FIELD_CHECKS_H_
