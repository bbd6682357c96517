// Decimal numbers times a unit, as exact integers: "1.5" hours is 5400 s.
#ifndef ATTND_CLIENT_DECIMAL_H_
#define ATTND_CLIENT_DECIMAL_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace attnd::client {

// text * scale, exactly. `text` is [+-]digits[.digits]; nullopt for anything
// else, when the product is not an integer, or when it exceeds int64.
//
//   scale    >= 1
std::optional<int64_t> ScaleDecimal(absl::string_view text, int64_t scale);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_DECIMAL_H_
