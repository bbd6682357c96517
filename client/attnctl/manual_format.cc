#include "client/attnctl/manual_format.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace attnd::client {
namespace {

constexpr size_t kTextColumn = 26;
// Before the value that a flag has when none is given: --json{-}.
constexpr char kFlagValue = '{';

}  // namespace

ManualFormat::ManualFormat() { column_width(kTextColumn); }

std::string ManualFormat::make_option_name(const CLI::Option* option,
                                           bool positional) const {
  const std::string name = Formatter::make_option_name(option, positional);
  const size_t value = name.find(kFlagValue);
  if (value == std::string::npos) return name;
  return absl::StrCat(name.substr(0, value), "[=", option->get_type_name(),
                      "]");
}

std::string ManualFormat::make_option_opts(const CLI::Option* option) const {
  const std::string name = Formatter::make_option_name(option, false);
  if (option->get_type_size() == 0 || option->get_type_name().empty() ||
      absl::StrContains(name, kFlagValue)) {
    return "";
  }
  return absl::StrCat(" ", option->get_type_name());
}

std::string ManualFormat::make_option_desc(const CLI::Option* option) const {
  std::string text = option->get_description();
  if (option->get_required()) absl::StrAppend(&text, " (required)");
  std::string value = option->get_default_str();
  if (value.size() > 1 && value.front() == '[') {
    value = value.substr(1, value.size() - 2);  // a list
  }
  if (option->get_type_size() != 0 && !value.empty()) {
    absl::StrAppend(&text, " (default ", value, ")");
  }
  return Wrapped(text, 80 - kTextColumn);
}

std::string Wrapped(const std::string& text, size_t width) {
  std::string result;
  size_t column = 0;
  for (absl::string_view word : absl::StrSplit(text, ' ')) {
    const bool fits = column + 1 + word.size() <= width;
    if (column > 0) result += fits ? ' ' : '\n';
    column = column > 0 && fits ? column + 1 + word.size() : word.size();
    result.append(word.data(), word.size());
  }
  return result;
}

}  // namespace attnd::client
