#include "server/list_encodings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "server/config.h"
#include "server/self_test.h"
#include "server/status.h"

namespace attnd::server {
namespace {

using ::testing::HasSubstr;

EncodingCatalog Catalog(const std::string& encodings) {
  auto config = ParseConfig("encodings:\n" + encodings, "a.yaml", Machine{});
  EXPECT_TRUE(config.ok()) << config.status();
  return EncodingCatalog(config->effective.encodings(), 4);
}

v1::Limits Limits() {
  v1::Limits limits;
  limits.set_dim(1024);
  limits.set_heads(1024);
  limits.set_rows(1 << 20);
  limits.set_message_bytes(1 << 20);
  return limits;
}

// The first configured encoding (after "nope").
v1::ResolvedEncoding Only(const std::string& yaml,
                          v1::ListEncodingsRequest request = {}) {
  v1::ListEncodingsResponse reply;
  const absl::Status status =
      ListEncodings(Catalog(yaml), Limits(), request, reply);
  EXPECT_TRUE(status.ok()) << status;
  return reply.encodings_size() > 1 ? reply.encodings(1)
                                    : v1::ResolvedEncoding();
}

TEST(ListEncodings, KvHeadsMustDivideQueryHeads) {
  v1::ListEncodingsRequest request;
  v1::ListEncodingsResponse reply;
  request.set_query_heads(8);
  request.set_kv_heads(3);
  const absl::Status status =
      ListEncodings(Catalog("  - {name: a}\n"), Limits(), request, reply);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("kv_heads"));
  request.clear_query_heads();
  EXPECT_TRUE(
      ListEncodings(Catalog("  - {name: a}\n"), Limits(), request, reply).ok());
}

TEST(ListEncodings, OneThatDoesNotFitDoesNotHideTheOthers) {
  const EncodingCatalog catalog = Catalog(R"(
  - {name: wide, time_unit: 1s, blocks: [{rotary: {rotary_dim: 32, pair_layout: interleaved}}]}
  - {name: narrow, time_unit: 1s, blocks: [{rotary: {rotary_dim: 4, pair_layout: interleaved}}]}
)");
  v1::ListEncodingsRequest request;
  v1::ListEncodingsResponse reply;
  request.set_head_dim(8);
  ASSERT_TRUE(ListEncodings(catalog, Limits(), request, reply).ok());
  ASSERT_EQ(reply.encodings_size(), 3);
  EXPECT_THAT(reply.encodings(1).misfit(), HasSubstr("32"));
  EXPECT_EQ(reply.encodings(2).misfit(), "");
  EXPECT_EQ(reply.encodings(2).generators_size(), 1);
  request.add_names("wide");
  EXPECT_EQ(ListEncodings(catalog, Limits(), request, reply).code(),
            absl::StatusCode::kInvalidArgument);
}

// A small request must not make a large reply, nor much work.
TEST(ListEncodings, NamesThatAreRepeatedAreAnsweredOnce) {
  const EncodingCatalog catalog = Catalog("  - {name: a}\n  - {name: b}\n");
  v1::ListEncodingsRequest request;
  const std::string names[] = {"b", "a"};
  for (int i = 0; i < kMaxListNames; ++i) request.add_names(names[i % 2]);
  v1::ListEncodingsResponse reply;
  ASSERT_TRUE(ListEncodings(catalog, Limits(), request, reply).ok());
  ASSERT_EQ(reply.encodings_size(), 2);
  EXPECT_EQ(reply.encodings(0).name(), "b");
  EXPECT_EQ(reply.encodings(1).name(), "a");
  request.add_names(names[0]);
  const absl::Status status = ListEncodings(catalog, Limits(), request, reply);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("names: 4097"));
}

TEST(ListEncodings, AReplyThatCannotBeSentIsRefused) {
  std::string encodings;
  for (int i = 0; i < 50; ++i)
    absl::StrAppend(&encodings, "  - {name: e", i, "}\n");
  const EncodingCatalog catalog = Catalog(encodings);
  v1::ListEncodingsRequest request;
  request.set_query_heads(64);
  v1::ListEncodingsResponse reply;
  v1::Limits limits = Limits();
  ASSERT_TRUE(ListEncodings(catalog, limits, request, reply).ok());
  const auto bytes = static_cast<int64_t>(reply.ByteSizeLong());
  reply.Clear();
  limits.set_message_bytes(bytes / 2);
  const absl::Status status = ListEncodings(catalog, limits, request, reply);
  EXPECT_EQ(ReasonOf(status), Reason::kTooLarge) << status;
  EXPECT_THAT(status.message(), HasSubstr("limits.message_bytes"));
  EXPECT_EQ(reply.encodings_size(), 0);
  // What is made of it counts, not what was asked for.
  request.add_names("e7");
  EXPECT_TRUE(ListEncodings(catalog, limits, request, reply).ok());
}

// Fields that are read only beside others, or stand in their place.
bool MayBeAbsent(const std::string& field) {
  static const std::set<std::string> kMayBeAbsent = {
      "attnd.v1.Rotary.base",  // beside a block of Hugging Face's
      "attnd.v1.Yarn.attention_factor",
      "attnd.v1.Yarn.mscale",
      "attnd.v1.Yarn.mscale_all_dim",
      "attnd.v1.Yarn.truncate",  // with the ramp of the paper
      "attnd.v1.LongRope.attention_factor",
      "attnd.v1.Alibi.bias_max",           // beside slopes
      "attnd.v1.QueryTemperature.scale"};  // of llama4 alone
  return kMayBeAbsent.contains(field) ||
         absl::StartsWith(field, "attnd.v1.HuggingFaceRope.");
}

void ExpectComplete(const google::protobuf::Message& message) {
  const auto* access = message.GetReflection();
  const auto* type = message.GetDescriptor();
  for (int f = 0; f < type->field_count(); ++f) {
    const auto* field = type->field(f);
    if (field->has_optional_keyword()) {
      EXPECT_TRUE(access->HasField(message, field) ||
                  MayBeAbsent(field->full_name()))
          << field->full_name();
    } else if (field->cpp_type() == field->CPPTYPE_MESSAGE) {
      if (field->is_repeated()) {
        for (int i = 0; i < access->FieldSize(message, field); ++i) {
          ExpectComplete(access->GetRepeatedMessage(message, field, i));
        }
      } else if (access->HasField(message, field)) {
        ExpectComplete(access->GetMessage(message, field));
      }
    }
  }
}

TEST(ListEncodings, DefinitionsOfEveryFamilyHaveTheirDefaultsWrittenOut) {
  const auto config = LoadConfig("deploy/encodings.yaml", Machine{});
  ASSERT_TRUE(config.ok()) << config.status();
  const EncodingCatalog catalog(config->effective.encodings(), 1);
  for (const NamedEncoding& encoding : catalog.encodings()) {
    SCOPED_TRACE(encoding.name);
    ExpectComplete(encoding.definition);
    // What is shown may be sent back, and means the same.
    Violations violations;
    const NamedEncoding again =
        ReadEncoding(encoding.definition, "", violations);
    EXPECT_TRUE(violations.empty()) << violations.ToStatus();
    EXPECT_EQ(again.hash, encoding.hash);
  }
  const v1::ResolvedEncoding heads = Only(
      "  - {name: a, time_unit: 1s, per_head: [{blocks: [{real_jordan: "
      "{size: 2, rates: [1]}}]}, {blocks: [{rotary: {pair_layout: "
      "interleaved}}]}]}\n");
  ASSERT_EQ(heads.definition().per_head_size(), 2);
  ExpectComplete(heads.definition());
  EXPECT_EQ(heads.definition().per_head(1).blocks(0).rotary().base(), 10000);
}

// Where e^bias has fallen to 1/e, by the formulas.
TEST(ListEncodings, BiasesHaveTheirHorizon) {
  const auto horizon = [](const std::string& bias) {
    return Only("  - {name: a, time_unit: 1s, biases: [" + bias + "]}\n")
        .effective_horizon(0);
  };
  EXPECT_NEAR(horizon("{alibi: {slopes: [0.25]}}"), 4, 1e-5);
  EXPECT_NEAR(horizon("{kerple: {form: log, r1: [2], r2: [0.5]}}"),
              (std::exp(0.5) - 1) / 0.5, 1e-5);
  EXPECT_NEAR(horizon("{kerple: {form: power, r1: [0.25], r2: [0.5]}}"), 16,
              1e-4);
  EXPECT_NEAR(horizon("{lag_table: {lags: [0, 10], values: [1, -1]}}"), 5,
              1e-5);
  EXPECT_EQ(horizon("{lag_table: {lags: [0, 10], values: [0, -0.5]}}"), -1);
  EXPECT_NEAR(horizon("{alibi: {slopes: [0.25]}}, {alibi: {slopes: [0.75]}}"),
              1, 1e-6);
}

TEST(ListEncodings, GeneratorsHaveTheHorizonOfTheirSlowestChannel) {
  const auto horizon = [](const std::string& blocks) {
    v1::ListEncodingsRequest request;
    request.set_head_dim(4);
    return Only("  - {name: a, time_unit: 1s, blocks: [" + blocks + "]}\n",
                request)
        .effective_horizon(0);
  };
  EXPECT_DOUBLE_EQ(horizon("{component_decay: {rates: [1, 2, 0.5, 4]}}"), 2);
  EXPECT_EQ(horizon("{component_decay: {rates: [1, 2]}}"), -1);
  const double averaged =
      horizon("{component_decay: {rates: [0.5]}, averaged: true}");
  EXPECT_NEAR(-std::expm1(-0.5 * averaged) / (0.5 * averaged), std::exp(-1),
              1e-12);
}

// LieRE of 16 tiles of 4 channels, whose axes turn different planes.
v1::ResolvedEncoding LieRe(int axes) {
  std::string generators;
  for (int a = 0; a < axes; ++a) {
    for (int tile = 0; tile < 16; ++tile) {
      generators += a == 0 ? "1, 0, 0, 0, 0, 0, " : "0, 0, 1, 0, 0, 0, ";
    }
  }
  return Only(
      "  - {name: a, time_unit: 1s, preset: {liere: {tile: 4, coordinates: " +
      std::to_string(axes) + ", generators: [" + generators + "]}}}\n");
}

TEST(ListEncodings, WhatDependsOnPositionsIsNotRelative) {
  EXPECT_TRUE(LieRe(1).relative());
  const v1::ResolvedEncoding free = LieRe(2);
  EXPECT_FALSE(free.relative());
  ASSERT_EQ(free.generators(0).blocks_size(), 16);
  EXPECT_EQ(free.generators(0).blocks(0).kind(), "liere");
  EXPECT_EQ(free.generators(0).blocks(0).matrix_size(), 2 * 4 * 4);
  v1::ListEncodingsRequest request;
  request.set_head_dim(4);
  EXPECT_FALSE(Only("  - {name: a, time_unit: 1s, absolutes: [{sinusoidal: "
                    "{order: interleaved}}]}\n",
                    request)
                   .relative());
}

TEST(ListEncodings, LinearChannelsOfTimeAreNotBounded) {
  v1::ListEncodingsRequest request;
  request.set_head_dim(2);
  const auto bounded = [&](const std::string& part) {
    return Only("  - {name: a, time_unit: 1s, absolutes: [" + part + "]}\n",
                request)
        .bounded();
  };
  EXPECT_FALSE(bounded("{time2vec: {frequencies: [1, 2], phases: [0, 0]}}"));
  EXPECT_TRUE(bounded("{time2vec: {frequencies: [0, 2], phases: [1, 0]}}"));
  EXPECT_FALSE(
      bounded("{mtand: {embedding: [{frequencies: [1], phases: [0]}], "
              "query_projection: [1, 1], key_projection: [1, 1]}}"));
  EXPECT_TRUE(bounded("{transformer_hawkes: {form: thp}}"));
}

TEST(ListEncodings, SummariesTellOfEveryHead) {
  const v1::ResolvedEncoding two = Only(
      "  - {name: a, time_unit: 1s, per_head: [{blocks: [{component_decay: "
      "{rates: [1]}}]}, {blocks: [{identity: {width: 1}}]}, {}]}\n");
  EXPECT_EQ(two.summary(),
            "64 x decay (kv head 0) and identity (kv heads 1 to 2); unit 1s");
}

TEST(ListEncodings, ClocksOfTurnAndDecayStayApart) {
  v1::ListEncodingsRequest request;
  request.set_head_dim(4);
  const v1::ResolvedEncoding mamba =
      Only("  - {name: a, time_unit: 1s, preset: {mamba3: {}}}\n", request);
  const v1::ResolvedBlock& second = mamba.generators(0).blocks(1);
  EXPECT_EQ(second.kind(), "damped_rotation");
  EXPECT_EQ(second.clock_channel(), 2);
  EXPECT_EQ(second.decay_drive().clock(), v1::CLOCK_REQUEST);
  EXPECT_EQ(second.decay_drive().clock_channel(), 0);
}

TEST(ListEncodings, ForgettingAttentionIsTheBiasItStandsFor) {
  const v1::ResolvedEncoding fox =
      Only("  - {name: a, time_unit: 1s, preset: {fox: {per_unit: true}}}\n");
  ASSERT_EQ(fox.definition().biases_size(), 1);
  EXPECT_TRUE(fox.definition().biases(0).cumulative_gate().per_unit());
  EXPECT_FALSE(fox.definition().has_preset());
}

// Dynamic NTK at 8192 keys of 4096: base 10000 * 3^(128/126).
TEST(ListEncodings, LengthsChooseTheScaling) {
  const std::string yaml =
      "  - {name: a, time_unit: position, blocks: [{rotary: {pair_layout: "
      "half_split, dynamic_ntk: {factor: 2, original_length: 4096}}}]}\n";
  v1::ListEncodingsRequest request;
  request.set_head_dim(128);
  const auto frequency = [&](int64_t length) {
    request.set_length(length);
    const v1::ResolvedEncoding encoding = Only(yaml, request);
    EXPECT_TRUE(encoding.length_dependent());
    return encoding.generators(0).blocks(1).frequency();
  };
  EXPECT_DOUBLE_EQ(frequency(0), std::pow(10000.0, -1.0 / 64));
  EXPECT_NEAR(frequency(8192), std::pow(30527.7367488067, -1.0 / 64), 1e-14);
}

// A server that starts has judged each of its encodings.
TEST(SelfTest, GivesEveryEncodingWhatItNeeds) {
  std::string ones = "1";
  for (int c = 1; c < 64; ++c) ones += ", 1";
  const EncodingCatalog catalog = Catalog(R"(
  - {name: axes, time_unit: 1s, blocks: [{rotary: {rotary_dim: 64, pair_layout: half_split, axes: {sections: [16, 16], order: axial}}}]}
  - {name: clock, time_unit: 1s, blocks: [{rotary: {pair_layout: half_split}, clock: request, clock_channel: 2}]}
  - {name: gates, time_unit: 1s, biases: [{cumulative_gate: {}}]}
  - {name: preset, time_unit: 1s, preset: {retnet: {}}}
  - {name: table, time_unit: 1s, absolutes: [{learned_table: {rows: 1, dim: 64, table: [)" +
                                          ones + "]}}]}\n");
  const auto workspace = Workspace::Create();
  ASSERT_TRUE(workspace.ok());
  const absl::Status status = SelfTest(catalog, **workspace);
  EXPECT_TRUE(status.ok()) << status;
}

// Whatever numbers its times and clocks are drawn from: a key of a query's own
// time must not be ahead of it on a clock that decays.
TEST(SelfTest, ClocksThatDecayPassWithAnyNumberOfChannels) {
  std::string encodings;
  for (int channel = 0; channel < 24; ++channel) {
    absl::StrAppend(&encodings, "  - {name: c", channel,
                    ", time_unit: 1s, blocks: [{component_decay: {rates: [1], "
                    "width: 4}, clock: request, clock_channel: ",
                    channel, "}]}\n");
  }
  const auto workspace = Workspace::Create();
  ASSERT_TRUE(workspace.ok());
  const absl::Status status = SelfTest(Catalog(encodings), **workspace);
  EXPECT_TRUE(status.ok()) << status;
}

// One that no configuration has, since it cannot be compiled.
TEST(SelfTest, LeavesOutWhatHasPassed) {
  google::protobuf::RepeatedPtrField<v1::Encoding> bad;
  v1::Encoding& encoding = *bad.Add();
  encoding.set_name("bad");
  encoding.set_time_unit("1s");
  encoding.add_biases()->mutable_alibi()->add_slopes(-1);
  const EncodingCatalog catalog(bad, 4);
  const auto workspace = Workspace::Create();
  ASSERT_TRUE(workspace.ok());
  EXPECT_EQ(SelfTest(catalog, **workspace).code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(SelfTest(catalog, **workspace, &catalog).ok());
}

}  // namespace
}  // namespace attnd::server
