#include "client/decimal.h"

#include <limits>

#include "absl/numeric/int128.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace attnd::client {

std::optional<int64_t> ScaleDecimal(absl::string_view text, int64_t scale) {
  const bool negative = absl::StartsWith(text, "-");
  if (negative || absl::StartsWith(text, "+")) text.remove_prefix(1);
  const size_t point = text.find('.');
  if (point != absl::string_view::npos) {
    // Zeros at the end of a fraction say nothing but would cost digits.
    while (absl::EndsWith(text, "0")) text.remove_suffix(1);
  }
  // More fraction digits cannot cancel against any unit; with 18 every product
  // below stays within 2^63 * 10^18 < 2^123.
  constexpr int kMaxFraction = 18;
  const absl::int128 limit = (absl::int128(1) << 123) / scale;
  absl::int128 digits = 0;
  absl::int128 denominator = 1;
  int digit_count = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i == point) continue;
    if (!absl::ascii_isdigit(text[i])) return {};
    digits = digits * 10 + (text[i] - '0');
    if (i > point && i - point > kMaxFraction) return {};
    if (i > point) denominator *= 10;
    if (digits > limit) return {};
    ++digit_count;
  }
  if (digit_count == 0) return {};
  const absl::int128 scaled = digits * scale;
  if (scaled % denominator != 0) return {};
  const absl::int128 value = (negative ? -scaled : scaled) / denominator;
  if (value < std::numeric_limits<int64_t>::min() ||
      value > std::numeric_limits<int64_t>::max()) {
    return {};
  }
  return static_cast<int64_t>(value);
}

}  // namespace attnd::client
