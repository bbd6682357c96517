// What `attnctl encodings show` prints: no number of an encoding is dropped.
#include "client/attnctl/encodings_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace attnd::client {
namespace {

using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Every field set, lists to two entries.
void Fill(Message& message) {
  const auto* access = message.GetReflection();
  const auto* type = message.GetDescriptor();
  for (int f = 0; f < type->field_count(); ++f) {
    const FieldDescriptor* field = type->field(f);
    for (int n = 0; n < (field->is_repeated() ? 2 : 1); ++n) {
      const double number = field->number() + 0.25;
      switch (field->cpp_type()) {
        case FieldDescriptor::CPPTYPE_DOUBLE:
          field->is_repeated() ? access->AddDouble(&message, field, number)
                               : access->SetDouble(&message, field, number);
          break;
        case FieldDescriptor::CPPTYPE_FLOAT:
          access->AddFloat(&message, field, static_cast<float>(number));
          break;
        case FieldDescriptor::CPPTYPE_INT32:
          access->SetInt32(&message, field, 3);
          break;
        case FieldDescriptor::CPPTYPE_BOOL:
          access->SetBool(&message, field, true);
          break;
        case FieldDescriptor::CPPTYPE_ENUM:
          access->SetEnumValue(&message, field, 1);
          break;
        default:
          Fill(field->is_repeated() ? *access->AddMessage(&message, field)
                                    : *access->MutableMessage(&message, field));
      }
    }
  }
}

v1::ResolvedEncoding Empty() {
  v1::ResolvedEncoding encoding;
  encoding.add_generators()->set_condition(1);
  return encoding;
}

// For each kind of a message with a oneof, ShowText names the kind and all its
// fields.
template <typename Part, typename Add>
void ExpectAllNamed(const Add& add) {
  const auto* kinds = Part::descriptor()->FindOneofByName("kind");
  for (int k = 0; k < kinds->field_count(); ++k) {
    v1::ResolvedEncoding encoding = Empty();
    Part& part = add(*encoding.mutable_definition());
    const FieldDescriptor* kind = kinds->field(k);
    Fill(*part.GetReflection()->MutableMessage(&part, kind));
    const std::string text = ShowText(encoding);
    EXPECT_THAT(text, HasSubstr(kind->name()));
    for (int f = 0; f < kind->message_type()->field_count(); ++f) {
      EXPECT_THAT(text,
                  HasSubstr(kind->message_type()->field(f)->name() + " "));
    }
  }
}

TEST(ShowText, NamesEveryNumberOfBiasesAbsolutePartsAndPresets) {
  ExpectAllNamed<v1::Bias>(
      [](v1::Encoding& in) -> v1::Bias& { return *in.add_biases(); });
  ExpectAllNamed<v1::Absolute>(
      [](v1::Encoding& in) -> v1::Absolute& { return *in.add_absolutes(); });
  ExpectAllNamed<v1::Preset>(
      [](v1::Encoding& in) -> v1::Preset& { return *in.mutable_preset(); });
}

TEST(ShowText, ValuesAreReadable) {
  v1::ResolvedEncoding encoding = Empty();
  v1::Encoding& definition = *encoding.mutable_definition();
  v1::Kerple& kerple = *definition.add_biases()->mutable_kerple();
  kerple.set_form(v1::Kerple::FORM_LOG);
  kerple.add_r1(1);
  kerple.add_r2(0.1);
  v1::T5Buckets& t5 = *definition.add_biases()->mutable_t5_buckets();
  for (int b = 0; b < 64; ++b) t5.add_table(static_cast<float>(b - 2));
  v1::Absolute& part = *definition.add_absolutes();
  part.mutable_sinusoidal()->set_order(v1::Sinusoidal::ORDER_ENDPOINTS);
  part.set_target(v1::Absolute::TARGET_KEY);
  definition.mutable_query_temperature()->set_form(
      v1::QueryTemperature::FORM_LLAMA4);
  definition.mutable_query_temperature()->set_scale(0.5);
  definition.set_time_unit("1s");
  definition.add_coordinate_units("10ms");
  EXPECT_THAT(
      ShowText(encoding),
      AllOf(HasSubstr("bias        kerple  form log, r1 1, r2 0.1\n"),
            HasSubstr("bidirectional false, table 64 numbers, -2 to 61\n"),
            HasSubstr("absolute    sinusoidal  order endpoints; on keys\n"),
            HasSubstr("temperature form llama4, scale 0.5"),
            HasSubstr("time unit   1s; coordinate 1: 10ms\n")));
}

TEST(ShowText, PlanesOfSeveralAxesShowThemAll) {
  v1::ResolvedEncoding encoding = Empty();
  v1::ResolvedBlock& block = *encoding.mutable_generators(0)->add_blocks();
  block.set_kind("rotation");
  block.set_amplitude(1);
  block.add_channels(0);
  block.add_channels(1);
  v1::ResolvedTerm& term = *block.add_further();
  term.set_frequency(0.25);
  term.set_coordinate(1);
  v1::ResolvedBlock& mamba = *encoding.mutable_generators(0)->add_blocks();
  mamba = block;
  mamba.clear_further();
  mamba.set_clock(v1::CLOCK_REQUEST);
  mamba.set_clock_channel(7);
  mamba.set_rate(1);
  mamba.mutable_decay_drive()->set_clock(v1::CLOCK_REQUEST);
  mamba.mutable_decay_drive()->set_clock_channel(3);
  v1::ResolvedBlock& dense = *encoding.mutable_generators(0)->add_blocks();
  dense.set_kind("dense");
  dense.set_amplitude(1);
  for (double x : {-1.5, 0.0, 2.5, -3.5}) dense.add_matrix(x);
  EXPECT_THAT(
      ShowText(encoding),
      AllOf(HasSubstr("frequency 0 rad per unit  coordinate 0  and 0.25 rad "
                      "per unit  coordinate 1\n"),
            HasSubstr("clock channel 7  decays along clock channel 3\n"),
            HasSubstr("matrix -1.5 0 2.5 -3.5\n")));
}

// The horizon of a decay along a clock is no time.
TEST(ShowText, HorizonsOfClocksSaySo) {
  v1::ResolvedEncoding encoding = Empty();
  encoding.add_effective_horizon(1);
  v1::ResolvedBlock& block = *encoding.mutable_generators(0)->add_blocks();
  block.set_kind("decay");
  block.set_rate(1);
  EXPECT_THAT(ShowText(encoding), Not(HasSubstr("clock")));
  block.set_clock(v1::CLOCK_REQUEST);
  EXPECT_THAT(ShowText(encoding),
              HasSubstr("horizon     1  (decays that follow a clock of the "
                        "request: in its units)\n"));
}

TEST(ShowText, GrapeAdditiveSaysWhatItDoesWithTheFuture) {
  v1::ResolvedEncoding encoding = Empty();
  EXPECT_THAT(ShowText(encoding), Not(HasSubstr("|D|")));
  encoding.mutable_definition()
      ->add_biases()
      ->mutable_grape_additive()
      ->add_slopes(0.1);
  EXPECT_THAT(ShowText(encoding),
              HasSubstr("two-sided; grape_additive takes |D|"));
}

}  // namespace
}  // namespace attnd::client
