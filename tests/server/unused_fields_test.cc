// Nothing that an encoding says is dropped without a word: settings that no
// part would read and enum values that nobody knows are refused.
#include "server/unused_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "server/named_encoding.h"
#include "tests/server/config_texts.h"

namespace attnd::server {
namespace {

using ::attnd::testing::Encoding;
using ::attnd::testing::Faults;
using ::attnd::testing::Parse;
using ::google::protobuf::Descriptor;
using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;
using ::testing::HasSubstr;

using Texts = std::initializer_list<std::pair<const char*, const char*>>;

void ExpectRefused(const Texts& texts) {
  for (const auto& [text, fault] : texts) {
    EXPECT_THAT(Faults(Encoding(text)),
                HasSubstr(absl::StrCat("a.yaml:4: encodings[0].", fault)))
        << text;
  }
}

void ExpectAccepted(std::initializer_list<const char*> texts) {
  for (const char* text : texts) {
    const auto config = Parse(Encoding(text));
    EXPECT_TRUE(config.ok()) << text << ": " << config.status();
  }
}

TEST(UnusedFields, OfRotaryBlocksAreRefused) {
  ExpectRefused({
      {"blocks: [{rotary: {base: 10, rope_parameters: {rope_theta: 500000}}}]",
       "blocks[0].rotary.base: 10, but "
       "encodings[0].blocks[0].rotary.rope_parameters.rope_theta is 500000; "
       "leave one of them out"},
      {"blocks: [{rotary: {axes: {sections: [16, 8, 8], order: contiguous}, "
       "rope_parameters: {mrope_section: [16, 8, 8]}}}]",
       "blocks[0].rotary.axes: given beside"},
      {"blocks: [{rotary: {pair_layout: half_split, axes: {sections: [], "
       "order: "
       "axial}}}]",
       "blocks[0].rotary.axes.sections: required"},
      {"blocks: [{rotary: {pair_layout: half_split, yarn: {factor: 10, "
       "original_length: 64, mscale: 2.0}}}]",
       "blocks[0].rotary.yarn.mscale: is read beside mscale_all_dim alone"},
      {"blocks: [{rotary: {pair_layout: half_split, yarn: {factor: 10, "
       "original_length: 64, mscale_all_dim: 2.0}}}]",
       "blocks[0].rotary.yarn.mscale_all_dim: is read beside mscale alone"},
      {"blocks: [{rotary: {pair_layout: half_split, yarn: {factor: 10, "
       "original_length: 64, mscale: 0, mscale_all_dim: 1}}}]",
       "blocks[0].rotary.yarn.mscale: 0, expected finite and > 0"},
      {"blocks: [{rotary: {pair_layout: half_split, yarn: {factor: 10, "
       "original_length: 64, mscale: 1, mscale_all_dim: 1, attention_factor: "
       "2}}}]",
       "blocks[0].rotary.yarn.mscale: given beside attention_factor"},
      {"blocks: [{rotary: {pair_layout: half_split, yarn: {factor: 10, "
       "original_length: 64, ramp: paper, truncate: false}}}]",
       "blocks[0].rotary.yarn.truncate: rounds"},
      {"blocks: [{rotary: {rotary_dim: 4, pair_layout: half_split, longrope: "
       "{short_factor: [1, 1], long_factor: [2, 2], original_length: 64, "
       "factor: "
       "4, attention_factor: 1.5}}}]",
       "blocks[0].rotary.longrope.factor: given beside attention_factor"},
  });
  ExpectAccepted({
      "blocks: [{rotary: {base: 10, rope_parameters: {rope_theta: 10}}}]",
      "blocks: [{rotary: {base: 10, rope_scaling: {}}}]",
      // As the library reads them.
      "blocks: [{rotary: {rope_parameters: {rope_type: yarn, factor: 10, "
      "mscale: "
      "2, original_max_position_embeddings: 64}}}]",
      "blocks: [{rotary: {pair_layout: half_split, yarn: {factor: 10, "
      "original_length: 64, ramp: code, truncate: false}}}]",
  });
}

// What is configured beside a block of Hugging Face's takes effect.
TEST(UnusedFields, AxesBesideHuggingFaceBlocksAreServed) {
  v1::Encoding encoding;
  encoding.set_time_unit("position");
  v1::Rotary& rotary = *encoding.add_blocks()->mutable_rotary();
  rotary.mutable_rope_parameters();
  rotary.mutable_axes()->add_sections(2);
  rotary.mutable_axes()->set_order(v1::AxisSections::ORDER_AXIAL);
  Violations violations;
  const NamedEncoding read = ReadEncoding(encoding, "", violations);
  ASSERT_TRUE(violations.empty()) << violations.ToStatus();
  const auto& block = std::get<RotaryBlock>(read.spec.blocks.at(0).kind);
  EXPECT_EQ(block.axes.sections, std::vector<int>{2});
  EXPECT_EQ(block.axes.order, AxisSections::Order::kAxial);
}

TEST(UnusedFields, OfOtherBlocksAreRefused) {
  ExpectRefused({
      {"blocks: [{complex_jordan: {size: 2, frequencies: [1], rates: [1], "
       "length: 5}}]",
       "blocks[0].complex_jordan.length: is read with variant: scaled alone"},
      {"blocks: [{rotary: {pair_layout: half_split}, clock_channel: 3}]",
       "blocks[0].clock_channel: is one of the request's clock"},
      {"blocks: [{rotary: {pair_layout: half_split}, coordinate: 2, clock: "
       "request}]",
       "blocks[0].coordinate: is one of the time axis"},
      {"blocks: [{identity: {width: 2}, coordinate: 1}]",
       "blocks[0].coordinate: given, but an identity block sees no time"},
      {"blocks: [{identity: {width: 2}, averaged: true}]",
       "blocks[0].averaged: given, but an identity block sees no time"},
      {"blocks: [{rotation: {frequencies: [1], coordinates: 2, pair_layout: "
       "half_split}}]",
       "blocks[0].rotation.coordinates: 2, but frequencies and periods"},
      {"blocks: [{component_decay: {rates: [1, 2], width: 5}}]",
       "blocks[0].component_decay.rates: 2 entries"},
      {"basis: {dim: 2, cayley: [1]}", "basis: stands around blocks"},
  });
  ExpectAccepted({
      "blocks: [{rotary: {pair_layout: half_split}, clock_channel: 3, clock: "
      "request}]",
      "blocks: [{rotary: {pair_layout: half_split}, coordinate: 2, clock: "
      "time}]",
      "blocks: [{complex_jordan: {size: 2, frequencies: [1], rates: [1], "
      "length: 5, variant: scaled}}]",
  });
}

TEST(UnusedFields, OfWholeEncodingsAreRefused) {
  ExpectRefused({
      {"angle_precision: hf_fp32", "angle_precision: hf_fp32, but no block"},
      {"angle_precision: hf_fp32\n    blocks: [{component_decay: {rates: "
       "[1]}}]",
       "angle_precision: hf_fp32, but no block"},
      {"coordinate_units: [1s]", "coordinate_units[0]: is the unit of"},
      {"query_temperature: {form: log_length, scale: 3}",
       "query_temperature.scale: is read with form: llama4 alone"},
      {"query_temperature: {form: log_length, offset: 7}",
       "query_temperature.offset: is read with form: llama4 alone"},
      {"biases: [{alibi: {slopes: [.5], bias_max: 4}}]",
       "biases[0].alibi.bias_max: is of the published slopes"},
      {"biases: [{cumulative_gate: {}}, {cumulative_gate: {per_unit: true}}]",
       "biases[1].cumulative_gate: reads the request's gates, which "
       "biases[0].cumulative_gate adds already"},
      {"biases: [{alibi: {}}, {path_integral: {}}, {cumulative_gate: {}}]",
       "biases[2].cumulative_gate: reads the request's gates, which "
       "biases[1].path_integral adds already"},
  });
  const auto with = [](const char* units) {
    return Encoding(absl::StrCat("coordinate_units: ", units,
                                 "\n    blocks: [{rotary: {pair_layout: "
                                 "half_split, axes: {order: axial, "
                                 "sections: [8, 8, 16]}}}]"));
  };
  EXPECT_TRUE(Parse(with("[1s, 2s]")).ok());
  EXPECT_THAT(Faults(with("[1s, 2s, 3s]")),
              HasSubstr("coordinate_units[2]: is the unit of coordinate 3, but "
                        "no block follows a coordinate beyond 2"));
  EXPECT_THAT(Faults(Encoding("preset: {fox: {}}\n    biases: [{path_integral: "
                              "{}}]")),
              HasSubstr("gates, which preset.fox adds already"));
}

// Every enum field below Encoding, wherever it stands, set to a number that
// this schema does not have.
void ForEachEnum(Message& root, Message& at, const std::string& path,
                 std::set<const Descriptor*> above,
                 const std::function<void(const std::string&)>& check) {
  if (!above.insert(at.GetDescriptor()).second) return;
  for (int f = 0; f < at.GetDescriptor()->field_count(); ++f) {
    const FieldDescriptor* field = at.GetDescriptor()->field(f);
    const auto& reflection = *at.GetReflection();
    const std::string name = path + field->name();
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
      ASSERT_FALSE(field->is_repeated()) << name;
      reflection.SetEnumValue(&at, field, 99);
      check(name);
      reflection.ClearField(&at, field);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      const bool many = field->is_repeated();
      Message* below = many ? reflection.AddMessage(&at, field)
                            : reflection.MutableMessage(&at, field);
      ForEachEnum(root, *below, name + (many ? "[0]." : "."), above, check);
      reflection.ClearField(&at, field);
    }
  }
}

TEST(UnknownEnums, AreRefusedWhereverTheyStand) {
  v1::Encoding encoding;
  int fields = 0;
  ForEachEnum(encoding, encoding, "", {}, [&](const std::string& path) {
    ++fields;
    Violations violations;
    ReadEncoding(encoding, "", violations);
    ASSERT_EQ(violations.list().size(), 1u) << path;
    EXPECT_EQ(violations.list()[0].field, path);
    EXPECT_THAT(violations.list()[0].description,
                HasSubstr("unknown value 99"));
  });
  EXPECT_GT(fields, 15);
}

}  // namespace
}  // namespace attnd::server
