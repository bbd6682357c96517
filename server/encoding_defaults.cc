#include "server/encoding_defaults.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "kernels/encoding_spec.h"
#include "kernels/presets.h"

namespace attnd::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// A field that stands for `value` where it is absent, whatever else is given.
struct Default {
  absl::string_view message, field;
  double value;
};

std::vector<Default> Defaults() {
  const Llama3Scaling llama3;
  const XPosPreset xpos;
  return {
      {"Yarn", "beta_fast", YarnScaling().beta_fast},
      {"Yarn", "beta_slow", YarnScaling().beta_slow},
      {"Llama3Scaling", "factor", llama3.factor},
      {"Llama3Scaling", "low_freq_factor", llama3.low_freq_factor},
      {"Llama3Scaling", "high_freq_factor", llama3.high_freq_factor},
      {"Llama3Scaling", "original_length", llama3.original_length},
      {"Proportional", "factor", ProportionalScaling().factor},
      {"RealJordan", "tau", RealJordanBlock().tau},
      {"ComplexJordan", "eta", ComplexJordanBlock().eta},
      {"SkewRank2", "frequency", SkewRank2Block().frequency},
      {"T5Buckets", "buckets", static_cast<double>(T5Term().buckets)},
      {"T5Buckets", "max_distance", T5Term().max_distance},
      {"HstuBuckets", "max_bucket", static_cast<double>(HstuTerm().max_bucket)},
      {"HstuBuckets", "log_step", HstuTerm().log_step},
      {"Fire", "c", FireTerm().c},
      {"Fire", "threshold", FireTerm().threshold},
      {"Sandwich", "dim", static_cast<double>(SandwichTerm().dim)},
      {"Sandwich", "base", SandwichTerm().base},
      {"PathIntegral", "quadrature", PathIntegralTerm().quadrature ? 1.0 : 0.0},
      {"Sinusoidal", "base", SinusoidalPart().base},
      {"Sinusoidal", "amplitude", SinusoidalPart().amplitude},
      {"LearnedTable", "step", LearnedTablePart().step},
      {"QueryTemperature", "length", QueryTemperature().length},
      {"XPos", "base", xpos.base},
      {"XPos", "scale_base", xpos.scale_base},
      {"XPos", "gamma", xpos.gamma},
      {"RetNet", "base", RetNetPreset().base},
      {"Mamba3", "rope_fraction", 1},
      {"LieRe", "coordinates", static_cast<double>(LieReBlock().coordinates)},
  };
}

void Write(const Default& missing, Message& message) {
  const FieldDescriptor* field =
      message.GetDescriptor()->FindFieldByName(std::string(missing.field));
  const google::protobuf::Reflection* access = message.GetReflection();
  if (access->HasField(message, field)) return;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return access->SetInt32(&message, field,
                              static_cast<int32_t>(missing.value));
    case FieldDescriptor::CPPTYPE_BOOL:
      return access->SetBool(&message, field, missing.value != 0);
    default:
      return access->SetDouble(&message, field, missing.value);
  }
}

void WriteEverywhere(const std::vector<Default>& defaults, Message& message) {
  for (const Default& missing : defaults) {
    if (missing.message == message.GetDescriptor()->name()) {
      Write(missing, message);
    }
  }
  const google::protobuf::Reflection* access = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  access->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      WriteEverywhere(defaults, *access->MutableMessage(&message, field));
      continue;
    }
    for (int i = 0; i < access->FieldSize(message, field); ++i) {
      WriteEverywhere(defaults,
                      *access->MutableRepeatedMessage(&message, field, i));
    }
  }
}

// What is read beside some fields only.
void WriteBlock(v1::Block& block) {
  if (block.clock() == v1::CLOCK_UNSPECIFIED) block.set_clock(v1::CLOCK_TIME);
  if (!block.has_rotary()) return;
  v1::Rotary& rotary = *block.mutable_rotary();
  // A block of Hugging Face's has its own word for it.
  if (!rotary.has_base() && !rotary.has_rope_parameters() &&
      !rotary.has_rope_scaling()) {
    rotary.set_base(RotaryBlock().base);
  }
  if (rotary.has_yarn() && !rotary.yarn().has_truncate() &&
      rotary.yarn().ramp() != v1::Yarn::RAMP_PAPER) {
    rotary.mutable_yarn()->set_truncate(YarnScaling().truncate);
  }
}

void WriteTerms(v1::Encoding& encoding) {
  for (v1::Bias& bias : *encoding.mutable_biases()) {
    if (bias.has_alibi() && bias.alibi().slopes().empty() &&
        !bias.alibi().has_bias_max()) {
      bias.mutable_alibi()->set_bias_max(AlibiTerm().bias_max);
    }
  }
  for (v1::Absolute& part : *encoding.mutable_absolutes()) {
    if (part.target() == v1::Absolute::TARGET_UNSPECIFIED) {
      part.set_target(v1::Absolute::TARGET_BOTH);
    }
    if (part.has_learned_table() &&
        part.learned_table().boundary() ==
            v1::LearnedTable::BOUNDARY_UNSPECIFIED) {
      part.mutable_learned_table()->set_boundary(
          v1::LearnedTable::BOUNDARY_ERROR);
    }
  }
  if (encoding.query_temperature().form() ==
          v1::QueryTemperature::FORM_LLAMA4 &&
      !encoding.query_temperature().has_scale()) {
    encoding.mutable_query_temperature()->set_scale(QueryTemperature().scale);
  }
}

}  // namespace

v1::Encoding WithDefaults(v1::Encoding encoding) {
  WriteEverywhere(Defaults(), encoding);
  for (v1::Block& block : *encoding.mutable_blocks()) WriteBlock(block);
  for (v1::Generator& head : *encoding.mutable_per_head()) {
    for (v1::Block& block : *head.mutable_blocks()) WriteBlock(block);
  }
  WriteTerms(encoding);
  if (encoding.two_sided() == v1::TWO_SIDED_RULE_UNSPECIFIED) {
    encoding.set_two_sided(v1::TWO_SIDED_RULE_REFUSE);
  }
  if (encoding.angle_precision() == v1::ANGLE_PRECISION_UNSPECIFIED) {
    encoding.set_angle_precision(v1::ANGLE_PRECISION_EXACT);
  }
  return encoding;
}

}  // namespace attnd::server
