#include "server/cost_calibration.h"

#include <gtest/gtest.h>

namespace attnd::server {
namespace {

TEST(Explain, FindsTheRatesThatMeasurementsTellApart) {
  const CostModel truth({.seconds_per_request = 7e-6,
                         .seconds_per_flop = 2e-11,
                         .seconds_per_row = 3e-8});
  std::vector<Measurement> measured;
  for (const Work& work :
       {Work{.requests = 1}, Work{.requests = 1, .flops = 1e8, .rows = 1e3},
        Work{.requests = 1, .flops = 1e6, .rows = 1e4}}) {
    measured.push_back({work, truth.Predict(work)});
  }
  const CostModel::Rates found = Explain(measured, {.seconds_per_request = 1e-6,
                                                    .seconds_per_flop = 1e-10,
                                                    .seconds_per_row = 1e-8});
  EXPECT_NEAR(found.seconds_per_request, 7e-6, 7e-8);
  EXPECT_NEAR(found.seconds_per_flop, 2e-11, 2e-13);
  EXPECT_NEAR(found.seconds_per_row, 3e-8, 3e-10);
}

TEST(Explain, LeavesWhatNothingTells) {
  const CostModel::Rates found =
      Explain({{{.flops = 1e9}, 0.5}},
              {.seconds_per_flop = 1e-9, .seconds_per_pair = 3e-10});
  EXPECT_NEAR(found.seconds_per_flop, 5e-10, 1e-12);
  EXPECT_EQ(found.seconds_per_pair, 3e-10);
}

// One of three contradicts the others a hundredfold.
TEST(Explain, StaysPositiveAndSaneWhateverIsMeasured) {
  const CostModel::Rates found =
      Explain({{{.requests = 1, .flops = 1e9}, 1},
               {{.requests = 1, .flops = 1e6}, 1e-3},
               {{.requests = 1, .flops = 1e6}, 1e-1},
               {{.requests = 1}, 0},
               {{}, 1}},
              {.seconds_per_request = 1e-6, .seconds_per_flop = 1e-9});
  EXPECT_GT(found.seconds_per_request, 0);
  EXPECT_LT(found.seconds_per_request, 1);
  EXPECT_GT(found.seconds_per_flop, 1e-11);
  EXPECT_LT(found.seconds_per_flop, 1e-7);
}

TEST(Calibrate, FindsSomethingSane) {
  const auto workspace = Workspace::Create();
  ASSERT_TRUE(workspace.ok()) << workspace.status();
  const auto model = Calibrate(**workspace);
  ASSERT_TRUE(model.ok()) << model.status();
  for (const CostModel::Term& term : CostModel::kTerms) {
    EXPECT_GT(model->rates().*term.rate, 0);
  }
  EXPECT_LT(model->rates().seconds_per_request, 1e-2);
  EXPECT_LT(model->rates().seconds_per_block, 1e-3);
  EXPECT_LT(model->rates().seconds_per_byte, 1e-6);
  EXPECT_GT(model->flops_per_second(), 1e7);
  EXPECT_LT(model->flops_per_second(), 1e13);
}

}  // namespace
}  // namespace attnd::server
