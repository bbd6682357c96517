#include "client/json_writer.h"

#include <gtest/gtest.h>

#include <limits>

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

TEST(JsonString, Escapes) {
  EXPECT_EQ(JsonString("a\"b\\c\n\x01 é"), R"("a\"b\\c\u000a\u0001 é")");
}

}  // namespace
}  // namespace attnd::client
