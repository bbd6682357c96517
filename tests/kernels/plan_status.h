// A problem that a plan takes, and what a plan says of those it does not.
#ifndef ATTND_TESTS_KERNELS_PLAN_STATUS_H_
#define ATTND_TESTS_KERNELS_PLAN_STATUS_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "kernels/plan.h"
#include "tests/kernels/problem_builder.h"

namespace attnd::testing {

// B2 H4/2 Lq3 Lk5 D8 Dv6 on ticks, all good.
inline ProblemSpec Good() {
  ProblemSpec spec;
  spec.batch = 2;
  spec.query_heads = 4;
  spec.kv_heads = 2;
  spec.queries = 3;
  spec.keys = 5;
  spec.dim = 8;
  spec.value_dim = 6;
  Random random(1);
  spec.Fill(random);
  spec.kind = TimeAxis::Kind::kTicks;
  spec.query_ticks = {10, 20, 30};
  spec.key_ticks = {0, 10, 20, 30, 40};
  return spec;
}

inline absl::Status PlanStatus(const AttentionProblem& problem) {
  return Plan::Make(problem).status();
}

inline absl::Status PlanStatus(const ProblemSpec& spec) {
  const auto owned = OwnedProblem::Build(spec);
  if (!owned.ok()) {
    ADD_FAILURE() << "not refused by the plan but before: " << owned.status();
    return owned.status();
  }
  return PlanStatus(owned->problem());
}

inline void ExpectRefused(const absl::Status& status,
                          const std::string& field) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << field;
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(field));
}

}  // namespace attnd::testing

#endif  // ATTND_TESTS_KERNELS_PLAN_STATUS_H_
