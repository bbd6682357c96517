#include "client/json_writer.h"

#include <gtest/gtest.h>

#include <limits>

#include "absl/strings/numbers.h"

namespace attnd::client {
namespace {

TEST(JsonWriter, KeepsTheOrderAndIndents) {
  JsonWriter json;
  json.BeginObject();
  json.Field("z", "text");
  json.Field("a", int64_t{-3});
  json.Field("b", true);
  json.Key("list");
  json.BeginArray();
  json.Int(1);
  json.Double(2.5);
  json.BeginObject();
  json.EndObject();
  json.EndArray();
  json.Key("empty");
  json.BeginArray();
  json.EndArray();
  json.EndObject();
  EXPECT_EQ(json.Finish(), R"({
  "z": "text",
  "a": -3,
  "b": true,
  "list": [
    1,
    2.5,
    {}
  ],
  "empty": []
}
)");
}

TEST(JsonWriter, NumbersThatJsonLacksAreNull) {
  JsonWriter json;
  json.BeginArray();
  json.Double(std::numeric_limits<double>::quiet_NaN());
  json.Double(std::numeric_limits<double>::infinity());
  json.EndArray();
  EXPECT_EQ(json.Finish(), "[\n  null,\n  null\n]\n");
}

TEST(JsonWriter, NumbersAreReadBackAsTheyWere) {
  for (double value : {0.1, 1796058425.123456, 1e-9 * 12345678.0, 1.0 / 3,
                       123456789012.0, 5e-324, 1.7976931348623157e308}) {
    JsonWriter json;
    json.Double(value);
    double read = 0;
    ASSERT_TRUE(absl::SimpleAtod(json.Finish(), &read));
    EXPECT_EQ(read, value) << json.Finish();
  }
  JsonWriter json;
  json.BeginArray();
  json.Double(0.1);
  json.Unsigned(std::numeric_limits<uint64_t>::max());
  json.EndArray();
  EXPECT_EQ(json.Finish(), "[\n  0.1,\n  18446744073709551615\n]\n");
}

TEST(JsonString, Escapes) {
  EXPECT_EQ(JsonString("a\"b\\c\n\x01 é"), R"("a\"b\\c\u000a\u0001 é")");
}

}  // namespace
}  // namespace attnd::client
