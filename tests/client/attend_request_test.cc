#include "client/attnctl/attend_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "client/attnctl/npy_tensors.h"
#include "client/request.h"
#include "tests/client/attnctl_process.h"

namespace attnd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
std::string Bytes(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()),
                     values.size() * sizeof(T));
}

NpyArray Floats(std::vector<int64_t> shape) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return {.type = NpyType::kF4,
          .shape = std::move(shape),
          .data = Bytes(std::vector<float>(count, 1))};
}

TEST(TensorFromNpy, AddsTheAxesThatAreLeftOut) {
  EXPECT_THAT(TensorFromNpy(Floats({3, 2}), v1::LAYOUT_BHLD)->shape(),
              ElementsAre(1, 1, 3, 2));
  EXPECT_THAT(TensorFromNpy(Floats({4, 3, 2}), v1::LAYOUT_BHLD)->shape(),
              ElementsAre(1, 4, 3, 2));
  EXPECT_THAT(TensorFromNpy(Floats({3, 2}), v1::LAYOUT_BLHD)->shape(),
              ElementsAre(1, 3, 1, 2));
  EXPECT_THAT(TensorFromNpy(Floats({5, 4, 3, 2}), v1::LAYOUT_BHLD)->shape(),
              ElementsAre(5, 4, 3, 2));
  EXPECT_FALSE(TensorFromNpy(Floats({3}), v1::LAYOUT_BHLD).ok());
  EXPECT_FALSE(TensorFromNpy(Floats({1, 1, 1, 1, 1}), v1::LAYOUT_BHLD).ok());
}

TEST(TensorFromNpy, ConvertsDoublesAndRefusesIntegers) {
  const auto tensor = TensorFromNpy(
      {.type = NpyType::kF8, .shape = {1, 2}, .data = Bytes<double>({0.1, 2})},
      v1::LAYOUT_BHLD);
  EXPECT_THAT(ToFloats(*tensor).value(), ElementsAre(0.1f, 2.0f));
  EXPECT_THAT(std::string(TensorFromNpy({.type = NpyType::kI8,
                                         .shape = {1, 1},
                                         .data = Bytes<int64_t>({1})},
                                        v1::LAYOUT_BHLD)
                              .status()
                              .message()),
              HasSubstr("int64, expected float32"));
}

TEST(TensorFromNpy, SixteenBitTypesComeBackAsTheyWent) {
  for (NpyType type : {NpyType::kBf16, NpyType::kF2}) {
    const NpyArray array = {
        .type = type, .shape = {1, 1, 1, 2}, .data = "abcd"};
    const auto back = NpyFromTensor(*TensorFromNpy(array, v1::LAYOUT_BHLD));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->type, type);
    EXPECT_EQ(back->data, "abcd");
  }
}

TEST(TimeAxisFromNpy, DatetimesBringTheirUnit) {
  const NpyArray times = {.type = NpyType::kDatetime,
                          .time_unit = "ms",
                          .shape = {2},
                          .data = Bytes<int64_t>({5, 7})};
  const auto axis = TimeAxisFromNpy(times, "");
  ASSERT_TRUE(axis.ok()) << axis.status();
  EXPECT_THAT(axis->units(), ElementsAre(v1::TICK_UNIT_MILLISECONDS));
  EXPECT_EQ(axis->data(), times.data);
  EXPECT_TRUE(TimeAxisFromNpy(times, "ms").ok());
  EXPECT_FALSE(TimeAxisFromNpy(times, "s").ok());
}

TEST(TimeAxisFromNpy, NotATimeIsRefusedWithItsPlace) {
  const NpyArray times = {
      .type = NpyType::kDatetime,
      .time_unit = "s",
      .shape = {3},
      .data = Bytes<int64_t>({1, std::numeric_limits<int64_t>::min(), 3})};
  EXPECT_THAT(std::string(TimeAxisFromNpy(times, "").status().message()),
              HasSubstr("element 1 is NaT"));
}

TEST(TimeAxisFromNpy, NumbersNeedAUnit) {
  const NpyArray ticks = {
      .type = NpyType::kI4, .shape = {2}, .data = Bytes<int32_t>({-1, 2})};
  EXPECT_THAT(std::string(TimeAxisFromNpy(ticks, "").status().message()),
              HasSubstr("--unit"));
  const auto axis = TimeAxisFromNpy(ticks, "positions");
  ASSERT_TRUE(axis.ok());
  EXPECT_EQ(axis->data(), Bytes<int64_t>({-1, 2}));
  const NpyArray seconds = {
      .type = NpyType::kF8, .shape = {1}, .data = Bytes<double>({0.5})};
  EXPECT_EQ(TimeAxisFromNpy(seconds, "s")->type(), v1::TIME_TYPE_F64);
  EXPECT_FALSE(TimeAxisFromNpy(seconds, "ns").ok());
}

class MakeAttendRequestTest : public ::testing::Test {
 protected:
  MakeAttendRequestTest() {
    const std::string folder = FreshFolder();
    arguments_.query = arguments_.key = arguments_.value = folder + "a.npy";
    EXPECT_TRUE(WriteNpy(folder + "a.npy", Floats({2, 1})).ok());
    arguments_.query_time = arguments_.key_time = folder + "t.npy";
    EXPECT_TRUE(WriteNpy(folder + "t.npy", {.type = NpyType::kI8,
                                            .shape = {2},
                                            .data = Bytes<int64_t>({1, 2})})
                    .ok());
    arguments_.unit = "ms";
  }

  AttendArguments arguments_;
};

TEST_F(MakeAttendRequestTest, WindowsAreTicksOfTheAxis) {
  arguments_.past = "1.5s";
  arguments_.future = "3";
  const auto request = MakeAttendRequest(arguments_);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->mask().past_ticks(), 1500);
  EXPECT_EQ(request->mask().future_ticks(), 3);
  arguments_.past = "1us";
  EXPECT_THAT(std::string(MakeAttendRequest(arguments_).status().message()),
              HasSubstr("--past: '1us', expected a whole number of ticks"));
}

TEST_F(MakeAttendRequestTest, MasksThatCountAndRangesOfTime) {
  const std::string mask = FreshFolder() + "mask.npy";
  ASSERT_TRUE(
      WriteNpy(mask, {.type = NpyType::kU1, .shape = {1, 2}, .data = {1, 0}})
          .ok());
  arguments_.past_keys = 5;
  arguments_.future_keys = 0;
  arguments_.prefix = 2;
  arguments_.key_ranges = {"-3:7", "9:9"};
  arguments_.sinks = {0.5f};
  arguments_.query_offsets = arguments_.key_offsets = {0, 1, 2};
  arguments_.key_validity = arguments_.value_mask = mask;
  arguments_.softcap = 30;
  arguments_.outputs = {"top_k", "entropy"};
  arguments_.top_k = 4;
  arguments_.output_dtype = "f16";
  arguments_.compute = "bf16";
  const auto request = MakeAttendRequest(arguments_);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->mask().past_keys(), 5);
  EXPECT_TRUE(request->mask().has_future_keys());
  EXPECT_EQ(request->mask().prefix(), 2);
  EXPECT_EQ(request->mask().key_ranges(0).begin_ticks(), -3);
  EXPECT_EQ(request->mask().key_ranges(1).end_ticks(), 9);
  EXPECT_EQ(request->mask().query_offsets_size(), 3);
  EXPECT_EQ(request->mask().key_validity(), std::string("\1\0", 2));
  EXPECT_EQ(request->softcap(), 30);
  EXPECT_EQ(request->top_k(), 4);
  EXPECT_EQ(request->output_dtype(), v1::DTYPE_F16);
  EXPECT_EQ(request->compute(), v1::COMPUTE_PRECISION_BF16);
  arguments_.key_ranges = {"3-7"};
  EXPECT_THAT(std::string(MakeAttendRequest(arguments_).status().message()),
              HasSubstr("--key-range '3-7', expected BEGIN:END"));
}

TEST_F(MakeAttendRequestTest, PositionsHaveNoDurations) {
  arguments_.query_time = arguments_.key_time = "";
  arguments_.past = "7";
  EXPECT_EQ(MakeAttendRequest(arguments_)->mask().past_ticks(), 7);
  arguments_.past = "7d";
  EXPECT_THAT(std::string(MakeAttendRequest(arguments_).status().message()),
              HasSubstr("number of positions"));
}

TEST_F(MakeAttendRequestTest, OptionsReachTheRequest) {
  arguments_.causal = "index";
  arguments_.key_lengths = {1};
  arguments_.two_sided = "absolute_lag";
  arguments_.scale = 0.0;
  arguments_.outputs = {"lse", "weights"};
  const auto request = MakeAttendRequest(arguments_);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->mask().causal(), v1::CAUSALITY_INDEX);
  EXPECT_THAT(request->mask().key_lengths(), ElementsAre(1));
  EXPECT_EQ(request->two_sided(), v1::TWO_SIDED_RULE_ABSOLUTE_LAG);
  EXPECT_TRUE(request->has_scale());
  EXPECT_EQ(request->scale(), 0);
  EXPECT_THAT(request->outputs(),
              ElementsAre(v1::OUTPUT_LSE, v1::OUTPUT_WEIGHTS));
  arguments_.outputs = {"everything"};
  EXPECT_FALSE(MakeAttendRequest(arguments_).ok());
}

}  // namespace
}  // namespace attnd::client
