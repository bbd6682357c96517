#include "server/cost_model.h"

#include <gtest/gtest.h>

#include "server/encodings.h"
#include "server/self_test.h"

namespace attnd::server {
namespace {

TEST(CostModel, AddsUpItsTerms) {
  const CostModel model({.seconds_per_flop = 1,
                         .seconds_per_pair = 10,
                         .seconds_per_byte = 100,
                         .seconds_per_unit = 1000,
                         .seconds_per_element = 10000});
  EXPECT_EQ(
      model.Predict(
          {.flops = 1, .pairs = 2, .bytes = 3, .units = 4, .elements = 5}),
      54321);
}

TEST(CostModel, CalibratesToSomethingSane) {
  const auto workspace = Workspace::Create();
  ASSERT_TRUE(workspace.ok()) << workspace.status();
  const auto model = CostModel::Calibrate(**workspace);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_GT(model->rates().seconds_per_flop, 0);
  EXPECT_GE(model->rates().seconds_per_pair, 0);
  EXPECT_GE(model->rates().seconds_per_byte, 0);
  EXPECT_GT(model->rates().seconds_per_unit, 0);
  EXPECT_GT(model->rates().seconds_per_element, 0);
  EXPECT_GT(model->flops_per_second(), 1e7);
  EXPECT_LT(model->flops_per_second(), 1e13);
}

TEST(SelfTest, PassesForEveryServedKind) {
  google::protobuf::RepeatedPtrField<v1::Encoding> encodings;
  v1::Encoding& rope = *encodings.Add();
  rope.set_name("rope");
  rope.set_time_unit("1s");
  rope.add_blocks()->mutable_rotary()->set_pair_layout(
      v1::PAIR_LAYOUT_INTERLEAVED);
  rope.add_biases()->mutable_alibi();
  const EncodingCatalog catalog(encodings, 1);
  const auto workspace = Workspace::Create();
  ASSERT_TRUE(workspace.ok()) << workspace.status();
  const absl::Status status = SelfTest(catalog, **workspace);
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace attnd::server
