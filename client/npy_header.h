// The header of a .npy file: a Python dictionary of three keys.
#ifndef ATTND_CLIENT_NPY_HEADER_H_
#define ATTND_CLIENT_NPY_HEADER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace attnd::client {

struct NpyHeader {
  // "<f4"; structured types are refused.
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

// Reads "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }": the
// three keys once each in any order, Python 2's "3L" as 3. Nothing else is
// accepted, and nothing is evaluated. At most 64 axes.
absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view text);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_NPY_HEADER_H_
