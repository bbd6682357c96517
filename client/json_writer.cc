#include "client/json_writer.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace attnd::client {

std::string JsonString(absl::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&result, "\\u%04x", c);
    } else {
      result += c;
    }
  }
  return result + "\"";
}

void JsonWriter::NewLine() {
  absl::StrAppend(&text_, "\n", std::string(2 * depth_, ' '));
}

void JsonWriter::Begin() {
  if (!after_key_ && depth_ > 0) {
    if (!first_) text_ += ',';
    NewLine();
  }
  after_key_ = false;
  first_ = false;
}

void JsonWriter::BeginObject() {
  Begin();
  text_ += '{';
  ++depth_;
  first_ = true;
}

void JsonWriter::EndObject() {
  --depth_;
  if (!first_) NewLine();
  text_ += '}';
  first_ = false;
}

void JsonWriter::BeginArray() {
  Begin();
  text_ += '[';
  ++depth_;
  first_ = true;
}

void JsonWriter::EndArray() {
  --depth_;
  if (!first_) NewLine();
  text_ += ']';
  first_ = false;
}

void JsonWriter::Key(absl::string_view key) {
  Begin();
  absl::StrAppend(&text_, JsonString(key), ": ");
  after_key_ = true;
}

void JsonWriter::String(absl::string_view value) {
  Begin();
  text_ += JsonString(value);
}

void JsonWriter::Int(int64_t value) {
  Begin();
  absl::StrAppend(&text_, value);
}

void JsonWriter::Unsigned(uint64_t value) {
  Begin();
  absl::StrAppend(&text_, value);
}

void JsonWriter::Double(double value) {
  Begin();
  if (!std::isfinite(value)) {
    text_ += "null";
    return;
  }
  // 15 digits are those that a reader would type; where they are not the same
  // number, 17 are.
  std::string digits = absl::StrFormat("%.15g", value);
  double read;
  if (!absl::SimpleAtod(digits, &read) || read != value) {
    digits = absl::StrFormat("%.17g", value);
  }
  text_ += digits;
}

void JsonWriter::Bool(bool value) {
  Begin();
  text_ += value ? "true" : "false";
}

void JsonWriter::Field(absl::string_view key, absl::string_view value) {
  Key(key);
  String(value);
}

void JsonWriter::Field(absl::string_view key, const char* value) {
  Field(key, absl::string_view(value));
}

void JsonWriter::Field(absl::string_view key, int64_t value) {
  Key(key);
  Int(value);
}

void JsonWriter::Field(absl::string_view key, double value) {
  Key(key);
  Double(value);
}

void JsonWriter::Field(absl::string_view key, bool value) {
  Key(key);
  Bool(value);
}

std::string JsonWriter::Finish() const { return text_ + "\n"; }

}  // namespace attnd::client
