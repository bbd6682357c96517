// Writes JSON with its keys in the order in which they are given.
//
// protobuf's JSON printer, which the other outputs use, needs a message type
// and sorts nothing; reports want neither.
#ifndef ATTND_CLIENT_JSON_WRITER_H_
#define ATTND_CLIENT_JSON_WRITER_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace attnd::client {

// Calls must nest as JSON does; inside an object every value needs a Key().
class JsonWriter {
 public:
  void BeginObject();
  void EndObject();
  void BeginArray();
  void EndArray();
  void Key(absl::string_view key);

  void String(absl::string_view value);
  void Int(int64_t value);
  void Unsigned(uint64_t value);
  // JSON has no NaN or infinity: they become null.
  void Double(double value);
  void Bool(bool value);

  // Key and value in one.
  void Field(absl::string_view key, absl::string_view value);
  // Without this one a literal would become a bool.
  void Field(absl::string_view key, const char* value);
  void Field(absl::string_view key, int64_t value);
  void Field(absl::string_view key, double value);
  void Field(absl::string_view key, bool value);

  // The text so far, indented by two spaces, with a line end.
  std::string Finish() const;

 private:
  // Comma and line break where the next value needs them.
  void Begin();
  void NewLine();

  std::string text_;
  int depth_ = 0;
  bool first_ = true;
  bool after_key_ = false;
};

// In quotes, with everything escaped that JSON wants escaped.
std::string JsonString(absl::string_view text);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_JSON_WRITER_H_
