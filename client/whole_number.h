// A check of whole numbers on the command line.
#ifndef ATTND_CLIENT_WHOLE_NUMBER_H_
#define ATTND_CLIENT_WHOLE_NUMBER_H_

#include <CLI/Validators.hpp>
#include <limits>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace attnd::client {

// Refuses what a number of type T cannot hold; CLI11 takes the nearest.
template <typename T>
CLI::Validator WholeNumber() {
  return CLI::Validator(
      [](const std::string& text) {
        T number;
        return absl::SimpleAtoi(text, &number)
                   ? std::string()
                   : absl::StrCat("'", text, "': expected a whole number, ",
                                  std::numeric_limits<T>::min(), " to ",
                                  std::numeric_limits<T>::max());
      },
      "");
}

}  // namespace attnd::client

#endif  // ATTND_CLIENT_WHOLE_NUMBER_H_
