#include "client/npy.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/files.h"
#include "client/npy_header.h"
#include "proto/wire.h"

namespace attnd::client {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr absl::string_view kMagic("\x93NUMPY", 6);
// NumPy's own headers are below 1 KiB and its limit is 10 KB.
constexpr size_t kMaxHeaderBytes = 64 << 10;

struct TypeName {
  const char* descr;
  NpyType type;
  const char* numpy_name;
};
constexpr TypeName kTypes[] = {
    {"<f4", NpyType::kF4, "float32"},    {"<f8", NpyType::kF8, "float64"},
    {"<f2", NpyType::kF2, "float16"},    {"<V2", NpyType::kBf16, "bfloat16"},
    {"|V2", NpyType::kBf16, "bfloat16"}, {"<i8", NpyType::kI8, "int64"},
    {"<i4", NpyType::kI4, "int32"},      {"|u1", NpyType::kU1, "uint8"},
    {"|b1", NpyType::kU1, "bool"},
};

absl::Status SetType(const NpyHeader& header, const NpyOptions& options,
                     NpyArray* array) {
  for (const TypeName& name : kTypes) {
    if (header.descr == name.descr) {
      array->type = name.type;
      return absl::OkStatus();
    }
  }
  for (const char* unit : {"s", "ms", "us", "ns"}) {
    if (header.descr == absl::StrCat("<M8[", unit, "]")) {
      array->type = NpyType::kDatetime;
      array->time_unit = unit;
      return absl::OkStatus();
    }
  }
  if (header.descr == "<u2" && options.bf16_from_u2) {
    array->type = NpyType::kBf16;
    return absl::OkStatus();
  }
  const char* remedy = "convert with a.astype('<f4')";
  if (header.descr == "<u2") {
    remedy = "give --bf16 if these are bfloat16 bits";
  } else if (absl::StrContains(header.descr, "M8")) {
    remedy = "convert with a.astype('<M8[ns]')";
  } else if (absl::StartsWith(header.descr, ">")) {
    remedy = "big-endian; convert with a.astype(a.dtype.newbyteorder('<'))";
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "element type '", header.descr,
      "', expected one of <f4 <f8 <f2 <V2 <i8 <i4 |u1 |b1 <M8[s|ms|us|ns]: ",
      remedy));
}

// Rewrites an array whose first index runs fastest.
std::string COrder(absl::string_view data, const std::vector<int64_t>& shape,
                   int64_t element) {
  std::string result(data.size(), '\0');
  std::vector<int64_t> stride(shape.size());
  int64_t step = element;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    stride[axis] = step;
    step *= shape[axis];
  }
  std::vector<int64_t> index(shape.size(), 0);
  int64_t source = 0;
  for (size_t target = 0; target < result.size(); target += element) {
    std::memcpy(&result[target], &data[source], element);
    for (size_t axis = shape.size(); axis-- > 0;) {
      source += stride[axis];
      if (++index[axis] < shape[axis]) break;
      source -= stride[axis] * shape[axis];
      index[axis] = 0;
    }
  }
  return result;
}

std::string Descr(const NpyArray& array) {
  if (array.type == NpyType::kDatetime) {
    return absl::StrCat("<M8[", array.time_unit, "]");
  }
  for (const TypeName& name : kTypes) {
    if (name.type == array.type) return name.descr;
  }
  return "";
}

// Splits magic, version and header length off the front.
absl::StatusOr<absl::string_view> TakeHeader(absl::string_view* file) {
  if (file->size() < 10 || !absl::StartsWith(*file, kMagic)) {
    return absl::InvalidArgumentError(
        "not a .npy file: it does not begin with \\x93NUMPY");
  }
  const int version = (*file)[6];
  const size_t length_bytes = version == 1 ? 2 : 4;
  if (version < 1 || version > 3 || (*file)[7] != 0 ||
      file->size() < 8 + length_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("format version ", version, ".", int{(*file)[7]},
                     ", expected 1.0, 2.0 or 3.0"));
  }
  uint32_t length = 0;
  std::memcpy(&length, file->data() + 8, length_bytes);
  file->remove_prefix(8 + length_bytes);
  if (length > kMaxHeaderBytes || length > file->size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("header of ", length, " bytes, expected at most ",
                     std::min(kMaxHeaderBytes, file->size())));
  }
  const absl::string_view header = file->substr(0, length);
  file->remove_prefix(length);
  return header;
}

}  // namespace

int64_t NpyElementBytes(NpyType type) {
  switch (type) {
    case NpyType::kF8:
    case NpyType::kI8:
    case NpyType::kDatetime:
      return 8;
    case NpyType::kF4:
    case NpyType::kI4:
      return 4;
    case NpyType::kF2:
    case NpyType::kBf16:
      return 2;
    case NpyType::kU1:
      return 1;
  }
  return 0;
}

std::string NpyTypeText(const NpyArray& array) {
  if (array.type == NpyType::kDatetime) {
    return absl::StrCat("datetime64[", array.time_unit, "]");
  }
  for (const TypeName& name : kTypes) {
    if (name.type == array.type) return name.numpy_name;
  }
  return "";
}

absl::StatusOr<NpyArray> ParseNpy(absl::string_view file,
                                  const NpyOptions& options) {
  absl::StatusOr<absl::string_view> text = TakeHeader(&file);
  if (!text.ok()) return text.status();
  absl::StatusOr<NpyHeader> header = ParseNpyHeader(*text);
  if (!header.ok()) return header.status();
  NpyArray array;
  if (absl::Status bad = SetType(*header, options, &array); !bad.ok()) {
    return bad;
  }
  const int64_t element = NpyElementBytes(array.type);
  const std::optional<int64_t> count = wire::ElementCount(header->shape);
  const std::optional<int64_t> bytes =
      count ? wire::CheckedMultiply(*count, element) : std::nullopt;
  if (!bytes || static_cast<uint64_t>(*bytes) != file.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        file.size(), " bytes of data, expected ",
        bytes ? absl::StrCat(*bytes) : "a size below 2^63", " for ",
        NpyTypeText(array), " ", wire::ShapeText(header->shape)));
  }
  array.data = header->fortran_order ? COrder(file, header->shape, element)
                                     : std::string(file);
  array.shape = std::move(header->shape);
  return array;
}

std::string SerializeNpy(const NpyArray& array) {
  std::string shape = absl::StrJoin(array.shape, ", ");
  if (array.shape.size() == 1) shape += ",";
  std::string header =
      absl::StrCat("{'descr': '", Descr(array),
                   "', 'fortran_order': False, 'shape': (", shape, "), }");
  constexpr size_t kPrefix = 10;
  header.append(63 - (kPrefix + header.size()) % 64, ' ');
  header += '\n';
  std::string file(kMagic);
  file += '\1';
  file += '\0';
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  return absl::StrCat(file, header, array.data);
}

absl::StatusOr<NpyArray> ReadNpy(const std::string& path,
                                 const NpyOptions& options) {
  absl::StatusOr<std::string> file = ReadFile(path, kMaxArrayBytes);
  if (!file.ok()) return file.status();
  absl::StatusOr<NpyArray> array = ParseNpy(*file, options);
  if (!array.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", array.status().message()));
  }
  return array;
}

absl::Status WriteNpy(const std::string& path, const NpyArray& array) {
  return WriteFile(path, SerializeNpy(array));
}

}  // namespace attnd::client
