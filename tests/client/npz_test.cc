#include "client/npz.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "absl/strings/escaping.h"
#include "client/random.h"

namespace attnd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// numpy.savez and numpy.savez_compressed (NumPy 2.4.6) of
//   query = np.arange(6, dtype="<f4").reshape(2, 3)
//   key_time = np.array([1, 2, 3], "<i8")
constexpr char kStored[] =
    "UEsDBC0AAAAAAAAAIQBP6QAq//////////8JABQAcXVlcnkubnB5AQAQAJgAAAAAAAAAmAAA"
    "AAAAAACTTlVNUFkBAHYAeydkZXNjcic6ICc8ZjQnLCAnZm9ydHJhbl9vcmRlcic6IEZhbHNl"
    "LCAnc2hhcGUnOiAoMiwgMyksIH0gICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgCgAAAAAAAIA/AAAAQAAAQEAAAIBAAACgQFBLAwQt"
    "AAAAAAAAACEAvJFVjv//////////DAAUAGtleV90aW1lLm5weQEAEACYAAAAAAAAAJgAAAAA"
    "AAAAk05VTVBZAQB2AHsnZGVzY3InOiAnPGk4JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwg"
    "J3NoYXBlJzogKDMsKSwgfSAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgIAoBAAAAAAAAAAIAAAAAAAAAAwAAAAAAAABQSwECLQMt"
    "AAAAAAAAACEAT+kAKpgAAACYAAAACQAAAAAAAAAAAAAAgAEAAAAAcXVlcnkubnB5UEsBAi0D"
    "LQAAAAAAAAAhALyRVY6YAAAAmAAAAAwAAAAAAAAAAAAAAIAB0wAAAGtleV90aW1lLm5weVBL"
    "BQYAAAAAAgACAHEAAACpAQAAAAA=";
constexpr char kDeflated[] =
    "UEsDBC0AAAAIAAAAIQBP6QAq//////////8JABQAcXVlcnkubnB5AQAQAJgAAAAAAAAAVQAA"
    "AAAAAACb7BfqGxDJyFDGUK2eklqcXKRupaBuk2airqOgnpZfVFKUmBefX5SSChJ3S8wpTgWK"
    "F2ckFqQC+RpGOgrGmjoKtQpkAy4GMGiwBxIOQATEDUC8wAEAUEsDBC0AAAAIAAAAIQC8kVWO"
    "//////////8MABQAa2V5X3RpbWUubnB5AQAQAJgAAAAAAAAATQAAAAAAAACb7BfqGxDJyFDG"
    "UK2eklqcXKRupaBuk2mhrqOgnpZfVFKUmBefX5SSChJ3S8wpTgWKF2ckFqQC+RrGOpo6CrUK"
    "FAAuRgYIYILSzFAaAFBLAQItAy0AAAAIAAAAIQBP6QAqVQAAAJgAAAAJAAAAAAAAAAAAAACA"
    "AQAAAABxdWVyeS5ucHlQSwECLQMtAAAACAAAACEAvJFVjk0AAACYAAAADAAAAAAAAAAAAAAA"
    "gAGQAAAAa2V5X3RpbWUubnB5UEsFBgAAAAACAAIAcQAAABsBAAAAAA==";

constexpr int64_t kMaxBytes = 1 << 20;

std::string Bytes(const char* base64) {
  std::string bytes;
  EXPECT_TRUE(absl::Base64Unescape(base64, &bytes));
  return bytes;
}

TEST(ParseNpz, ReadsWhatNumPyWrites) {
  for (const char* file : {kStored, kDeflated}) {
    const auto arrays = ParseNpz(Bytes(file), kMaxBytes);
    ASSERT_TRUE(arrays.ok()) << arrays.status();
    ASSERT_EQ(arrays->size(), 2u);
    const NpyArray& query = arrays->at("query");
    EXPECT_THAT(query.shape, ElementsAre(2, 3));
    float values[6];
    ASSERT_EQ(query.data.size(), sizeof values);
    std::memcpy(values, query.data.data(), sizeof values);
    EXPECT_THAT(values, ElementsAre(0, 1, 2, 3, 4, 5));
    EXPECT_EQ(arrays->at("key_time").type, NpyType::kI8);
    EXPECT_THAT(arrays->at("key_time").shape, ElementsAre(3));
  }
}

// A few bytes unpack to a thousand times as many.
TEST(ParseNpz, IsHeldToABoundOnceUnpacked) {
  for (const char* file : {kStored, kDeflated}) {
    // Headers of 128 bytes, six floats and three int64.
    constexpr int64_t kUnpacked = 128 + 6 * 4 + 128 + 3 * 8;
    EXPECT_TRUE(ParseNpz(Bytes(file), kUnpacked).ok());
    EXPECT_THAT(
        std::string(ParseNpz(Bytes(file), kUnpacked - 1).status().message()),
        HasSubstr("expected at most 303"));
  }
}

TEST(ParseNpz, DamageIsRefused) {
  EXPECT_FALSE(ParseNpz("", kMaxBytes).ok());
  for (const char* file : {kStored, kDeflated}) {
    const std::string good = Bytes(file);
    for (size_t cut = 1; cut < good.size(); ++cut) {
      EXPECT_FALSE(ParseNpz(good.substr(0, cut), kMaxBytes).ok()) << cut;
    }
    const std::map<std::string, NpyArray> none;
    Random random(1);
    for (int i = 0; i < 5000; ++i) {
      std::string bad = good;
      bad[random.Below(bad.size())] ^= 1 << random.Below(8);
      EXPECT_LE(ParseNpz(bad, kMaxBytes).value_or(none).size(), 2u);
    }
  }
}

}  // namespace
}  // namespace attnd::client
