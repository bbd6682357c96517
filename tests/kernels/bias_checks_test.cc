#include "kernels/bias_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <climits>
#include <limits>
#include <string>
#include <vector>

namespace attnd {
namespace {

using ::testing::StartsWith;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr float kNaNf = std::numeric_limits<float>::quiet_NaN();

struct Refused {
  BiasTerm term;
  const char* message;
};

void PrintTo(const Refused& refused, std::ostream* out) {
  *out << refused.message;
}

class CheckBiasTermRefuses : public ::testing::TestWithParam<Refused> {};

TEST_P(CheckBiasTermRefuses, WithThePath) {
  const absl::Status status = CheckBiasTerm(GetParam().term, "biases[2]");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              StartsWith(std::string("biases[2].") + GetParam().message));
}

FireTerm Fire(int hidden) {
  const std::vector<float> one(hidden, 1.0f);
  return {.hidden = hidden, .w1 = one, .b1 = one, .w2 = one, .b2 = {1}};
}

FireTerm BadFire(void (*spoil)(FireTerm*)) {
  FireTerm fire = Fire(3);
  spoil(&fire);
  return fire;
}

const std::vector<float> k32(32, 0.0f), k129(129, 0.0f);

INSTANTIATE_TEST_SUITE_P(
    Terms, CheckBiasTermRefuses,
    ::testing::Values(
        Refused{AlibiTerm{.slopes = {1, -0.5}}, "alibi.slopes[1]: -0.5"},
        Refused{AlibiTerm{.slopes = {kNaN}}, "alibi.slopes[0]: nan"},
        Refused{AlibiTerm{.slopes = {}, .bias_max = 0}, "alibi.bias_max: 0"},
        Refused{T5Term{.buckets = 1, .table = {0}}, "t5_buckets.buckets: 1"},
        Refused{T5Term{.buckets = 7,
                       .bidirectional = true,
                       .table = std::vector<float>(7)},
                "t5_buckets.buckets: 7, expected even"},
        Refused{T5Term{.max_distance = 16, .table = k32},
                "t5_buckets.max_distance: 16, expected finite and > 16"},
        Refused{T5Term{.max_distance = kNaN, .table = k32},
                "t5_buckets.max_distance: nan"},
        Refused{T5Term{}, "t5_buckets.table: 0 entries"},
        Refused{T5Term{.table = k129}, "t5_buckets.table: 129 entries"},
        Refused{HstuTerm{.max_bucket = 0, .table = {0}},
                "hstu_buckets.max_bucket: 0"},
        Refused{HstuTerm{.max_bucket = -1, .table = k32},
                "hstu_buckets.max_bucket: -1"},
        Refused{HstuTerm{.max_bucket = INT_MAX, .table = k32},
                "hstu_buckets.max_bucket: 2147483647"},
        Refused{T5Term{.buckets = INT_MIN, .table = k32},
                "t5_buckets.buckets: -2147483648"},
        Refused{HstuTerm{.log_step = -1, .table = k129},
                "hstu_buckets.log_step: -1"},
        Refused{HstuTerm{.table = k32}, "hstu_buckets.table: 32 entries"},
        Refused{KerpleTerm{.r1 = {1, 0}, .r2 = {1}}, "kerple.r1[1]: 0"},
        Refused{KerpleTerm{.r1 = {1}, .r2 = {}}, "kerple.r2: empty"},
        Refused{KerpleTerm{.r1 = {1}, .r2 = {kNaN}}, "kerple.r2[0]: nan"},
        Refused{KerpleTerm{.power = true, .r1 = {1}, .r2 = {1, 2.5}},
                "kerple.r2[1]: 2.5, expected at most 2"},
        Refused{FireTerm{}, "fire.hidden: 0"},
        Refused{BadFire([](FireTerm* f) { f->c = 0; }), "fire.c: 0"},
        Refused{BadFire([](FireTerm* f) { f->threshold = -1; }),
                "fire.threshold: -1"},
        Refused{BadFire([](FireTerm* f) { f->w1.pop_back(); }),
                "fire.w1: 2 entries, expected 3"},
        Refused{BadFire([](FireTerm* f) { f->w2.push_back(0); }),
                "fire.w2: 4 entries, expected 3"},
        Refused{BadFire([](FireTerm* f) { f->b1[1] = kNaNf; }),
                "fire.b1[1]: nan"},
        Refused{SandwichTerm{.dim = 7}, "sandwich.dim: 7, expected even"},
        Refused{SandwichTerm{.dim = 0}, "sandwich.dim: 0"},
        Refused{SandwichTerm{.base = 0}, "sandwich.base: 0"},
        Refused{
            GrapeAdditiveTerm{
                .slopes = {-1}, .query_direction = {}, .key_direction = {1}},
            "grape_additive.slopes[0]: -1"},
        Refused{
            GrapeAdditiveTerm{
                .slopes = {1}, .query_direction = {}, .key_direction = {kNaNf}},
            "grape_additive.key_direction[0]: nan"},
        Refused{LagTableTerm{}, "lag_table.lags: empty"},
        Refused{LagTableTerm{.lags = {0, 1, 1}, .values = {0, 0, 0}},
                "lag_table.lags[2]: 1, expected more than"},
        Refused{LagTableTerm{.lags = {0, kNaN}, .values = {0, 0}},
                "lag_table.lags[1]: nan"},
        Refused{LagTableTerm{.lags = {-1e308, 1e308}, .values = {0, 0}},
                "lag_table.lags[0]: -1e+308, expected finite, within"},
        Refused{LagTableTerm{
                    .lags = {-1, 1}, .values = {0, 0}, .absolute_lag = true},
                "lag_table.lags[0]: -1"},
        Refused{LagTableTerm{.lags = {0, 1}, .values = {0, 0, 0}},
                "lag_table.values: 3 entries"},
        Refused{LagTableTerm{.lags = {0}, .values = {kNaNf}},
                "lag_table.values[0]: nan"}));

TEST(CheckBiasTerm, AcceptsDefaultsWithTables) {
  for (const BiasTerm& term : std::vector<BiasTerm>{
           AlibiTerm{}, CumulativeGateTerm{}, PathIntegralTerm{},
           T5Term{.table = k32}, HstuTerm{.table = k129},
           KerpleTerm{.r1 = {1}, .r2 = {1}}, Fire(32), SandwichTerm{},
           GrapeAdditiveTerm{
               .slopes = {0}, .query_direction = {1}, .key_direction = {}},
           LagTableTerm{.lags = {-3}, .values = {1}}}) {
    EXPECT_TRUE(CheckBiasTerm(term, "biases[0]").ok()) << term.index();
  }
}

TEST(CheckBiasSizes, ListsAreForEveryHeadOrOneForAll) {
  const auto message = [](const BiasTerm& term) {
    return std::string(CheckBiasSizes(term, 4, 8, "biases[0]").message());
  };
  EXPECT_EQ(message(AlibiTerm{}), "");
  EXPECT_EQ(message(KerpleTerm{.r1 = {1}, .r2 = {1, 2, 3, 4}}), "");
  EXPECT_EQ(message(T5Term{.table = k32}), "");
  EXPECT_THAT(message(KerpleTerm{.r1 = {1, 2}, .r2 = {1}}),
              StartsWith("biases[0].kerple.r1: 2 entries, expected 4"));
  EXPECT_THAT(message(AlibiTerm{.slopes = {1, 2, 3}}),
              StartsWith("biases[0].alibi.slopes: 3 entries"));
  EXPECT_THAT(
      message(T5Term{.table = std::vector<float>(64)}),
      StartsWith("biases[0].t5_buckets.table: 64 entries, expected 128"));
  EXPECT_THAT(message(LagTableTerm{.lags = {0, 1}, .values = {1, 2, 3, 4}}),
              StartsWith("biases[0].lag_table.values: 4 entries"));
  EXPECT_THAT(
      message(GrapeAdditiveTerm{
          .slopes = {1}, .query_direction = {}, .key_direction = {1, 2}}),
      StartsWith("biases[0].grape_additive.key_direction: 2 entries"));
}

}  // namespace
}  // namespace attnd
