#include "client/attnctl/parameters_text.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "google/protobuf/descriptor.h"

namespace attnd::client {
namespace {

using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Numbers and embeddings that are shown one by one.
constexpr size_t kMostNumbers = 16;
constexpr int kMostMessages = 4;

// FORM_LOG of Kerple.Form as "log".
std::string EnumText(const EnumValueDescriptor& value) {
  std::string prefix;
  for (const char c : value.type()->name()) {
    if (absl::ascii_isupper(c) && !prefix.empty()) prefix += '_';
    prefix += absl::ascii_toupper(c);
  }
  const absl::string_view name = value.name();
  return absl::AsciiStrToLower(absl::StripPrefix(name, prefix + "_"));
}

std::vector<double> NumbersOf(const Message& message,
                              const FieldDescriptor& field) {
  const Reflection& access = *message.GetReflection();
  std::vector<double> numbers;
  for (int i = 0; i < access.FieldSize(message, &field); ++i) {
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_FLOAT:
        numbers.push_back(access.GetRepeatedFloat(message, &field, i));
        break;
      case FieldDescriptor::CPPTYPE_INT32:
        numbers.push_back(access.GetRepeatedInt32(message, &field, i));
        break;
      default:
        numbers.push_back(access.GetRepeatedDouble(message, &field, i));
    }
  }
  return numbers;
}

std::string MessagesText(const Message& message, const FieldDescriptor& field) {
  const Reflection& access = *message.GetReflection();
  const int count = access.FieldSize(message, &field);
  std::vector<std::string> texts;
  for (int i = 0; i < std::min(count, kMostMessages); ++i) {
    texts.push_back(absl::StrCat(
        "(", ParametersText(access.GetRepeatedMessage(message, &field, i)),
        ")"));
  }
  if (count > kMostMessages) {
    texts.push_back(absl::StrCat("and ", count - kMostMessages, " more"));
  }
  return absl::StrJoin(texts, " ");
}

// Empty for an enum that names nothing.
std::string ValueText(const Message& message, const FieldDescriptor& field) {
  const Reflection& access = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return field.is_repeated()
                 ? MessagesText(message, field)
                 : absl::StrCat(
                       "(", ParametersText(access.GetMessage(message, &field)),
                       ")");
    case FieldDescriptor::CPPTYPE_ENUM: {
      const EnumValueDescriptor* value = access.GetEnum(message, &field);
      return value->number() == 0 ? "" : EnumText(*value);
    }
    case FieldDescriptor::CPPTYPE_BOOL:
      return access.GetBool(message, &field) ? "true" : "false";
    case FieldDescriptor::CPPTYPE_STRING:
      return access.GetString(message, &field);
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrCat(access.GetInt64(message, &field));
    case FieldDescriptor::CPPTYPE_INT32:
      if (field.is_repeated()) break;
      return absl::StrCat(access.GetInt32(message, &field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      if (field.is_repeated()) break;
      return absl::StrFormat("%.6g", access.GetDouble(message, &field));
    default:
      break;
  }
  return NumbersText(NumbersOf(message, field));
}

}  // namespace

std::string ParametersText(const Message& message) {
  const Reflection& access = *message.GetReflection();
  std::vector<std::string> texts;
  for (int f = 0; f < message.GetDescriptor()->field_count(); ++f) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(f);
    // A flag that is not set says something too.
    const bool flag = field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL &&
                      !field.has_presence();
    if (field.is_repeated() ? access.FieldSize(message, &field) == 0
                            : !flag && !access.HasField(message, &field)) {
      continue;
    }
    const std::string value = ValueText(message, field);
    if (!value.empty()) {
      texts.push_back(absl::StrCat(field.name(), " ", value));
    }
  }
  return absl::StrJoin(texts, ", ");
}

std::string NumbersText(const std::vector<double>& numbers) {
  if (numbers.size() <= kMostNumbers) {
    return absl::StrJoin(numbers, " ", [](std::string* out, double number) {
      absl::StrAppendFormat(out, "%.6g", number);
    });
  }
  const auto [least, most] =
      std::minmax_element(numbers.begin(), numbers.end());
  return absl::StrFormat("%d numbers, %.6g to %.6g", numbers.size(), *least,
                         *most);
}

}  // namespace attnd::client
