// Configuration as a whole: defaults, kinds of values, faults, text and hash.
#include "server/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tests/server/config_texts.h"

namespace attnd::server {
namespace {

using ::attnd::testing::Faults;
using ::attnd::testing::kMachine;
using ::attnd::testing::Parse;
using ::testing::AllOf;
using ::testing::HasSubstr;

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

// As protobuf's strings; too long, a surrogate, beyond the last character, cut.
TEST(Config, TextsAreUtf8) {
  for (const char* bytes : {"\x80", "\xC0\x80", "\xE0\x9F\xBF", "\xED\xA0\x80",
                            "\xF4\x90\x80\x80", "\xF0\x9F\x8E", "\xFF"}) {
    EXPECT_THAT(
        Faults(absl::StrCat("listeners: [{address: '", bytes, ":1'}]\n")),
        HasSubstr("a.yaml:1: listeners[0].address"))
        << absl::CHexEscape(bytes);
  }
  EXPECT_TRUE(
      Parse("security: {bearer_token_file: /\u00e9/\U0001F389}\n").ok());
}

TEST(Config, OtherEncodingsOfTextAreRefused) {
  const std::string text = "workers: 1\nlog: {level: info}\n";
  std::string little, big;
  for (char c : text) {
    little += {c, '\0'};
    big += {'\0', c};
  }
  for (const std::string& utf16 :
       {little, big, "\xFF\xFE" + little, "\xFE\xFF" + big}) {
    EXPECT_THAT(Faults(utf16), HasSubstr("a.yaml:1: (syntax): a zero byte, as "
                                         "UTF-16 has, expected UTF-8"));
  }
  EXPECT_TRUE(Parse("\xEF\xBB\xBF" + text).ok());
}

TEST(Config, TruthIsWrittenAsInYaml) {
  for (const char* word : {"true", "True", "TRUE"}) {
    const auto config =
        Parse(absl::StrCat("verification: {skip_self_test: ", word, "}"));
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_TRUE(config->effective.verification().skip_self_test());
  }
  for (const char* word : {"false", "False", "FALSE"}) {
    EXPECT_TRUE(
        Parse(absl::StrCat("verification: {skip_self_test: ", word, "}")).ok());
  }
  EXPECT_THAT(Faults("verification: {skip_self_test: tRUE}"),
              HasSubstr("expected true or false"));
}

TEST(Config, WhatYamlHasAndWeDoNotIsSaid) {
  EXPECT_THAT(Faults("log: {<<: {level: info}}\n"),
              HasSubstr("a.yaml:1: log.<<: merge keys are not supported; write "
                        "the keys out"));
  EXPECT_THAT(Faults("encodings: " + std::string(10000, '[')),
              HasSubstr("lists and mappings inside each other, deeper than"));
}

TEST(Config, SyntaxErrorsHaveALine) {
  EXPECT_THAT(Faults("workers: 1\n  drain: {\n"), HasSubstr("a.yaml:2:"));
}

TEST(Config, TextBesideOneDocumentIsRefused) {
  for (const char* text :
       {"workers: 1\n---\nworkers: 2\n", ", workers: 1\n", "] workers: 1\n",
        "}\n", "workers: 1\n...\n, {}\n", ",", "- 1\n]\n"}) {
    EXPECT_NE(Faults(text), "") << text;
  }
  EXPECT_TRUE(Parse("---\nworkers: 1\n...\n").ok());
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
  for (const char* age : {"-1", "1e-09", "0.5", "1e+07"}) {
    EXPECT_THAT(
        Faults(absl::StrCat("transport: {connection_age_seconds: ", age, "}")),
        HasSubstr(absl::StrCat("transport.connection_age_seconds: ", age,
                               ", expected 1 to 1e6")));
  }
}

TEST(Config, AddressesAreChecked) {
  EXPECT_THAT(Faults("listeners: [{address: localhost}]"),
              HasSubstr("listeners[0].address"));
  EXPECT_THAT(Faults("listeners: [{address: 'h:70000'}]"),
              HasSubstr("listeners[0].address"));
  EXPECT_THAT(Faults("admin: {address: nowhere}"), HasSubstr("admin.address"));
  for (const char* address :
       {"127.0.0.1: 5", " 127.0.0.1:5", "127.0.0.1 :5", "127.0.0.1:5 ", "h:+5",
        "h:-0", "h:", ":5", "h:5x", "h\\t:5", "h:65536", "h:4294967301"}) {
    const std::string quoted = absl::StrCat("\"", address, "\"");
    for (const auto& [before, after] :
         {std::pair("listeners: [{address: ", "}]"),
          {"admin: {address: ", "}"},
          {"listeners: [{address: 'a:1', tls: {certificate_file: c, key_file: "
           "k, health_address: ",
           "}}]"}}) {
      EXPECT_THAT(Faults(absl::StrCat(before, quoted, after)),
                  AllOf(HasSubstr("address: \""),
                        HasSubstr("\", expected \"host:port\"")))
          << quoted;
    }
  }
  EXPECT_THAT(Faults("admin: {address: 'unix:5'}"), HasSubstr("admin.address"));
  for (const char* address :
       {"[::1]:0", "0.0.0.0:65535", "a-name.example:050", "unix:5"}) {
    EXPECT_TRUE(
        Parse(absl::StrCat("listeners: [{address: '", address, "'}]")).ok())
        << address;
  }
  EXPECT_TRUE(Parse("admin: {address: 'off'}").ok());
}

TEST(Config, PathsOfUnixSocketsAreChecked) {
  const auto listener = [](const std::string& address) {
    return absl::StrCat("listeners: [{address: \"", address, "\"}]");
  };
  EXPECT_THAT(Faults(listener("unix:")),
              HasSubstr("listeners[0].address: \"unix:\": no path, expected "
                        "\"unix:/path\", a path of 1 to 107 bytes"));
  EXPECT_THAT(Faults(listener("unix:/" + std::string(107, 'x'))),
              HasSubstr("a path of 108 bytes, expected"));
  EXPECT_TRUE(Parse(listener("unix:/" + std::string(106, 'x'))).ok());
  EXPECT_THAT(Faults(listener("unix:/a\\0b")), HasSubstr("a zero byte"));
}

TEST(Config, ModesOfUnixSocketsAreChecked) {
  const auto listener = [](const char* address, const char* mode) {
    return absl::StrCat("listeners: [{address: '", address, "', unix_mode: '",
                        mode, "'}]");
  };
  for (const char* mode :
       {"1000", "7777", "0o660", "8", "rw", "-1", "777777777777777777777777"}) {
    EXPECT_THAT(Faults(listener("unix:/s", mode)),
                HasSubstr(absl::StrCat("listeners[0].unix_mode: \"", mode,
                                       "\", expected octal digits up to "
                                       "\"0777\"")));
  }
  EXPECT_THAT(Faults(listener("h:1", "0660")),
              HasSubstr("listeners[0].unix_mode: \"0660\", expected none: "
                        "\"h:1\" is no \"unix:/path\""));
  for (const char* mode : {"0777", "777", "0", "00600"}) {
    EXPECT_TRUE(Parse(listener("unix:/s", mode)).ok()) << mode;
  }
  EXPECT_EQ(Parse("listeners: [{address: 'unix:/s'}]")
                ->effective.listeners(0)
                .unix_mode(),
            "0660");
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

// Linear: quadratic took 20 s and more.
TEST(Config, VeryManyFaultsAreToldSoon) {
  std::string keys, entries = "encodings:\n";
  for (int i = 0; i < 100'000; ++i) absl::StrAppend(&keys, "key", i, ": 1\n");
  for (int i = 0; i < 3'000; ++i) {
    absl::StrAppend(&entries,
                    "  - {blocks: [{rotation: {frequencies: [x, x, x]}}], bad",
                    i, ": 1}\n");
  }
  for (const std::string& text : {keys, entries}) {
    const auto start = std::chrono::steady_clock::now();
    const std::string faults = Faults(text);
    EXPECT_LT(std::chrono::steady_clock::now() - start,
              std::chrono::seconds(10));
    EXPECT_EQ(std::count(faults.begin(), faults.end(), '\n'), 20);
    EXPECT_THAT(faults, HasSubstr(" more"));
  }
}

TEST(Config, AMissingFileSaysSo) {
  const auto config = LoadConfig("/nonexistent/attnd.yaml", kMachine);
  EXPECT_EQ(config.status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(LoadConfig("/", kMachine).ok());
}

}  // namespace
}  // namespace attnd::server
