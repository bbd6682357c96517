// The examples that are shipped load, and show every kind of encoding.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "server/config.h"
#include "server/encodings.h"
#include "tests/server/config_texts.h"

namespace attnd::server {
namespace {

using ::attnd::testing::kMachine;
using ::testing::HasSubstr;

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

}  // namespace
}  // namespace attnd::server
