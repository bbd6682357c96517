// Arrays in NumPy's .npy files (format versions 1, 2 and 3).
//
// Element types: f4 f8 f2 i8 i4 u1, datetime64 in s, ms, us or ns, and
// bfloat16, which NumPy itself does not know: '<V2' (what ml_dtypes writes) or,
// on request, '<u2'. Arrays are held in C order, little-endian; Fortran-order
// files are converted on reading. Everything else is refused with a text that
// says what NumPy call fixes it.
#ifndef ATTND_CLIENT_NPY_H_
#define ATTND_CLIENT_NPY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace attnd::client {

enum class NpyType { kF4, kF8, kF2, kBf16, kI8, kI4, kU1, kDatetime };

struct NpyArray {
  NpyType type = NpyType::kF4;
  // kDatetime only: "s", "ms", "us" or "ns".
  std::string time_unit = {};
  // Extents, each >= 0; empty = a scalar.
  std::vector<int64_t> shape = {};
  // product(shape) elements of NpyElementBytes(type), C order, little-endian.
  std::string data = {};
};

struct NpyOptions {
  // Read '<u2' as bfloat16 bits; refused otherwise.
  bool bf16_from_u2 = false;
};

// 8, 4, 2 or 1.
int64_t NpyElementBytes(NpyType type);

// NumPy's name of the type: "float32", "datetime64[ns]", "bfloat16".
std::string NpyTypeText(const NpyArray& array);

// Parses a whole file. InvalidArgument for a damaged, hostile or unsupported
// one; sizes are checked, without overflow, before anything is allocated, and
// the data must be exactly as long as the shape says.
absl::StatusOr<NpyArray> ParseNpy(absl::string_view file,
                                  const NpyOptions& options = {});

// A version 1.0 file as NumPy writes it: the data starts at a multiple of 64.
std::string SerializeNpy(const NpyArray& array);

// The same on files. Errors begin with the path; NotFound, PermissionDenied and
// so on come from the operating system.
absl::StatusOr<NpyArray> ReadNpy(const std::string& path,
                                 const NpyOptions& options = {});
absl::Status WriteNpy(const std::string& path, const NpyArray& array);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_NPY_H_
