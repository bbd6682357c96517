#include "server/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "server/encodings.h"

namespace attnd::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr Machine kMachine = {.affinity_cpus = 3,
                              .quota_cpus = 2.0,
                              .memory_limit_bytes = int64_t{4} << 30,
                              .memory_bytes = int64_t{64} << 30};

absl::StatusOr<Config> Parse(const std::string& text) {
  return ParseConfig(text, "a.yaml", kMachine);
}

std::string Faults(const std::string& text) {
  const auto config = Parse(text);
  EXPECT_FALSE(config.ok()) << "accepted:\n" << text;
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(config.status().message());
}

TEST(Config, EmptyFileMeansAllDefaults) {
  const auto config = Parse("");
  ASSERT_TRUE(config.ok()) << config.status();
  const v1::ServerConfig& c = config->effective;
  EXPECT_EQ(c.listeners(0).address(), "0.0.0.0:50051");
  EXPECT_EQ(c.admin().address(), "0.0.0.0:9464");
  EXPECT_EQ(c.workers(), 2);
  EXPECT_EQ(c.limits().message_bytes(), 134217728);
  EXPECT_EQ(c.limits().queue_bytes(), int64_t{1} << 30);
  EXPECT_EQ(c.limits().queue_worker_seconds(), 2);
  EXPECT_EQ(c.limits().request_worker_seconds(), 60);
  EXPECT_EQ(c.limits().batch(), 65536);
  EXPECT_EQ(c.limits().rows(), 4194304);
  EXPECT_EQ(c.limits().heads(), 1024);
  EXPECT_EQ(c.limits().dim(), 1024);
  EXPECT_EQ(c.limits().stream_inflight(), 16);
  EXPECT_EQ(c.limits().streams_per_connection(), 32);
  EXPECT_EQ(c.limits().deadline_seconds(), 300);
  EXPECT_EQ(c.limits().queue_requests(), 4096);
  EXPECT_EQ(c.transport().connection_age_seconds(), 20);
  EXPECT_EQ(c.drain().delay_seconds(), 5);
  EXPECT_EQ(c.drain().grace_seconds(), 30);
  EXPECT_EQ(c.log().access_lines_per_second(), 100);
  EXPECT_FALSE(c.inline_encodings().allowed());
}

TEST(Config, ReadsEveryKindOfValue) {
  const auto config = Parse(R"(
listeners:
  - address: 127.0.0.1:0
  - {address: "unix:/tmp/a.sock", unix_mode: "0600"}
workers: 7
limits: {message_bytes: 1048576, deadline_seconds: 1.5}
drain: {delay_seconds: 0}
log: {format: text, level: LEVEL_DEBUG}
verification: {skip_self_test: true}
encodings:
  - name: seasons
    time_unit: 1d
    two_sided: absolute_lag
    blocks:
      - rotation: {pair_layout: interleaved, periods: [365.25, -7]}
    biases:
      - alibi: {slopes: [0.01], two_sided: true}
)");
  ASSERT_TRUE(config.ok()) << config.status();
  const v1::ServerConfig& c = config->effective;
  EXPECT_EQ(c.listeners_size(), 2);
  EXPECT_EQ(c.workers(), 7);
  EXPECT_EQ(c.limits().deadline_seconds(), 1.5);
  EXPECT_EQ(c.drain().delay_seconds(), 0);
  EXPECT_EQ(c.log().format(), v1::Log::FORMAT_TEXT);
  EXPECT_EQ(c.log().level(), v1::Log::LEVEL_DEBUG);
  EXPECT_TRUE(c.verification().skip_self_test());
  const v1::Encoding& encoding = c.encodings(0);
  EXPECT_EQ(encoding.two_sided(), v1::TWO_SIDED_RULE_ABSOLUTE_LAG);
  EXPECT_EQ(encoding.blocks(0).rotation().periods(1), -7);
}

TEST(Config, UnknownKeysAreRefusedWithLineAndSuggestion) {
  EXPECT_THAT(Faults("workers: 1\nlistners: []\n"),
              AllOf(HasSubstr("a.yaml:2: listners: unknown key"),
                    HasSubstr("did you mean listeners?")));
  EXPECT_THAT(Faults(R"(encodings:
  - name: rope
    time_unit: 1s
    blocks:
      - rotary:
          pair_layout: half_split
          atention_factor: 1.0
)"),
              HasSubstr("a.yaml:7: "
                        "encodings[0].blocks[0].rotary.atention_factor"));
}

TEST(Config, TypeErrorsHavePathAndLine) {
  const std::string faults = Faults(R"(workers: many
drain:
  delay_seconds: [1]
limits: 5
verification: {skip_self_test: yes}
log: {level: loud}
encodings:
  name: rope
)");
  EXPECT_THAT(faults, AllOf(HasSubstr("a.yaml:1: workers: \"many\""),
                            HasSubstr("a.yaml:3: drain.delay_seconds"),
                            HasSubstr("a.yaml:4: limits: expected a mapping"),
                            HasSubstr("a.yaml:5: verification.skip_self_test"),
                            HasSubstr("a.yaml:6: log.level: \"loud\", expected "
                                      "one of debug, info"),
                            HasSubstr("a.yaml:7: encodings: expected a list")));
}

TEST(Config, SyntaxErrorsHaveALine) {
  EXPECT_THAT(Faults("workers: 1\n  drain: {\n"), HasSubstr("a.yaml:2:"));
}

TEST(Config, KeysGivenTwiceAreRefused) {
  EXPECT_THAT(Faults("workers: 1\nworkers: 2\n"),
              HasSubstr("a.yaml:2: workers: given twice"));
  EXPECT_THAT(Faults("workers: 1\n---\nworkers: 2\n"),
              HasSubstr("several YAML documents"));
}

TEST(Config, LimitsAreChecked) {
  EXPECT_THAT(Faults("limits: {message_bytes: 4294967296}"),
              HasSubstr("limits.message_bytes"));
  EXPECT_THAT(
      Faults("limits: {rows: -1, deadline_seconds: .inf}"),
      AllOf(HasSubstr("limits.rows"), HasSubstr("limits.deadline_seconds")));
  EXPECT_THAT(Faults("workers: -2"), HasSubstr("workers"));
  EXPECT_THAT(Faults("drain: {grace_seconds: -1}"),
              HasSubstr("drain.grace_seconds"));
  EXPECT_THAT(Faults("transport: {connection_age_seconds: -1}"),
              HasSubstr("transport.connection_age_seconds"));
}

TEST(Config, AddressesAreChecked) {
  EXPECT_THAT(Faults("listeners: [{address: localhost}]"),
              HasSubstr("listeners[0].address"));
  EXPECT_THAT(Faults("listeners: [{address: 'h:70000'}]"),
              HasSubstr("listeners[0].address"));
  EXPECT_THAT(Faults("admin: {address: nowhere}"), HasSubstr("admin.address"));
  EXPECT_TRUE(Parse("admin: {address: 'off'}").ok());
}

TEST(Config, TlsNeedsCertificateAndKey) {
  EXPECT_THAT(Faults("listeners: [{address: 'a:1', tls: {health_address: b}}]"),
              AllOf(HasSubstr("listeners[0].tls.certificate_file: required"),
                    HasSubstr("listeners[0].tls.key_file: required"),
                    HasSubstr("listeners[0].tls.health_address")));
}

TEST(Config, AShadowCheckIsOneInSoMany) {
  EXPECT_TRUE(Parse("verification: {shadow_one_in: 10}").ok());
  EXPECT_THAT(Faults("verification: {shadow_one_in: -1}"),
              HasSubstr("verification.shadow_one_in: expected >= 0"));
}

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

std::string Encoding(const std::string& rest) {
  return absl::StrCat("encodings:\n  - name: a\n    time_unit: 1s\n    ", rest,
                      "\n");
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
            "high_freq_factor: 4, original_max_position_embeddings: 9}"),
       absl::StrCat("a.yaml:7: ", at,
                    ".high_freq_factor: 4, expected > low_freq_factor, 4")},
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

TEST(Config, TextOfTheEffectiveConfigurationLoadsAsTheSame) {
  const auto config = Parse(R"(
workers: 2
encodings:
  - name: rope
    time_unit: 1s
    blocks: [{rotary: {base: 1000, pair_layout: half_split}}]
)");
  ASSERT_TRUE(config.ok()) << config.status();
  const auto again = Parse(ConfigText(*config));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->hash, config->hash);
  EXPECT_EQ(config->hash.size(), 64u);
}

TEST(Config, TheHashFollowsTheMeaning) {
  EXPECT_EQ(Parse("workers: 2")->hash, Parse("{\"workers\": 2}")->hash);
  EXPECT_NE(Parse("workers: 2")->hash, Parse("workers: 3")->hash);
}

TEST(Config, ManyFaultsAreCounted) {
  std::string text = "encodings:\n";
  for (int i = 0; i < 100; ++i) absl::StrAppend(&text, "  - {bad: 1}\n");
  const std::string faults = Faults(text);
  EXPECT_THAT(faults, HasSubstr("... and 180 more"));
}

// Tests run in the root of the repository.
TEST(Config, TheExampleLoads) {
  const auto config = LoadConfig("deploy/attnd.yaml", kMachine);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->effective.encodings_size(), 4);
}

TEST(Config, EveryFamilyOfTheExampleLoadsAndResolves) {
  const auto config = LoadConfig("deploy/encodings.yaml", kMachine);
  ASSERT_TRUE(config.ok()) << config.status();
  const EncodingCatalog catalog(config->effective.encodings(), 1);
  for (const NamedEncoding& encoding : catalog.encodings()) {
    const auto resolved = Resolve(encoding, NominalSizes(encoding.spec));
    EXPECT_TRUE(resolved.ok()) << encoding.name << ": " << resolved.status();
  }
}

// Fields of a message that are set somewhere in the example, below any depth.
void Collect(const google::protobuf::Message& message,
             std::set<std::string>& seen) {
  const auto* reflection = message.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const auto* field : fields) {
    seen.insert(field->full_name());
    if (field->message_type() == nullptr) continue;
    if (!field->is_repeated()) {
      Collect(reflection->GetMessage(message, field), seen);
      continue;
    }
    for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
      Collect(reflection->GetRepeatedMessage(message, field, i), seen);
    }
  }
}

// Whatever kind of block, scaling, bias, absolute part or preset the contract
// has, the example shows it.
TEST(Config, TheExampleShowsEveryKind) {
  const auto config = LoadConfig("deploy/encodings.yaml", kMachine);
  ASSERT_TRUE(config.ok()) << config.status();
  std::set<std::string> seen;
  for (const v1::Encoding& encoding : config->effective.encodings()) {
    Collect(encoding, seen);
  }
  for (const auto* kinds : {v1::Block::descriptor(), v1::Rotary::descriptor(),
                            v1::Bias::descriptor(), v1::Absolute::descriptor(),
                            v1::Preset::descriptor()}) {
    const auto* choice = kinds->oneof_decl(0);
    for (int i = 0; i < choice->field_count(); ++i) {
      EXPECT_TRUE(seen.contains(choice->field(i)->full_name()))
          << choice->field(i)->full_name();
    }
  }
  for (const char* option :
       {"attnd.v1.Block.averaged", "attnd.v1.Block.clock",
        "attnd.v1.Block.clock_channel", "attnd.v1.Encoding.per_head",
        "attnd.v1.Encoding.basis", "attnd.v1.Encoding.query_temperature",
        "attnd.v1.Encoding.two_sided", "attnd.v1.Encoding.coordinate_units"}) {
    EXPECT_TRUE(seen.contains(option)) << option;
  }
  for (const char* form :
       {"ORDER_CONTIGUOUS", "ORDER_AXIAL", "mrope_interleaved",
        "ORDER_ENDPOINTS", "RAMP_PAPER", "VARIANT_SCALED", "FORM_THP",
        "FORM_SAHP", "FORM_LOG", "FORM_POWER"}) {
    EXPECT_THAT(config->effective.DebugString(), HasSubstr(form));
  }
}

TEST(Config, AMissingFileSaysSo) {
  const auto config = LoadConfig("/nonexistent/attnd.yaml", kMachine);
  EXPECT_EQ(config.status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(LoadConfig("/", kMachine).ok());
}

}  // namespace
}  // namespace attnd::server
