// Encodings of a configuration: what is required, refused and explained.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/named_encoding.h"
#include "tests/server/config_texts.h"

namespace attnd::server {
namespace {

using ::attnd::testing::Encoding;
using ::attnd::testing::Faults;
using ::attnd::testing::Parse;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ConfigEncodings, NeedATimeUnit) {
  EXPECT_THAT(Faults("encodings:\n  - name: a\n    biases: [{alibi: {}}]\n"),
              AllOf(HasSubstr("a.yaml:2: encodings[0].time_unit"),
                    HasSubstr("required")));
  EXPECT_THAT(Faults("encodings: [{name: a, time_unit: 1q, biases: "
                     "[{alibi: {}}]}]"),
              HasSubstr("encodings[0].time_unit"));
  EXPECT_TRUE(Parse("encodings: [{name: plain}]").ok());
}

TEST(ConfigEncodings, NamesAreUniqueAndPlain) {
  EXPECT_THAT(Faults("encodings: [{name: a}, {name: a}]"),
              HasSubstr("encodings[1].name: \"a\" is taken"));
  EXPECT_THAT(Faults("encodings: [{name: nope}]"), HasSubstr("no encoding"));
  EXPECT_THAT(Faults("encodings: [{name: 'a b'}]"),
              HasSubstr("encodings[0].name"));
  EXPECT_THAT(Faults("encodings: [{}]"), HasSubstr("encodings[0].name"));
}

TEST(ConfigEncodings, BadNumbersAreRefused) {
  EXPECT_THAT(
      Faults(Encoding("biases: [{alibi: {slopes: [-1]}}]")),
      HasSubstr("a.yaml:4: encodings[0].biases[0].alibi.slopes[0]: -1"));
  EXPECT_THAT(Faults(Encoding("biases: [{alibi: {slopes: [.nan]}}]")),
              HasSubstr("encodings[0].biases[0].alibi.slopes[0]"));
  EXPECT_THAT(Faults(Encoding("blocks: [{rotary: {base: -1, pair_layout: "
                              "half_split}}]")),
              HasSubstr("encodings[0].blocks[0].rotary.base"));
  EXPECT_THAT(Faults(Encoding("blocks: [{rotary: {rotary_dim: 3, pair_layout: "
                              "half_split}}]")),
              HasSubstr("encodings[0].blocks[0].rotary.rotary_dim"));
  EXPECT_THAT(Faults(Encoding("blocks: [{rotation: {periods: [0], pair_layout: "
                              "half_split}}]")),
              HasSubstr("encodings[0].blocks[0].rotation.periods[0]"));
  EXPECT_THAT(Faults(Encoding("blocks: [{dense: {dim: 2, matrix: [.nan, 0, 0, "
                              "-1]}}]")),
              HasSubstr("encodings[0].blocks[0].dense.matrix[0]"));
}

TEST(ConfigEncodings, TheLayoutIsNeverGuessed) {
  EXPECT_THAT(Faults(Encoding("blocks: [{rotary: {}}]")),
              HasSubstr("rotary.pair_layout: required"));
  EXPECT_THAT(
      Faults(Encoding("preset: {selective_rope: {}}")),
      HasSubstr("encodings[0].preset.selective_rope.pair_layout: required"));
  // These were published with one.
  EXPECT_TRUE(Parse(Encoding("preset: {xpos: {}}")).ok());
  EXPECT_TRUE(Parse(Encoding("preset: {retnet: {}}")).ok());
}

// Blocks of models as their config.json has them, new and old keys.
TEST(ConfigEncodings, HuggingFaceBlocksLoadVerbatim) {
  const std::string blocks[] = {
      R"({"rope_type": "default", "rope_theta": 10000.0})",
      R"({"rope_type": "default", "rope_theta": 10000, "partial_rotary_factor": 0.5})",
      R"({"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0})",
      R"({"type": "linear", "factor": 2.5})",
      R"({"type": "dynamic", "factor": 2.0, "max_position_embeddings": 2048})",
      R"({"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0,
          "max_position_embeddings": 2048})",
      R"({"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 4.0,
          "original_max_position_embeddings": 32768})",
      R"({"type": "yarn", "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
          "beta_fast": 32, "beta_slow": 1,
          "original_max_position_embeddings": 4096})",
      R"({"rope_type": "yarn", "rope_theta": 150000, "factor": 32.0,
          "beta_fast": 32.0, "beta_slow": 1.0, "truncate": false,
          "original_max_position_embeddings": 4096})",
      R"({"type": "longrope", "short_factor": [1, 1.5], "long_factor": [2, 8],
          "original_max_position_embeddings": 4096, "factor": 32.0})",
      R"({"type": "su", "short_factor": [1, 1.5], "long_factor": [2, 8],
          "original_max_position_embeddings": 4096,
          "max_position_embeddings": 131072})",
      R"({"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0,
          "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192})",
      R"({"rope_type": "proportional", "rope_theta": 1000000.0,
          "partial_rotary_factor": 0.25})",
      R"({"type": "mrope", "mrope_section": [16, 24, 24]})",
      R"({"rope_type": "default", "rope_theta": 5000000,
          "mrope_section": [24, 20, 20], "mrope_interleaved": true})",
      R"({"interleaved": true, "mrope_interleaved": true,
          "mrope_section": [24, 20, 20], "rope_type": "default",
          "type": "default"})",
      R"({"interleaved": true, "mrope_section": [24, 20, 20],
          "rope_type": "default", "type": "default"})",
      R"({"factor": 16.0, "high_freq_factor": 1.0, "low_freq_factor": 1.0,
          "original_max_position_embeddings": 8192, "rope_type": "llama3"})",
      R"({"beta_fast": 32.0, "beta_slow": 1.0, "factor": 16.0,
          "llama_4_scaling_beta": 0.1, "mscale": 1.0, "mscale_all_dim": 1.0,
          "original_max_position_embeddings": 16384, "rope_theta": 1000000.0,
          "rope_type": "yarn", "type": "yarn"})",
      R"({"type": "longrope", "short_factor": [1, 1.5], "long_factor": [2, 8],
          "long_mscale": 1.243163121016122, "short_mscale": 1.243163121016122,
          "original_max_position_embeddings": 4096})",
      R"({"type": "yarn", "factor": 16.0, "finetuned": true,
          "original_max_position_embeddings": 4096})",
      "null",
  };
  for (const std::string& block : blocks) {
    for (const char* key : {"rope_parameters", "rope_scaling"}) {
      const auto config = Parse(absl::StrCat(
          "encodings: [{name: a, time_unit: position, blocks: [{rotary: {", key,
          ": ", block, "}}]}]"));
      EXPECT_TRUE(config.ok()) << block << ": " << config.status();
    }
  }
  EXPECT_THAT(
      Faults("encodings:\n  - name: a\n    time_unit: position\n    blocks:\n"
             "      - rotary:\n          rope_parameters:\n"
             "            rope_type: yarn\n            factor: 4\n"
             "            beta_quick: 32\n"),
      AllOf(HasSubstr("a.yaml:9"),
            HasSubstr(
                "encodings[0].blocks[0].rotary.rope_parameters.beta_quick")));
}

// What people write when they see the format for the first time: the line, the
// path, and what to do about it.
TEST(ConfigEncodings, MistakesOfNewcomersAreExplained) {
  const auto rope = [](const std::string& block) {
    return absl::StrCat(
        "encodings:\n  - name: a\n    time_unit: position\n    blocks:\n"
        "      - rotary:\n          rope_parameters:\n            ",
        block, "\n");
  };
  const std::string at = "encodings[0].blocks[0].rotary.rope_parameters";
  const struct {
    std::string text, fault;
  } mistakes[] = {
      // Indentation and empty values.
      {"encodings:\n\t- name: a\n",
       "a.yaml:2: (syntax): illegal block entry; this line is indented with a "
       "tab, YAML takes spaces"},
      {Encoding("biases:\n      - alibi:"),
       "a.yaml:5: encodings[0].biases[0].alibi: no value; give one, or leave "
       "the key out ({}: defaults)"},
      {Encoding("biases: [{}]"),
       "a.yaml:4: encodings[0].biases[0]: names no kind of bias: expected one "
       "of alibi, cumulative_gate"},
      {Encoding("blocks:"),
       "a.yaml:4: encodings[0].blocks: no value; give one, or leave the key "
       "out ([]: none)"},
      {Encoding("blocks: [{rotary: {pair_layout: half_split, base: }}]"),
       "a.yaml:4: encodings[0].blocks[0].rotary.base: no value; give one, or "
       "leave the key out"},
      {Encoding("blocks:\n      - rotary:\n        pair_layout: half_split"),
       "a.yaml:5: encodings[0].blocks[0]: names no kind of block: expected one "
       "of identity, rotary"},
      {Encoding("blocks:\n      - rotary:\n        pair_layout: half_split"),
       "a.yaml:6: encodings[0].blocks[0].pair_layout: unknown key"},
      {Encoding("preset: {}"),
       "a.yaml:4: encodings[0].preset: names no kind of preset: expected one "
       "of xpos, retnet"},
      {Encoding("blocks: {rotary: {pair_layout: half_split}}"),
       "a.yaml:4: encodings[0].blocks: expected a list, found a mapping"},
      // Words and numbers.
      {Encoding("blocks: [{rotary: {pair_layout: halfsplit}}]"),
       "a.yaml:4: encodings[0].blocks[0].rotary.pair_layout: \"halfsplit\", "
       "expected one of half_split, interleaved"},
      {Encoding("blocks: [{component_decay: {rates: 0.5}}]"),
       "a.yaml:4: encodings[0].blocks[0].component_decay.rates: expected a "
       "list, found a single value"},
      {"encodings:\n  - name: a\n    time_unit: 60\n    biases: [{alibi: "
       "{}}]\n",
       "a.yaml:3: encodings[0].time_unit: time unit \"60\": no unit; expected"},
      {Encoding("blocks: [{rotary: {pair_layout: half_split, linear: {}}}]"),
       "a.yaml:4: encodings[0].blocks[0].rotary.linear.factor: left out, "
       "expected finite and > 0"},
      {Encoding("blocks: [{rotary: {pair_layout: half_split, linear: {factor: "
                "0}}}]"),
       "a.yaml:4: encodings[0].blocks[0].rotary.linear.factor: 0, expected "
       "finite and > 0"},
      // Lists of the wrong length.
      {Encoding("biases: [{t5_buckets: {buckets: 8, table: [1, 2, 3]}}]"),
       "t5_buckets.table: 3 entries, expected a multiple of 8 (buckets)"},
      {Encoding("blocks: [{dense: {dim: 3, matrix: [1, 2]}}]"),
       "dense.matrix: 2 entries, expected 9 (dim * dim)"},
      {Encoding("basis: {dim: 4, cayley: [1, 2]}"),
       "encodings[0].basis.cayley: 2 entries, expected 6"},
      // Blocks of models.
      {rope("rope_type: yarn\n            original_max_position_embeddings: 9"),
       absl::StrCat("a.yaml:6: ", at, ".factor: missing, expected a number")},
      {rope("rope_type: yarn\n            factor: 4"),
       absl::StrCat("a.yaml:6: ", at,
                    ".original_max_position_embeddings: missing, expected the "
                    "length before scaling")},
      {rope("rope_type: yarn\n            factor: 0.5\n            "
            "original_max_position_embeddings: 9"),
       absl::StrCat("a.yaml:8: ", at, ".factor: 0.5")},
      {rope("rope_type: dynamic\n            factor: 2"),
       absl::StrCat("a.yaml:6: ", at, ".max_position_embeddings: missing")},
      {rope("{rope_type: longrope, factor: 2, short_factor: [1, 1], "
            "long_factor: [1], original_max_position_embeddings: 9}"),
       absl::StrCat("a.yaml:7: ", at,
                    ".long_factor: 1 entries, expected 2 (as many as "
                    "short_factor)")},
      {rope("{rope_type: llama3, factor: 8, low_freq_factor: 4, "
            "high_freq_factor: 3, original_max_position_embeddings: 9}"),
       absl::StrCat("a.yaml:7: ", at,
                    ".high_freq_factor: 3, expected >= low_freq_factor, 4")},
      {rope("factor: 2"), absl::StrCat("a.yaml:6: ", at,
                                       ".rope_type: missing, expected one of "
                                       "default, linear, dynamic, yarn")},
      {rope("rope_type: linear\n            factor: 2\n            beta_fast: "
            "1"),
       absl::StrCat("a.yaml:9: ", at, ".beta_fast: given, expected only what")},
      {rope("full_attention: {rope_type: default, rope_theta: 1e6}"),
       absl::StrCat("a.yaml:7: ", at,
                    ".full_attention: unknown key; what it "
                    "holds belongs directly here")},
  };
  for (const auto& mistake : mistakes) {
    EXPECT_THAT(Faults(mistake.text), HasSubstr(mistake.fault)) << mistake.text;
  }
}

// Ministral's: the encoding gets the query temperature that its block means.
TEST(ConfigEncodings, RopeMayBringAQueryTemperature) {
  const auto text = [](const std::string& rest) {
    return absl::StrCat(
        "encodings:\n  - name: a\n    time_unit: position\n    blocks:\n"
        "      - rotary: {rope_parameters: {rope_theta: 1e6, "
        "llama_4_scaling_beta: 0.1,\n"
        "          original_max_position_embeddings: 16384}}\n",
        rest);
  };
  const std::string given =
      "    query_temperature: {form: llama4, length: 16384, scale: 0.1";
  for (const std::string& rest : {std::string(), given + "}\n"}) {
    const auto config = Parse(text(rest));
    ASSERT_TRUE(config.ok()) << config.status();
    Violations violations;
    const NamedEncoding read =
        ReadEncoding(config->effective.encodings(0), "", violations);
    ASSERT_TRUE(read.spec.temperature.has_value());
    EXPECT_EQ(read.spec.temperature->scale, 0.1);
    EXPECT_EQ(read.spec.temperature->length, 16384);
    EXPECT_EQ(read.definition.query_temperature().scale(), 0.1);
    // What is shown may be sent back.
    Violations again;
    ReadEncoding(read.definition, "", again);
    EXPECT_TRUE(again.empty()) << again.ToStatus();
  }
  EXPECT_THAT(
      Faults(text(given + ", offset: 1}\n")),
      HasSubstr("a.yaml:5: encodings[0].blocks[0].rotary.rope_parameters."
                "llama_4_scaling_beta: asks for the query temperature llama4 "
                "of scale 0.1 and length 16384, and "
                "encodings[0].query_temperature for another; leave one"));
}

TEST(ConfigEncodings, AmplitudesThatLeaveTheRangeAreRefused) {
  for (const char* given : {"attention_factor: 1e30", "attention_factor: 1e-30",
                            "mscale: 1e30, mscale_all_dim: 1"}) {
    EXPECT_THAT(
        Faults(Encoding(absl::StrCat(
            "blocks: [{rotary: {pair_layout: half_split, yarn: {factor: 8, "
            "original_length: 64, ",
            given, "}}}]"))),
        HasSubstr("a.yaml:4: encodings[0].blocks[0].rotary: an amplitude of"))
        << given;
  }
  EXPECT_THAT(Faults(Encoding(
                  "blocks: [{rotary: {pair_layout: half_split, yarn: {factor: "
                  "8, original_length: 64, mscale: -5, mscale_all_dim: 1}}}]")),
              HasSubstr("a.yaml:4: encodings[0].blocks[0].rotary.yarn.mscale: "
                        "-5, expected finite and >= 0"));
}

TEST(ConfigEncodings, QueryTemperaturesInUnitsNeedOne) {
  EXPECT_THAT(Faults("encodings:\n  - name: a\n    query_temperature: {form: "
                     "llama4}\n"),
              HasSubstr("a.yaml:2: encodings[0].time_unit: required"));
  EXPECT_TRUE(
      Parse("encodings: [{name: a, query_temperature: {form: log_length}}]")
          .ok());
}

// One fault is one line.
TEST(ConfigEncodings, ABadEntryOfAListIsToldOnce) {
  for (const char* text :
       {"biases: [{t5_buckets: {buckets: 4, table: [0, .nan, 0, 0]}}]",
        "biases: [{lag_table: {lags: [1, .nan, 3], values: [0, 0, 0]}}]",
        "basis: {dim: 2, matrix: [1, .inf, 0, 1]}\n    blocks: [{rotary: "
        "{pair_layout: half_split}}]",
        "blocks: [{rotation: {periods: [3, x], pair_layout: half_split}}]"}) {
    const std::string faults = Faults(Encoding(text));
    EXPECT_THAT(faults, HasSubstr("[1]: \""));
    EXPECT_EQ(std::count(faults.begin(), faults.end(), '\n'), 0) << faults;
  }
}

TEST(ConfigEncodings, OneKindPerBlock) {
  EXPECT_THAT(Faults(Encoding("blocks: [{identity: {width: 2}, rotary: {}}]")),
              HasSubstr("encodings[0].blocks[0].rotary: excludes identity"));
  EXPECT_THAT(Faults(Encoding("blocks: [{}]")),
              HasSubstr("names no kind of block"));
  EXPECT_THAT(Faults(Encoding("blocks: [{rotation: {frequencies: [1], periods: "
                              "[1], pair_layout: half_split}}]")),
              HasSubstr("exactly one of"));
}

TEST(ConfigEncodings, WrongPartsAreNamed) {
  for (const auto& [text, field] :
       std::initializer_list<std::pair<const char*, const char*>>{
           {"blocks: [{identity: {width: 1}}]\n    per_head: [{}]", "per_head"},
           {"absolutes: [{sinusoidal: {}}]", "absolutes[0].sinusoidal.order"},
           {"basis: {dim: 2}", "basis"},
           {"query_temperature: {}", "query_temperature.form"},
           {"coordinate_units: [fortnight]", "coordinate_units[0]"},
           {"blocks: [{component_decay: {rates: [-1]}}]",
            "blocks[0].component_decay"},
           {"blocks: [{damped_rotation: {frequencies: [1], rates: [1]}}]",
            "blocks[0].damped_rotation.pair_layout"},
           {"blocks: [{real_jordan: {size: 9, rates: [1]}}]",
            "blocks[0].real_jordan"},
           {"blocks: [{dense: {dim: 2, matrix: [1, 0, 0, 1]}}]",
            "blocks[0].dense"},
           {"blocks: [{identity: {width: 1}, coordinate: -1}]",
            "blocks[0].coordinate"},
           {"blocks: [{rotary: {rope_scaling: {type: yarnn}}}]",
            "blocks[0].rotary.rope_scaling"},
           {"blocks: [{rotary: {axes: {sections: [1]}, pair_layout: "
            "half_split}}]",
            "blocks[0].rotary.axes.order"},
           {"biases: [{kerple: {}}]", "biases[0].kerple.form"},
           {"biases: [{lag_table: {lags: [1, 0], values: [0, 0]}}]",
            "biases[0].lag_table"},
       }) {
    EXPECT_THAT(Faults(Encoding(text)),
                HasSubstr(absl::StrCat("encodings[0].", field)))
        << text;
  }
}

TEST(ConfigEncodings, SlopesForAnOddNumberOfHeadsLoad) {
  EXPECT_TRUE(
      Parse(Encoding("biases: [{alibi: {slopes: [1, 2, 3, 4, 5, 6, 7]}}]"))
          .ok());
  EXPECT_TRUE(Parse(Encoding("blocks: [{identity: {width: 3}}, {rotary: "
                             "{pair_layout: half_split}}]"))
                  .ok());
}

}  // namespace
}  // namespace attnd::server
