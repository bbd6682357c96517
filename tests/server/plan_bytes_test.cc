#include "server/plan_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <vector>

#include "server/config.h"
#include "server/time_source.h"
#include "tests/server/requests.h"

namespace attnd::server {
namespace {

enum class Times { kNone, kInOrder, kShuffled };

// Shapes alone, and times.
v1::AttendRequest Shapes(const testing::Sizes& s, Times times) {
  v1::AttendRequest request;
  const auto set = [](v1::Tensor& tensor, std::vector<int64_t> shape) {
    tensor.set_dtype(v1::DTYPE_F32);
    tensor.mutable_shape()->Add(shape.begin(), shape.end());
  };
  set(*request.mutable_query(), {s.batch, s.query_heads, s.queries, s.dim});
  set(*request.mutable_key(), {s.batch, s.kv_heads, s.keys, s.dim});
  set(*request.mutable_value(), {s.batch, s.kv_heads, s.keys, s.value_dim});
  if (times == Times::kNone) return request;
  std::mt19937 random(1);
  for (const auto& [rows, axis] :
       {std::pair(s.queries, request.mutable_query_time()),
        {s.keys, request.mutable_key_time()}}) {
    std::vector<int64_t> ticks(rows);
    for (int64_t i = 0; i < rows; ++i) ticks[i] = 7 * i;
    if (times == Times::kShuffled) {
      std::shuffle(ticks.begin(), ticks.end(), random);
    }
    testing::SetTicks(ticks, v1::TICK_UNIT_SECONDS, *axis);
  }
  return request;
}

TEST(PlanSeconds, IsAboutRight) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "measures time";
#endif
  const Config config = *ParseConfig("{}", "a.yaml", Machine{});
  const EncodingCatalog catalog(config.effective.encodings(), 4);
  const testing::Sizes long_rows = {
      .queries = 1 << 17, .keys = 1 << 20, .dim = 1, .value_dim = 1};
  const testing::Sizes many_heads = {.batch = 512,
                                     .query_heads = 1024,
                                     .kv_heads = 1024,
                                     .queries = 1,
                                     .keys = 1,
                                     .dim = 1,
                                     .value_dim = 1};
  for (const auto& [sizes, times] : {std::pair(long_rows, Times::kNone),
                                     {long_rows, Times::kInOrder},
                                     {long_rows, Times::kShuffled},
                                     {many_heads, Times::kNone}}) {
    const v1::AttendRequest request = Shapes(sizes, times);
    const auto decoded = Decode(
        request, {.encodings = catalog, .limits = config.effective.limits()},
        Payload::kAbsent);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    double fastest = 1e9;
    for (int run = 0; run < 3; ++run) {
      const auto start = std::chrono::steady_clock::now();
      const auto plan = Plan::Make(decoded->problem);
      fastest =
          std::min(fastest, Seconds(std::chrono::steady_clock::now() - start));
      ASSERT_TRUE(plan.ok()) << plan.status();
    }
    // Builds, instruction sets and sanitizers differ.
    EXPECT_GT(decoded->plan_seconds, fastest / 50) << fastest;
    EXPECT_LT(decoded->plan_seconds, fastest * 50) << fastest;
  }
}

TEST(PlanBytes, BoundWhatAPlanHolds) {
  const Config config = *ParseConfig("{}", "a.yaml", Machine{});
  const EncodingCatalog catalog(config.effective.encodings(), 4);
  for (const testing::Sizes& sizes :
       {testing::Sizes{.batch = 100,
       .query_heads = 1024,
       .kv_heads = 1024,
       .queries = 1,
       .keys = 1,
       .dim = 1,
       .value_dim = 1},
        {.query_heads = 8, .queries = 1000, .keys = 1 << 16},
        {.queries = 1 << 20, .keys = 1}}) {
    const v1::AttendRequest request = Shapes(sizes, Times::kNone);
    const auto decoded = Decode(
        request, {.encodings = catalog, .limits = config.effective.limits()},
        Payload::kAbsent);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    const auto plan = Plan::Make(decoded->problem);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_GE(decoded->plan_bytes, plan->plan_bytes());
  }
}

}  // namespace
}  // namespace attnd::server
