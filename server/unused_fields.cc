#include "server/unused_fields.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace attnd::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

void CheckEnumsOf(const Message& message, const std::string& path,
                  Violations& violations) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const bool many = field->is_repeated();
    const std::string at = absl::StrCat(path, field->name());
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM && !many) {
      const int value = reflection.GetEnumValue(message, field);
      if (field->enum_type()->FindValueByNumber(value) == nullptr) {
        violations.Add(at, absl::StrCat("unknown value ", value, " of ",
                                        field->enum_type()->name()));
      }
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !many) {
      CheckEnumsOf(reflection.GetMessage(message, field), at + ".", violations);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      const int count = reflection.FieldSize(message, field);
      for (int i = 0; i < count; ++i) {
        CheckEnumsOf(reflection.GetRepeatedMessage(message, field, i),
                     absl::StrCat(at, "[", i, "]."), violations);
      }
    }
  }
}

template <typename Visit>
void ForEachBlock(const v1::Encoding& encoding, const Visit& visit) {
  for (const v1::Block& block : encoding.blocks()) visit(block);
  for (const v1::Generator& head : encoding.per_head()) {
    for (const v1::Block& block : head.blocks()) visit(block);
  }
}

// Coordinates of the time axis that a block reads beside its first.
int FurtherCoordinates(const v1::Block& block) {
  const v1::Rotary& rotary = block.rotary();
  const int mrope = std::max(rotary.rope_parameters().mrope_section_size(),
                             rotary.rope_scaling().mrope_section_size());
  const int axes = std::max(rotary.axes().sections_size(), mrope);
  const bool vectors = block.rotation().frequency_vectors_size() > 0;
  return std::max({axes, vectors ? block.rotation().coordinates() : 0, 1}) - 1;
}

// The highest coordinate of the time axis that anything reads.
int HighestCoordinate(const v1::Encoding& encoding) {
  int highest = std::max(encoding.preset().liere().coordinates() - 1, 0);
  ForEachBlock(encoding, [&](const v1::Block& block) {
    if (block.clock() == v1::CLOCK_REQUEST) return;
    highest = std::max(highest, block.coordinate() + FurtherCoordinates(block));
  });
  return highest;
}

// Whether angles are formed anywhere from times or positions.
bool Rotates(const v1::Encoding& encoding) {
  const v1::Preset& preset = encoding.preset();
  bool rotates = preset.has_xpos() || preset.has_retnet() || preset.has_liere();
  ForEachBlock(encoding, [&](const v1::Block& block) {
    const bool turns = block.has_rotary() || block.has_rotation() ||
                       block.has_damped_rotation() ||
                       block.has_complex_jordan() || block.has_dense() ||
                       block.has_skew_rank2();
    rotates = rotates || (turns && block.clock() != v1::CLOCK_REQUEST);
  });
  return rotates;
}

// A request has one tensor of gates, which every such term would add.
void CheckGates(const v1::Encoding& encoding, absl::string_view prefix,
                Violations& violations) {
  std::string first = encoding.preset().has_fox() ? "preset.fox" : "";
  for (int i = 0; i < encoding.biases_size(); ++i) {
    const v1::Bias& bias = encoding.biases(i);
    if (!bias.has_cumulative_gate() && !bias.has_path_integral()) continue;
    const std::string place = absl::StrCat(
        "biases[", i, "].",
        bias.has_cumulative_gate() ? "cumulative_gate" : "path_integral");
    if (!first.empty()) {
      violations.Add(absl::StrCat(prefix, place),
                     absl::StrCat("reads the request's gates, which ", first,
                                  " adds already; leave one of them out"));
    } else {
      first = place;
    }
  }
}

}  // namespace

bool CheckEnums(const v1::Encoding& encoding, absl::string_view prefix,
                Violations& violations) {
  Violations unknown;
  CheckEnumsOf(encoding, std::string(prefix), unknown);
  for (const auto& violation : unknown.list()) violations.Append(violation);
  return unknown.empty();
}

void CheckUnused(const v1::Encoding& encoding, absl::string_view prefix,
                 Violations& violations) {
  const int highest = HighestCoordinate(encoding);
  if (encoding.coordinate_units_size() > highest) {
    violations.Add(absl::StrCat(prefix, "coordinate_units[", highest, "]"),
                   absl::StrCat("is the unit of coordinate ", highest + 1,
                                ", but no block follows a coordinate beyond ",
                                highest, "; leave it out"));
  }
  if (encoding.angle_precision() == v1::ANGLE_PRECISION_HF_FP32 &&
      !Rotates(encoding)) {
    violations.Add(absl::StrCat(prefix, "angle_precision"),
                   "hf_fp32, but no block turns with the times; leave it out");
  }
  if (encoding.has_basis() && encoding.blocks().empty() &&
      encoding.per_head().empty() && !encoding.has_preset()) {
    violations.Add(absl::StrCat(prefix, "basis"),
                   "stands around blocks, of which there are none; leave it "
                   "out");
  }
  CheckGates(encoding, prefix, violations);
}

void CheckDrive(const v1::Block& block, const std::string& path,
                Violations& violations) {
  if (block.coordinate() < 0) {
    violations.Add(path + ".coordinate",
                   absl::StrCat(block.coordinate(), ", expected >= 0"));
  }
  if (block.clock_channel() < 0) {
    violations.Add(path + ".clock_channel",
                   absl::StrCat(block.clock_channel(), ", expected >= 0"));
  }
  const bool request = block.clock() == v1::CLOCK_REQUEST;
  if (request && block.coordinate() > 0) {
    violations.Add(path + ".coordinate",
                   "is one of the time axis, but clock is request: leave it "
                   "out, or the clock, or choose with clock_channel");
  }
  if (!request && block.clock_channel() > 0) {
    violations.Add(path + ".clock_channel",
                   "is one of the request's clock: add clock: request, or "
                   "leave it out");
  }
  if (!block.has_identity()) return;
  for (const auto& [set, field] :
       {std::pair(block.coordinate() > 0, ".coordinate"),
        std::pair(request, ".clock"),
        std::pair(block.averaged(), ".averaged")}) {
    if (set) {
      violations.Add(path + field,
                     "given, but an identity block sees no time; leave it out");
    }
  }
}

}  // namespace attnd::server
