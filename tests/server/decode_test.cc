#include "server/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "server/config.h"
#include "server/status.h"
#include "tests/server/requests.h"

namespace attnd::server {
namespace {

using ::attnd::testing::MakeRequest;
using ::attnd::testing::SetReal;
using ::attnd::testing::SetTensor;
using ::attnd::testing::SetTicks;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

class DecodeTest : public ::testing::Test {
 protected:
  absl::StatusOr<DecodedRequest> Try(Payload payload = Payload::kPresent) {
    return Decode(request_,
                  {.encodings = catalog_,
                   .limits = config_.effective.limits(),
                   .inline_encodings_allowed = inline_allowed_},
                  payload);
  }
  void ExpectAccepted() {
    const auto decoded = Try();
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    const auto plan = Plan::Make(decoded->problem);
    EXPECT_TRUE(plan.ok()) << plan.status();
  }
  void ExpectRefused(absl::StatusCode code, const std::string& text) {
    const auto decoded = Try();
    ASSERT_FALSE(decoded.ok()) << "accepted; expected: " << text;
    EXPECT_EQ(decoded.status().code(), code) << decoded.status();
    EXPECT_THAT(std::string(decoded.status().message()), HasSubstr(text));
  }
  void ExpectInvalid(const std::string& text) {
    ExpectRefused(absl::StatusCode::kInvalidArgument, text);
  }
  void SetTimes() {
    SetTicks({10, 20}, v1::TICK_UNIT_SECONDS, *request_.mutable_query_time());
    SetTicks({0, 10, 20}, v1::TICK_UNIT_SECONDS, *request_.mutable_key_time());
  }
  void SetRealTimes(const std::vector<double>& query,
                    const std::vector<double>& key) {
    SetReal(query, *request_.mutable_query_time());
    SetReal(key, *request_.mutable_key_time());
  }

  const Config config_ = *ParseConfig(R"(
encodings:
  - {name: alibi, time_unit: 1s, biases: [{alibi: {}}]}
  - {name: rope, time_unit: 1s, blocks: [{rotary: {pair_layout: half_split}}]}
  - {name: steps, time_unit: position, biases: [{alibi: {}}]}
  - name: dynamic
    time_unit: 1s
    blocks:
      - rotary:
          pair_layout: half_split
          dynamic_ntk: {factor: 2, original_length: 1}
  - {name: two, time_unit: 1s, biases: [{alibi: {slopes: [1, 2]}}]}
)",
                                      "a.yaml", Machine{});
  const EncodingCatalog catalog_{config_.effective.encodings(), 4};
  bool inline_allowed_ = false;
  // B1 H1 Lq2 Lk3 D4.
  v1::AttendRequest request_ = MakeRequest({});
};

TEST_F(DecodeTest, AcceptsThePlainest) {
  const auto decoded = Try();
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->encoding_name, "nope");
  EXPECT_EQ(decoded->problem.encoder, nullptr);
  EXPECT_FLOAT_EQ(decoded->problem.scale, 0.5);
  EXPECT_EQ(decoded->reply.output, 8);
  EXPECT_EQ(decoded->reply.lse, 0);
  EXPECT_TRUE(decoded->problem.outputs.output);
}

TEST_F(DecodeTest, EmptyRequestsNameWhatIsMissing) {
  request_.Clear();
  ExpectInvalid("query: required; key: required; value: required");
}

TEST_F(DecodeTest, ShapesThatLie) {
  const struct {
    std::vector<int64_t> shape;
    const char* text;
  } cases[] = {
      {{1, 1, -1, 4}, "key.shape: axis L is -1"},
      {{65536, 65536, 65536, 65536}, "key.shape"},
      {{1, 1, 3}, "key.shape: 3 axes, expected 4"},
      {{1, 1, 3, 4, 1}, "key.shape: 5 axes, expected 4"},
      {{1, 1, 3, 5}, "key.shape: axis D is 5"},
      {{2, 1, 3, 4}, "key.shape: axis B is 2"},
      {{1, 1, 4, 4}, "value.shape: axis L is 3, but that of key is 4"},
      {{1, 0, 3, 4}, "key.shape: axis H is 0"},
      {{1, 1, 3, 0}, "key.shape: axis D is 0"},
      {{}, "key.shape: 0 axes"},
      {{INT64_MAX, INT64_MAX, 0, INT64_MAX}, "key.shape"},
  };
  for (const auto& c : cases) {
    request_ = MakeRequest({});
    request_.mutable_key()->mutable_shape()->Clear();
    request_.mutable_key()->mutable_shape()->Add(c.shape.begin(),
                                                 c.shape.end());
    ExpectInvalid(c.text);
  }
}

TEST_F(DecodeTest, ByteCountsAreExact) {
  for (const size_t bytes : {0u, 20u, 47u, 49u, 52u}) {
    request_.mutable_key()->set_data(std::string(bytes, 'x'));
    ExpectInvalid(absl::StrCat("key.data: ", bytes,
                               " bytes, expected 48 (f32 [1,1,3,4])"));
  }
}

TEST_F(DecodeTest, HeadsMustDivide) {
  request_ = MakeRequest({.query_heads = 3, .kv_heads = 2});
  ExpectInvalid("key.shape: axis H is 2, which does not divide the query's 3");
  request_ = MakeRequest({.query_heads = 6, .kv_heads = 2});
  ExpectAccepted();
}

TEST_F(DecodeTest, AxesByLayout) {
  // [B,L,H,D] with L = 2, H = 6.
  request_ = MakeRequest({.query_heads = 6, .kv_heads = 2, .queries = 2});
  v1::Tensor& query = *request_.mutable_query();
  query.set_layout(v1::LAYOUT_BLHD);
  query.mutable_shape()->SwapElements(1, 2);
  ExpectAccepted();
  const auto decoded = Try();
  EXPECT_EQ(decoded->sizes.query_heads, 6);
  EXPECT_EQ(decoded->sizes.queries, 2);
}

TEST_F(DecodeTest, EnumsOutOfRange) {
  request_.mutable_query()->set_dtype(static_cast<v1::DType>(99));
  request_.mutable_key()->set_dtype(v1::DTYPE_UNSPECIFIED);
  request_.mutable_value()->set_layout(static_cast<v1::Layout>(7));
  request_.mutable_mask()->set_causal(static_cast<v1::Causality>(9));
  request_.set_kind(static_cast<v1::AttentionKind>(5));
  request_.set_compute(static_cast<v1::ComputePrecision>(5));
  request_.set_two_sided(static_cast<v1::TwoSidedRule>(5));
  request_.set_output_dtype(static_cast<v1::DType>(5));
  request_.add_outputs(v1::OUTPUT_UNSPECIFIED);
  const absl::Status status = Try().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  for (const char* field :
       {"query.dtype: 99", "key.dtype: 0", "value.layout", "mask.causal",
        "kind", "compute", "two_sided", "output_dtype", "outputs"}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(field));
  }
}

TEST_F(DecodeTest, LimitsAreNamed) {
  request_ = MakeRequest({.dim = 1025});
  ExpectInvalid("query.shape: axis D is 1025, expected 1 to 1024 (limits.dim)");
  request_ = MakeRequest({.query_heads = 1025});
  ExpectInvalid("(limits.heads)");
  request_ = MakeRequest(
      {.batch = 65537, .queries = 1, .keys = 1, .dim = 1, .value_dim = 1});
  ExpectInvalid("(limits.batch)");
}

TEST_F(DecodeTest, EmptyAxesAreFineWhereTheyMeanSomething) {
  for (const testing::Sizes& sizes :
       {testing::Sizes{.batch = 0}, testing::Sizes{.queries = 0},
        testing::Sizes{.keys = 0}, testing::Sizes{.value_dim = 0}}) {
    request_ = MakeRequest(sizes);
    ExpectAccepted();
  }
}

TEST_F(DecodeTest, TimesComeInPairs) {
  SetTicks({10, 20}, v1::TICK_UNIT_SECONDS, *request_.mutable_query_time());
  ExpectInvalid("key_time: required");
  request_.clear_query_time();
  SetTicks({0, 1, 2}, v1::TICK_UNIT_SECONDS, *request_.mutable_key_time());
  ExpectInvalid("query_time: required");
}

TEST_F(DecodeTest, TimesMustAgree) {
  SetTimes();
  request_.mutable_key_time()->set_units(0, v1::TICK_UNIT_MILLISECONDS);
  ExpectInvalid("key_time.units");
  SetTimes();
  SetReal({0, 1, 2}, *request_.mutable_key_time());
  ExpectInvalid("key_time.type");
}

TEST_F(DecodeTest, TickUnitsAreRequired) {
  SetTimes();
  request_.mutable_query_time()->clear_units();
  ExpectInvalid("query_time.units: required");
  SetTimes();
  request_.mutable_query_time()->set_units(0, v1::TICK_UNIT_UNSPECIFIED);
  ExpectInvalid("query_time.units");
  SetRealTimes({1, 2}, {0, 1, 2});  // none: seconds
  ExpectAccepted();
  request_.mutable_query_time()->add_units(v1::TICK_UNIT_NANOSECONDS);
  ExpectInvalid("query_time.units");
}

TEST_F(DecodeTest, TimeShapes) {
  SetTimes();
  SetTicks({0, 10, 20, 30}, v1::TICK_UNIT_SECONDS,
           *request_.mutable_key_time());
  ExpectInvalid("key_time.shape: [4], expected [3] or [1,3]");
  SetTimes();
  request_.mutable_key_time()->set_data("1234567");
  ExpectInvalid("key_time.data: 7 bytes, expected 24");
  SetTimes();
  request_.mutable_key_time()->mutable_shape()->Clear();
  request_.mutable_key_time()->add_shape(1);
  request_.mutable_key_time()->add_shape(3);
  ExpectAccepted();
}

TEST_F(DecodeTest, NanTimesAreRefusedWhereValid) {
  SetRealTimes({1, kNan}, {0, kInfinity, 2});
  const absl::Status status = Try().status();
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("query_time.data: item 0, row 1 is nan"),
                    HasSubstr("key_time.data: item 0, row 1 is inf")));
  // Padding may hold anything.
  request_.mutable_mask()->add_query_lengths(1);
  request_.mutable_mask()->set_key_validity(std::string("\1\0\1", 3));
  ExpectAccepted();
}

TEST_F(DecodeTest, ManyNansAreOneViolationWithACount) {
  request_ =
      MakeRequest({.queries = 1, .keys = 100000, .dim = 1, .value_dim = 1});
  SetRealTimes({0}, std::vector<double>(100000, kNan));
  ExpectInvalid(
      "key_time.data: item 0, row 0 is nan, expected finite (first "
      "of 100000)");
}

TEST_F(DecodeTest, Windows) {
  SetTimes();
  request_.mutable_mask()->set_past_ticks(5);
  request_.mutable_mask()->set_future_ticks(0);
  ExpectAccepted();
  request_.mutable_mask()->set_past_ticks(-5);
  ExpectInvalid("mask.past_ticks: -5, expected >= 0");
  request_.mutable_mask()->clear_past_ticks();
  request_.mutable_mask()->set_past_time(1);
  ExpectInvalid("mask.past_time: times are integer: use past_ticks");
  request_.mutable_mask()->Clear();
  SetRealTimes({1, 2}, {0, 1, 2});
  request_.mutable_mask()->set_future_ticks(1);
  ExpectInvalid("mask.future_ticks: times are F64: use future_time");
  request_.mutable_mask()->clear_future_ticks();
  request_.mutable_mask()->set_future_time(kNan);
  ExpectInvalid("mask.future_time: nan");
  request_.mutable_mask()->set_future_time(kInfinity);
  ExpectAccepted();
}

TEST_F(DecodeTest, LengthsAndValidity) {
  request_.mutable_mask()->add_query_lengths(3);
  ExpectInvalid("mask.query_lengths: entry 0 is 3, expected 0 to 2");
  request_.mutable_mask()->set_query_lengths(0, 1);
  request_.mutable_mask()->add_key_lengths(1);
  request_.mutable_mask()->add_key_lengths(1);
  ExpectInvalid("mask.key_lengths: 2 entries, expected one per batch item (1)");
  request_.mutable_mask()->clear_key_lengths();
  request_.mutable_mask()->set_key_validity("1234");
  ExpectInvalid("mask.key_validity: 4 bytes, expected 3");
}

TEST_F(DecodeTest, AHundredThousandWrongEntriesAreOneViolation) {
  request_ = MakeRequest(
      {.batch = 60000, .queries = 1, .keys = 1, .dim = 1, .value_dim = 1});
  for (int i = 0; i < 60000; ++i) request_.mutable_mask()->add_key_lengths(7);
  ExpectInvalid(
      "mask.key_lengths: entry 0 is 7, expected 0 to 1 (first of "
      "60000)");
}

TEST_F(DecodeTest, StrictNeedsCausality) {
  request_.mutable_mask()->set_strict(true);
  ExpectInvalid("mask.strict");
  request_.mutable_mask()->set_causal(v1::CAUSALITY_TIME);
  ExpectAccepted();
}

TEST_F(DecodeTest, CausalityByIndexIsNotByTime) {
  request_.mutable_mask()->set_causal(v1::CAUSALITY_INDEX);
  SetTimes();
  ExpectAccepted();
  EXPECT_TRUE(Try()->problem.mask.causal_index);
  EXPECT_FALSE(Try()->problem.mask.causal);
}

TEST_F(DecodeTest, BiasShapes) {
  SetTensor({1, 1, 2, 3}, std::vector<float>(6, 0), *request_.mutable_bias());
  ExpectAccepted();
  SetTensor({1, 1, 1, 1}, {0}, *request_.mutable_bias());
  ExpectAccepted();
  SetTensor({1, 1, 3, 3}, std::vector<float>(9, 0), *request_.mutable_bias());
  ExpectInvalid("bias.shape: [1,1,3,3], expected B|1=1, Hq|1=1, Lq|1=2");
}

TEST_F(DecodeTest, ScaleMustBeFinite) {
  request_.set_scale(static_cast<float>(kInfinity));
  ExpectInvalid("scale");
  request_.set_scale(-2);
  ExpectAccepted();
}

TEST_F(DecodeTest, RequestIdIsBounded) {
  request_.set_request_id(std::string(129, 'a'));
  ExpectInvalid("request_id: 129 bytes");
}

TEST_F(DecodeTest, UnknownEncodings) {
  request_.set_encoding("ropee");
  ExpectRefused(absl::StatusCode::kNotFound, "did you mean \"rope\"?");
  // Beside other faults it is one of them.
  request_.mutable_key()->set_data("");
  ExpectInvalid("encoding: \"ropee\" is not configured");
}

TEST_F(DecodeTest, EncodingsThatDoNotFit) {
  request_.set_encoding("two");
  ExpectInvalid("encoding: \"two\" does not fit");
  request_ = MakeRequest({.dim = 3});
  request_.set_encoding("rope");
  ExpectInvalid("encoding: \"rope\" does not fit");
}

TEST_F(DecodeTest, PositionEncodingsRefuseRealUnits) {
  request_.set_encoding("steps");
  request_.mutable_mask()->set_causal(v1::CAUSALITY_TIME);
  ExpectAccepted();
  SetTimes();
  ExpectInvalid("send ticks in POSITIONS");
  ExpectInvalid("give the encoding a time_unit");
  request_.mutable_query_time()->set_units(0, v1::TICK_UNIT_POSITIONS);
  request_.mutable_key_time()->set_units(0, v1::TICK_UNIT_POSITIONS);
  ExpectAccepted();
  SetRealTimes({1, 2}, {0, 1, 2});
  ExpectInvalid("send ticks in POSITIONS");
}

TEST_F(DecodeTest, TickRatios) {
  request_.set_encoding("alibi");
  EXPECT_EQ(Try()->problem.encoder->ratio(), kPositionRatio);
  SetTimes();
  request_.mutable_mask()->set_causal(v1::CAUSALITY_TIME);
  EXPECT_DOUBLE_EQ(Try()->problem.encoder->ratio().units_per_tick(), 1);
  request_.mutable_query_time()->set_units(0, v1::TICK_UNIT_MICROSECONDS);
  request_.mutable_key_time()->set_units(0, v1::TICK_UNIT_MICROSECONDS);
  EXPECT_DOUBLE_EQ(Try()->problem.encoder->ratio().units_per_tick(), 1e-6);
  request_.mutable_query_time()->set_units(0, v1::TICK_UNIT_POSITIONS);
  request_.mutable_key_time()->set_units(0, v1::TICK_UNIT_POSITIONS);
  EXPECT_DOUBLE_EQ(Try()->problem.encoder->ratio().units_per_tick(), 1);
}

TEST_F(DecodeTest, TheRequestMayChooseTheTwoSidedRule) {
  request_.set_encoding("alibi");
  EXPECT_TRUE(Try()->problem.encoder->one_sided());
  request_.set_two_sided(v1::TWO_SIDED_RULE_ABSOLUTE_LAG);
  EXPECT_FALSE(Try()->problem.encoder->one_sided());
}

// A length counts what was there to see: neither padding nor what ranges of
// time leave out, whatever causality and windows hide from some queries.
TEST_F(DecodeTest, LengthsOfScalingsAreThoseOfValidKeys) {
  request_.set_encoding("dynamic");
  SetTimes();  // keys at 0, 10 and 20
  const auto length = [this] {
    const auto decoded = Try();
    EXPECT_TRUE(decoded.ok()) << decoded.status();
    return decoded->problem.item_encoders.at(0)->sizes().length;
  };
  v1::Mask& mask = *request_.mutable_mask();
  mask.set_causal(v1::CAUSALITY_TIME);
  mask.set_past_ticks(1);
  EXPECT_EQ(length(), 3);
  v1::TimeRange& range = *mask.add_key_ranges();
  range.set_begin_ticks(5);
  range.set_end_ticks(20);
  EXPECT_EQ(length(), 2);
  mask.set_key_validity(std::string("\1\0\1", 3));
  EXPECT_EQ(length(), 1);
  mask.clear_key_ranges();
  EXPECT_EQ(length(), 2);
  mask.clear_key_validity();
  mask.add_key_lengths(1);
  EXPECT_EQ(length(), 1);
  // By position and by real times.
  mask.clear_key_lengths();
  mask.clear_past_ticks();
  SetRealTimes({10, 20}, {0, 10.5, 20});
  v1::TimeRange& real = *mask.add_key_ranges();
  real.set_begin_time(10.5);
  real.set_end_time(11);
  EXPECT_EQ(length(), 1);
  request_.clear_query_time();
  request_.clear_key_time();
  mask.mutable_key_ranges(0)->Clear();
  mask.mutable_key_ranges(0)->set_end_ticks(1);
  EXPECT_EQ(length(), 2);
}

TEST_F(DecodeTest, InlineEncodings) {
  v1::Encoding& encoding = *request_.mutable_inline_encoding();
  encoding.set_time_unit("1s");
  encoding.add_biases()->mutable_alibi()->set_two_sided(true);
  ExpectRefused(absl::StatusCode::kPermissionDenied, "inline_encoding");
  inline_allowed_ = true;
  ExpectAccepted();
  EXPECT_EQ(Try()->encoding_name, "inline");
  EXPECT_EQ(catalog_.inline_encoders().size(), 1u);
  encoding.add_biases()->mutable_kerple();
  ExpectInvalid("inline_encoding.biases[1].kerple");
  encoding.mutable_biases()->RemoveLast();
  encoding.clear_time_unit();
  ExpectInvalid("inline_encoding.time_unit: required");
}

// Neither eigenvalues nor anything else that takes long is found on the thread
// that asks first; what is wrong with them is told by the one that compiles.
TEST_F(DecodeTest, DenseBlocksOfRequestsAreCheckedWhereTheyAreCompiled) {
  inline_allowed_ = true;
  SetTimes();
  v1::Encoding& encoding = *request_.mutable_inline_encoding();
  encoding.set_time_unit("1s");
  v1::Dense& dense = *encoding.add_blocks()->mutable_dense();
  dense.set_dim(2);
  for (const double x : {1, 0, 0, 1}) dense.add_matrix(x);  // grows
  const auto decode = [&](Compiling compiling, bool stopped) {
    const std::atomic<bool> stop{stopped};
    return Decode(request_,
                  {.encodings = catalog_,
                   .limits = config_.effective.limits(),
                   .inline_encodings_allowed = true,
                   .compiling = compiling,
                   .stop = &stop},
                  Payload::kPresent)
        .status();
  };
  EXPECT_TRUE(IsCompilingNeeded(decode(Compiling::kNo, false)));
  EXPECT_EQ(decode(Compiling::kYes, true).code(), absl::StatusCode::kCancelled);
  ExpectInvalid("inline_encoding.blocks[0].dense.matrix");
  for (int i = 0; i < 4; ++i) dense.set_matrix(i, i == 0 || i == 3 ? -1 : 0);
  EXPECT_TRUE(decode(Compiling::kYes, false).ok());
  EXPECT_TRUE(decode(Compiling::kNo, false).ok()) << "in the cache";
}

// With one axis it is of the class; with more it turns by places, of which the
// request must have as many coordinates.
TEST_F(DecodeTest, LieReOfSeveralAxesTakesTimesWithAsMany) {
  inline_allowed_ = true;
  v1::Encoding& encoding = *request_.mutable_inline_encoding();
  encoding.set_time_unit("1s");
  v1::LieRe& liere = *encoding.mutable_preset()->mutable_liere();
  liere.set_tile(4);
  for (double x : {1, 0, 0, 0, 0, 0}) liere.add_generators(x);
  ExpectAccepted();
  EXPECT_TRUE(
      Try()->problem.encoder->head(0).generator().free_rotations().empty());
  liere.set_coordinates(2);
  ExpectInvalid("preset.liere.generators: 6 entries");
  for (double x : {0, 0, 1, 0, 0, 0}) liere.add_generators(x);
  const auto decoded = Try();
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_THAT(std::string(Plan::Make(decoded->problem).status().message()),
              HasSubstr("query_time.coordinates: 1, the encoding uses 2"));
  for (auto* axis :
       {request_.mutable_query_time(), request_.mutable_key_time()}) {
    const int64_t rows = axis == request_.mutable_query_time() ? 2 : 3;
    SetTicks(std::vector<int64_t>(2 * rows, 7), v1::TICK_UNIT_SECONDS, *axis);
    axis->set_shape(0, rows);
    axis->add_shape(2);
    axis->add_units(v1::TICK_UNIT_SECONDS);
    axis->set_coordinates(2);
  }
  ExpectAccepted();
}

TEST_F(DecodeTest, ComputePrecision) {
  EXPECT_FALSE(Try()->problem.bf16_compute);
  request_.set_compute(v1::COMPUTE_PRECISION_F32);
  EXPECT_FALSE(Try()->problem.bf16_compute);
  request_.set_compute(v1::COMPUTE_PRECISION_BF16);
  EXPECT_TRUE(Try()->problem.bf16_compute);
  request_.set_compute(static_cast<v1::ComputePrecision>(9));
  ExpectInvalid("compute");
}

TEST_F(DecodeTest, ElementTypesMixAndTheOutputFollowsTheQuery) {
  const auto to_half = [](v1::DType dtype, v1::Tensor* tensor) {
    tensor->set_dtype(dtype);
    tensor->mutable_data()->resize(tensor->data().size() / 2);
  };
  to_half(v1::DTYPE_BF16, request_.mutable_query());
  to_half(v1::DTYPE_F16, request_.mutable_value());
  ExpectAccepted();
  EXPECT_EQ(Try()->problem.query.dtype(), DType::kBF16);
  EXPECT_EQ(Try()->problem.key.dtype(), DType::kF32);
  EXPECT_EQ(Try()->problem.value.dtype(), DType::kF16);
  EXPECT_EQ(Try()->problem.output_dtype, DType::kBF16);
  request_.set_output_dtype(v1::DTYPE_F32);
  EXPECT_EQ(Try()->problem.output_dtype, DType::kF32);
}

TEST_F(DecodeTest, MasksBeyondTime) {
  v1::Mask& mask = *request_.mutable_mask();
  mask.set_past_keys(2);
  mask.set_future_keys(0);
  mask.set_prefix(1);
  mask.add_key_ranges()->set_end_ticks(1);
  mask.add_sinks(0.5f);
  mask.set_value_channel_mask(std::string(12, '\1'));
  request_.set_softcap(30);
  ExpectAccepted();
  const AttentionProblem problem = Try()->problem;
  EXPECT_EQ(problem.mask.past_keys, 2);
  EXPECT_EQ(problem.mask.future_keys, 0);
  EXPECT_EQ(problem.mask.prefix, 1);
  EXPECT_EQ(problem.mask.key_ranges[0].end_ticks, 1);
  EXPECT_EQ(problem.sinks[0], 0.5f);
  EXPECT_EQ(problem.softcap, 30);
  mask.set_past_keys(-1);
  mask.set_prefix(-2);
  mask.mutable_key_ranges(0)->set_begin_ticks(2);
  mask.set_sinks(0, static_cast<float>(kInfinity));
  mask.set_value_channel_mask("1");
  const absl::Status status = Try().status();
  for (const char* text :
       {"mask.past_keys: -1, expected >= 0", "mask.prefix: -2",
        "mask.key_ranges: entry 0 ends before it begins",
        "mask.sinks: entry 0 is inf",
        "mask.value_channel_mask: 1 bytes, expected 12 ([B,Lk,Dv])"}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }
}

TEST_F(DecodeTest, PackedItems) {
  v1::Mask& mask = *request_.mutable_mask();
  for (int64_t offset : {0, 1, 2}) mask.add_query_offsets(offset);
  ExpectInvalid("mask.key_offsets: 0 entries beside 3 query_offsets");
  for (int64_t offset : {0, 3, 2}) mask.add_key_offsets(offset);
  ExpectInvalid("mask.key_offsets: expected offsets from 0 to 3");
  mask.set_key_offsets(2, 3);
  ExpectAccepted();
  EXPECT_EQ(ItemCount(Try()->problem), 2);
  mask.add_key_lengths(3);
  ExpectInvalid("mask.query_offsets: offsets and lengths exclude each other");
}

TEST_F(DecodeTest, OutputsThatNeedNoMatrix) {
  request_.add_outputs(v1::OUTPUT_TOP_K);
  ExpectInvalid("top_k: expected >= 1");
  request_.set_top_k(4);
  request_.add_outputs(v1::OUTPUT_KEY_MASS);
  request_.add_outputs(v1::OUTPUT_ENTROPY);
  ExpectAccepted();
  const auto decoded = Try();
  EXPECT_FALSE(decoded->problem.outputs.output);
  EXPECT_EQ(decoded->reply.top, 2 * 4);
  EXPECT_EQ(decoded->reply.key_mass, 3);
  EXPECT_EQ(decoded->reply.entropy, 2);
  // A k whose answer could not be sent.
  request_.set_top_k(1 << 30);
  ExpectRefused(absl::StatusCode::kResourceExhausted, "reply");
}

TEST_F(DecodeTest, SeveralCoordinatesNeedAnAxisOfThem) {
  SetTimes();
  request_.mutable_query_time()->set_coordinates(2);
  request_.mutable_key_time()->set_coordinates(2);
  ExpectInvalid("query_time.shape");
}

TEST_F(DecodeTest, ClocksAndGatesAreChecked) {
  request_.mutable_query_clock();
  ExpectInvalid("query_clock.dtype");
  request_ = MakeRequest({});
  request_.mutable_gates()->set_dtype(v1::DTYPE_F32);
  request_.mutable_gates()->add_shape(7);
  ExpectInvalid("gates.shape");
}

TEST_F(DecodeTest, NonsenseInOptionsIsInvalid) {
  request_.set_softcap(-1);
  ExpectInvalid("softcap");
  request_ = MakeRequest({});
  request_.set_prune_tolerance(kNan);
  ExpectInvalid("prune_tolerance");
  request_ = MakeRequest({});
  request_.set_priority(11);
  ExpectInvalid("priority");
  request_ = MakeRequest({});
  request_.add_outputs(v1::OUTPUT_TOP_K);
  ExpectInvalid("top_k");
}

TEST_F(DecodeTest, AllFieldsAtOnce) {
  request_.mutable_query()->set_data("");
  request_.mutable_value()->clear_shape();
  request_.set_scale(static_cast<float>(kNan));
  request_.set_softcap(-1);
  const absl::Status status = Try().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("query.data"), HasSubstr("value.shape"),
                    HasSubstr("scale"), HasSubstr("softcap")));
}

TEST_F(DecodeTest, RepliesThatCannotBeSentAreRefusedByShape) {
  request_ = MakeRequest(
      {.queries = 100000, .keys = 100000, .dim = 1, .value_dim = 1});
  request_.add_outputs(v1::OUTPUT_SCORES);
  const absl::Status status = Try().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("40000001024 bytes"), HasSubstr("134217728")));
  EXPECT_FALSE(ToRpcError(status).retry_delay);
}

TEST_F(DecodeTest, EstimatesNeedShapesAlone) {
  const int64_t flops = Plan::Make(Try()->problem)->flops();
  for (v1::Tensor* tensor : {request_.mutable_query(), request_.mutable_key(),
                             request_.mutable_value()}) {
    tensor->clear_data();
  }
  const auto decoded = Try(Payload::kAbsent);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const auto plan = Plan::Make(decoded->problem);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->flops(), flops);
  request_.mutable_query()->set_data("x");
  EXPECT_FALSE(Try(Payload::kAbsent).ok());
}

TEST_F(DecodeTest, EstimatesWithoutTimesSeeEverything) {
  const int64_t flops = Plan::Make(Try()->problem)->flops();
  for (v1::Tensor* tensor : {request_.mutable_query(), request_.mutable_key(),
                             request_.mutable_value()}) {
    tensor->clear_data();
  }
  SetTimes();
  request_.mutable_query_time()->clear_data();
  request_.mutable_key_time()->clear_data();
  request_.mutable_mask()->set_causal(v1::CAUSALITY_TIME);
  request_.set_encoding("alibi");
  const auto decoded = Try(Payload::kAbsent);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const auto plan = Plan::Make(decoded->problem);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->flops(), flops);
}

TEST_F(DecodeTest, RefusedBiasElementsAreCounted) {
  request_ = MakeRequest({.queries = 100, .keys = 50});
  SetTensor({1, 1, 100, 50}, std::vector<float>(5000, static_cast<float>(kNan)),
            *request_.mutable_bias());
  const auto decoded = Try();
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const auto plan = Plan::Make(decoded->problem);
  const absl::Status status = FromPlan(plan.status(), decoded->problem);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("bias: element [0,0,0,0]"), HasSubstr("5000")));
}

TEST_F(DecodeTest, ABiasMayHaveAnyLayoutAndElementType) {
  SetTensor({1, 2, 1, 3}, std::vector<float>(6, 0), *request_.mutable_bias());
  request_.mutable_bias()->set_layout(v1::LAYOUT_BLHD);
  ExpectAccepted();
  request_.mutable_bias()->set_dtype(v1::DTYPE_BF16);
  request_.mutable_bias()->mutable_data()->resize(12);
  ExpectAccepted();
  EXPECT_EQ(Try()->problem.bias.shape(), (Shape4{1, 1, 2, 3}));
  // bf16 infinity.
  request_.mutable_bias()->mutable_data()->replace(4, 2, "\x80\x7f");
  const auto decoded = Try();
  ASSERT_TRUE(decoded.ok());
  const auto plan = Plan::Make(decoded->problem);
  const absl::Status status = FromPlan(plan.status(), decoded->problem);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("bias: element [0,0,0,2]: inf"),
                    HasSubstr("NaN or +inf elements in all: 1")));
}

}  // namespace
}  // namespace attnd::server
