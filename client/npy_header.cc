#include "client/npy_header.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace attnd::client {
namespace {

// Axes that NumPy 2 can hold.
constexpr size_t kMaxAxes = 64;

// Takes tokens from the front of the text.
class Reader {
 public:
  explicit Reader(absl::string_view text) : text_(text), rest_(text) {}

  bool Take(absl::string_view token) {
    SkipSpace();
    if (!absl::StartsWith(rest_, token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  bool AtEnd() {
    SkipSpace();
    return rest_.empty();
  }

  bool TakeString(std::string* value) {
    SkipSpace();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) return false;
    const size_t end = rest_.find(rest_[0], 1);
    if (end == absl::string_view::npos) return false;
    *value = std::string(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return !absl::StrContains(*value, '\\');
  }

  bool TakeBool(bool* value) {
    *value = Take("True");
    return *value || Take("False");
  }

  // (), (3,), (2, 3).
  bool TakeShape(std::vector<int64_t>* shape) {
    shape->clear();
    if (!Take("(")) return false;
    while (!Take(")")) {
      int64_t extent;
      if (shape->size() == kMaxAxes || !TakeExtent(&extent)) return false;
      shape->push_back(extent);
      if (Take(",")) continue;
      return Take(")") && shape->size() > 1;
    }
    return true;
  }

  absl::Status Error(absl::string_view expected) const {
    const absl::string_view at = rest_.substr(0, 40);
    return absl::InvalidArgumentError(
        absl::StrCat("header: expected ", expected, " at offset ",
                     text_.size() - rest_.size(), ", found '", at, "'"));
  }

 private:
  void SkipSpace() {
    const size_t start = rest_.find_first_not_of(" \t\n\r");
    rest_.remove_prefix(start == absl::string_view::npos ? rest_.size()
                                                         : start);
  }

  bool TakeExtent(int64_t* extent) {
    SkipSpace();
    const size_t end =
        std::min(rest_.find_first_not_of("0123456789"), rest_.size());
    if (!absl::SimpleAtoi(rest_.substr(0, end), extent)) return false;
    rest_.remove_prefix(end);
    if (absl::StartsWith(rest_, "L")) rest_.remove_prefix(1);
    return true;
  }

  absl::string_view text_;
  absl::string_view rest_;
};

}  // namespace

absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view text) {
  Reader reader(text);
  NpyHeader header;
  bool has_descr = false, has_order = false, has_shape = false;
  if (!reader.Take("{")) return reader.Error("'{'");
  while (!reader.Take("}")) {
    std::string key;
    if (!reader.TakeString(&key) || !reader.Take(":")) {
      return reader.Error("'key': value or '}'");
    }
    if (key == "descr" && !has_descr) {
      has_descr = reader.TakeString(&header.descr);
      if (!has_descr) return reader.Error("a plain element type as '<f4'");
    } else if (key == "fortran_order" && !has_order) {
      has_order = reader.TakeBool(&header.fortran_order);
      if (!has_order) return reader.Error("True or False");
    } else if (key == "shape" && !has_shape) {
      has_shape = reader.TakeShape(&header.shape);
      if (!has_shape) {
        return reader.Error("a tuple of at most 64 integers >= 0");
      }
    } else {
      return reader.Error(absl::StrCat(
          "descr, fortran_order and shape once each, not key '", key, "',"));
    }
    if (reader.Take(",")) continue;
    if (!reader.Take("}")) return reader.Error("',' or '}'");
    break;
  }
  if (!reader.AtEnd()) return reader.Error("nothing after '}'");
  if (!has_descr || !has_order || !has_shape) {
    return absl::InvalidArgumentError(
        "header: expected the keys descr, fortran_order and shape");
  }
  return header;
}

}  // namespace attnd::client
