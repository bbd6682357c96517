#include "client/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/npy_header.h"

namespace attnd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A file as NumPy lays it out, with any header and data.
std::string File(const std::string& header, const std::string& data,
                 char version = 1) {
  std::string file = std::string("\x93NUMPY") + version + '\0';
  const uint32_t length = static_cast<uint32_t>(header.size());
  file.append(reinterpret_cast<const char*>(&length), version == 1 ? 2 : 4);
  return absl::StrCat(file, header, data);
}

std::string Header(const std::string& descr, const std::string& shape,
                   bool fortran = false) {
  return absl::StrCat("{'descr': '", descr,
                      "', 'fortran_order': ", fortran ? "True" : "False",
                      ", 'shape': ", shape, ", }\n");
}

template <typename T>
std::string Bytes(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()),
                     values.size() * sizeof(T));
}

std::string Refusal(const std::string& file, const NpyOptions& options = {}) {
  return std::string(ParseNpy(file, options).status().message());
}

TEST(Npy, ReadsAllThreeVersions) {
  for (char version : {1, 2, 3}) {
    const auto array =
        ParseNpy(File(Header("<f4", "(2, 1)"), Bytes<float>({1, 2}), version));
    ASSERT_TRUE(array.ok()) << array.status();
    EXPECT_EQ(array->type, NpyType::kF4);
    EXPECT_THAT(array->shape, ElementsAre(2, 1));
    EXPECT_EQ(array->data, Bytes<float>({1, 2}));
  }
}

TEST(Npy, WritesWhatNumPyWrites) {
  // numpy.save of numpy.arange(3, dtype='<i8'), byte for byte.
  std::string expected = std::string("\x93NUMPY\x01\x00\x76\x00", 10) +
                         "{'descr': '<i8', 'fortran_order': False, "
                         "'shape': (3,), }";
  expected.resize(127, ' ');
  expected += '\n' + Bytes<int64_t>({0, 1, 2});
  EXPECT_EQ(SerializeNpy({.type = NpyType::kI8,
                          .shape = {3},
                          .data = Bytes<int64_t>({0, 1, 2})}),
            expected);
}

TEST(Npy, EveryTypeComesBackAsItWas) {
  for (NpyType type : {NpyType::kF4, NpyType::kF8, NpyType::kF2, NpyType::kBf16,
                       NpyType::kI8, NpyType::kI4, NpyType::kU1}) {
    const NpyArray array = {
        .type = type,
        .shape = {2, 0 + 3},
        .data = std::string(6 * NpyElementBytes(type), '\x5a')};
    const std::string file = SerializeNpy(array);
    EXPECT_EQ((file.size() - array.data.size()) % 64, 0u);
    const auto read = ParseNpy(file);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->type, type);
    EXPECT_EQ(read->shape, array.shape);
    EXPECT_EQ(read->data, array.data);
  }
}

TEST(Npy, DatetimesKeepTheirUnit) {
  for (const char* unit : {"s", "ms", "us", "ns"}) {
    const auto read = ParseNpy(File(
        Header(absl::StrCat("<M8[", unit, "]"), "(1,)"), Bytes<int64_t>({7})));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->time_unit, unit);
    EXPECT_EQ(ParseNpy(SerializeNpy(*read))->time_unit, unit);
  }
  EXPECT_THAT(Refusal(File(Header("<M8[D]", "(1,)"), Bytes<int64_t>({7}))),
              HasSubstr("astype('<M8[ns]')"));
}

TEST(Npy, FortranOrderIsConverted) {
  // [[1,2,3],[4,5,6]] column by column.
  const auto array = ParseNpy(
      File(Header("<f4", "(2, 3)", true), Bytes<float>({1, 4, 2, 5, 3, 6})));
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_EQ(array->data, Bytes<float>({1, 2, 3, 4, 5, 6}));
  // Three axes, against the definition: element (i,j,k) lies at i + 2j + 6k.
  std::vector<int32_t> stored(24);
  std::vector<int32_t> wanted;
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j) {
      for (int k = 0; k < 4; ++k) {
        stored[i + 2 * j + 6 * k] = 100 * i + 10 * j + k;
        wanted.push_back(100 * i + 10 * j + k);
      }
    }
  }
  const auto cube =
      ParseNpy(File(Header("<i4", "(2, 3, 4)", true), Bytes(stored)));
  ASSERT_TRUE(cube.ok()) << cube.status();
  EXPECT_EQ(cube->data, Bytes(wanted));
}

TEST(Npy, ScalarsAndEmptyArraysAreArrays) {
  EXPECT_TRUE(ParseNpy(File(Header("<f8", "()"), Bytes<double>({1}))).ok());
  for (bool fortran : {false, true}) {
    const auto empty = ParseNpy(File(Header("<f8", "(3, 0)", fortran), ""));
    ASSERT_TRUE(empty.ok()) << empty.status();
    EXPECT_THAT(empty->shape, ElementsAre(3, 0));
  }
}

TEST(Npy, Bf16BitsInUnsignedNeedTheFlag) {
  const std::string file = File(Header("<u2", "(1,)"), "\x80\x3f");
  EXPECT_THAT(Refusal(file), HasSubstr("--bf16"));
  const auto array = ParseNpy(file, {.bf16_from_u2 = true});
  ASSERT_TRUE(array.ok());
  EXPECT_EQ(array->type, NpyType::kBf16);
}

TEST(Npy, OtherTypesAreRefusedWithARemedy) {
  EXPECT_THAT(Refusal(File(Header(">f4", "(1,)"), "1234")),
              HasSubstr("newbyteorder"));
  EXPECT_THAT(Refusal(File(Header("<c8", "(1,)"), "12345678")),
              HasSubstr("astype"));
  EXPECT_THAT(Refusal(File(Header("|O", "(1,)"), "1234")), HasSubstr("'|O'"));
}

TEST(Npy, SizesThatLieAreRefused) {
  EXPECT_THAT(Refusal(File(Header("<f4", "(3,)"), "1234")),
              HasSubstr("4 bytes of data, expected 12 for float32 [3]"));
  EXPECT_THAT(Refusal(File(Header("<f4", "(1,)"), "12345")),
              HasSubstr("5 bytes of data, expected 4"));
  // 2^64 bytes would wrap to none.
  EXPECT_THAT(Refusal(File(Header("<f4", "(4611686018427387904,)"), "")),
              HasSubstr("below 2^63"));
  EXPECT_THAT(Refusal(File(Header("<f4", "(65536, 65536, 65536, 65536)"), "")),
              HasSubstr("below 2^63"));
}

TEST(Npy, DamagedFilesAreRefused) {
  const std::string good =
      SerializeNpy({.type = NpyType::kF4, .shape = {2}, .data = "12345678"});
  ASSERT_TRUE(ParseNpy(good).ok());
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(ParseNpy(good.substr(0, length)).ok()) << length;
  }
  EXPECT_THAT(Refusal(""), HasSubstr("not a .npy file"));
  EXPECT_THAT(Refusal(File("{}", "", 4)), HasSubstr("version 4"));
  std::string huge = File("{}", "", 2);
  std::memset(&huge[8], 0xff, 4);
  EXPECT_THAT(Refusal(huge), HasSubstr("header of 4294967295 bytes"));
}

TEST(NpyHeader, TakesWhatPythonsCanWrite) {
  for (const char* text :
       {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
        "{\"shape\": (2,3), \"descr\": \"<f4\", \"fortran_order\": False}",
        "{'shape': (2L, 3L), 'fortran_order': False, 'descr': '<f4'}  \n"}) {
    const auto header = ParseNpyHeader(text);
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_THAT(header->shape, ElementsAre(2, 3));
  }
}

TEST(NpyHeader, RefusesEverythingElse) {
  for (const char* text :
       {"", "{", "{}", "[]", "{'descr': '<f4'}",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 2}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,,3)}",
        "{'descr': '<f4', 'fortran_order': False, "
        "'shape': (99999999999999999999,)}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, "
        "'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} + 1",
        "{'descr': __import__('os'), 'fortran_order': False, "
        "'shape': (2,)}"}) {
    EXPECT_FALSE(ParseNpyHeader(text).ok()) << text;
  }
  std::string many = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  for (int i = 0; i < 65; ++i) many += "1,";
  EXPECT_FALSE(ParseNpyHeader(many + ")}").ok());
}

TEST(NpyFile, ErrorsNameThePath) {
  const auto array = ReadNpy("/nonexistent/q.npy");
  EXPECT_TRUE(absl::IsNotFound(array.status()));
  EXPECT_THAT(std::string(array.status().message()),
              HasSubstr("/nonexistent/q.npy"));
}

TEST(NpyFile, WritesAndReads) {
  const std::string path =
      absl::StrCat(::testing::TempDir(), "npy_test_", getpid(), ".npy");
  ASSERT_TRUE(
      WriteNpy(path, {.type = NpyType::kU1, .shape = {3}, .data = "abc"}).ok());
  const auto array = ReadNpy(path);
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_EQ(array->data, "abc");
  std::remove(path.c_str());
}

}  // namespace
}  // namespace attnd::client
