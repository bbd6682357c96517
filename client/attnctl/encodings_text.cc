#include "client/attnctl/encodings_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/attnctl/parameters_text.h"

namespace attnd::client {
namespace {

// Which of the three ways of telling the time it uses.
std::string ClassText(const v1::ResolvedEncoding& encoding) {
  std::vector<std::string> parts;
  for (const v1::ResolvedBlock& block : encoding.generators(0).blocks()) {
    if (block.kind() == "identity") continue;
    parts.push_back(block.kind() == "liere" ? "multiplicative, by positions"
                    : encoding.generators(0).averaged()
                        ? "multiplicative, A(D) = phi1(DX)"
                        : "multiplicative, A(D) = exp(DX)");
    break;
  }
  if (!encoding.alibi_slopes().empty() ||
      !encoding.definition().biases().empty()) {
    parts.push_back("additive bias");
  }
  if (!encoding.definition().absolutes().empty()) parts.push_back("absolute");
  if (encoding.definition().has_query_temperature()) {
    parts.push_back("query temperature");
  }
  return parts.empty() ? "none: only masks see the time"
                       : absl::StrJoin(parts, "; ");
}

std::string PropertiesText(const v1::ResolvedEncoding& encoding) {
  const auto& biases = encoding.definition().biases();
  // As published it knows no future.
  const bool mirrored = std::any_of(
      biases.begin(), biases.end(),
      [](const v1::Bias& bias) { return bias.has_grape_additive(); });
  return absl::StrCat(encoding.relative() ? "relative" : "absolute", ", ",
                      encoding.bounded() ? "bounded" : "unbounded", ", ",
                      encoding.causal_only() ? "causal only" : "two-sided",
                      mirrored ? "; grape_additive takes |D|, so that keys of "
                                 "the future count like those of the past"
                               : "");
}

// "3,4,5,6" as "3-6".
std::string ChannelsText(
    const google::protobuf::RepeatedField<int32_t>& channels) {
  const int n = channels.size();
  bool run = n > 2;
  for (int i = 1; i < n; ++i) run &= channels[i] == channels[i - 1] + 1;
  return run ? absl::StrCat(channels[0], "-", channels[n - 1])
             : absl::StrJoin(channels, ",");
}

template <typename Message>
std::string DriveText(const Message& drive) {
  return drive.clock() == v1::CLOCK_REQUEST
             ? absl::StrCat("clock channel ", drive.clock_channel())
             : absl::StrCat("coordinate ", drive.coordinate());
}

std::string BlockText(const v1::ResolvedBlock& block) {
  std::string text = absl::StrFormat("%-15s channels %s", block.kind(),
                                     ChannelsText(block.channels()));
  const auto add = [&](const char* what, double value, const char* unit) {
    absl::StrAppendFormat(&text, "  %s %.6g%s", what, value, unit);
  };
  if (block.frequency() != 0 || block.further_size() > 0) {
    add("frequency", block.frequency(), " rad per unit");
  }
  if (block.rate() != 0) add("rate", block.rate(), " per unit");
  if (block.coupling() != 0) add("coupling", block.coupling(), " per unit");
  if (block.amplitude() != 1) add("amplitude", block.amplitude(), "");
  // Coordinate 0 goes without saying, but not beside others.
  if (block.clock() == v1::CLOCK_REQUEST || block.coordinate() != 0 ||
      block.further_size() > 0) {
    absl::StrAppend(&text, "  ", DriveText(block));
  }
  for (const v1::ResolvedTerm& term : block.further()) {
    absl::StrAppendFormat(&text, "  and %.6g rad per unit  %s",
                          term.frequency(), DriveText(term));
  }
  if (block.has_decay_drive()) {
    absl::StrAppend(&text, "  decays along ", DriveText(block.decay_drive()));
  }
  if (!block.matrix().empty()) {
    absl::StrAppend(
        &text, "  matrix ",
        NumbersText({block.matrix().begin(), block.matrix().end()}));
  }
  return text;
}

// Whether some decays run with a clock of the request.
bool DecaysByClock(const v1::ResolvedEncoding& encoding) {
  for (const v1::ResolvedGenerator& generator : encoding.generators()) {
    for (const v1::ResolvedBlock& block : generator.blocks()) {
      const v1::Clock clock =
          block.has_decay_drive() ? block.decay_drive().clock() : block.clock();
      if (block.rate() != 0 && clock == v1::CLOCK_REQUEST) return true;
    }
  }
  return false;
}

std::string HorizonText(const v1::ResolvedEncoding& encoding) {
  std::string text = absl::StrJoin(
      encoding.effective_horizon(), " ", [](std::string* out, double horizon) {
        if (horizon < 0) {
          out->append("none");
        } else {
          absl::StrAppendFormat(out, "%.4g", horizon);
        }
      });
  if (DecaysByClock(encoding)) {
    text += "  (decays that follow a clock of the request: in its units)";
  }
  return text;
}

// "1s", and of further coordinates "1s; coordinate 1: 10ms".
std::string UnitText(const v1::Encoding& definition) {
  std::string text =
      definition.time_unit().empty() ? "-" : definition.time_unit();
  for (int c = 0; c < definition.coordinate_units_size(); ++c) {
    absl::StrAppend(&text, "; coordinate ", c + 1, ": ",
                    definition.coordinate_units(c));
  }
  return text;
}

std::string LineText(absl::string_view label, absl::string_view text) {
  return absl::StrFormat("%-12s%s\n", label, text);
}

// A message with a oneof `kind`: its name, and the numbers of it.
template <typename Message>
std::string KindText(const Message& message) {
  const auto* field =
      message.GetDescriptor()->FindFieldByNumber(message.kind_case());
  if (field == nullptr) return "";
  const std::string numbers =
      ParametersText(message.GetReflection()->GetMessage(message, field));
  return absl::StrCat(field->name(), numbers.empty() ? "" : "  ", numbers);
}

std::string AbsoluteText(const v1::Absolute& part) {
  std::string text = KindText(part);
  if (part.target() == v1::Absolute::TARGET_QUERY) text += "; on queries";
  if (part.target() == v1::Absolute::TARGET_KEY) text += "; on keys";
  if (part.origin_ticks() != 0) {
    absl::StrAppend(&text, "; from tick ", part.origin_ticks());
  }
  return text;
}

// What is not among the blocks.
std::string TermsText(const v1::Encoding& definition) {
  std::string text;
  if (definition.has_preset()) {
    text += LineText("preset", KindText(definition.preset()));
  }
  for (const v1::Bias& bias : definition.biases()) {
    text += LineText("bias", KindText(bias));
  }
  for (const v1::Absolute& part : definition.absolutes()) {
    text += LineText("absolute", AbsoluteText(part));
  }
  if (definition.has_query_temperature()) {
    text +=
        LineText("temperature", ParametersText(definition.query_temperature()));
  }
  return text;
}

}  // namespace

std::string ListText(const v1::ListEncodingsResponse& list) {
  size_t width = 4;
  for (const v1::ResolvedEncoding& encoding : list.encodings()) {
    width = std::max(width, encoding.name().size());
  }
  std::string text =
      absl::StrFormat("%-*s  %-10s  %s\n", width, "NAME", "TIME UNIT", "WHAT");
  for (const v1::ResolvedEncoding& encoding : list.encodings()) {
    const std::string& unit = encoding.definition().time_unit();
    absl::StrAppendFormat(&text, "%-*s  %-10s  %s\n", width, encoding.name(),
                          unit.empty() ? "-" : unit, encoding.summary());
  }
  return text;
}

std::string ShowText(const v1::ResolvedEncoding& encoding) {
  std::string text = absl::StrFormat(
      "name        %s\nwhat        %s\nclass       %s\nproperties  %s\n"
      "time unit   %s\nhead dim    %d\nheads       %d\nhorizon     %s\n"
      "hash        %s\n",
      encoding.name(), encoding.summary(), ClassText(encoding),
      PropertiesText(encoding), UnitText(encoding.definition()),
      encoding.head_dim(), encoding.effective_horizon_size(),
      HorizonText(encoding), encoding.hash());
  if (encoding.length_dependent()) {
    absl::StrAppend(&text,
                    "length      numbers depend on the keys of an item; "
                    "--length\n");
  }
  if (!encoding.alibi_slopes().empty()) {
    absl::StrAppend(&text, "slopes      ",
                    absl::StrJoin(encoding.alibi_slopes(), " "), " per unit\n");
  }
  absl::StrAppend(&text, TermsText(encoding.definition()));
  for (int head = 0; head < encoding.generators_size(); ++head) {
    const v1::ResolvedGenerator& generator = encoding.generators(head);
    absl::StrAppend(&text, encoding.generators_size() == 1
                               ? "blocks, all heads alike"
                               : absl::StrCat("blocks of kv head ", head));
    if (!generator.basis().empty()) {
      absl::StrAppendFormat(&text, ", in a basis of condition %.3g",
                            generator.condition());
    }
    absl::StrAppend(&text, "\n");
    for (const v1::ResolvedBlock& block : generator.blocks()) {
      absl::StrAppend(&text, "  ", BlockText(block), "\n");
    }
  }
  return text;
}

std::string ResidualsText(const std::vector<Residual>& residuals) {
  std::string text =
      absl::StrFormat("%-36s %-10s %-10s\n", "PROPERTY", "RESIDUAL", "ALLOWED");
  for (const Residual& r : residuals) {
    absl::StrAppendFormat(&text, "%-36s %-10.3g ", r.property, r.value);
    if (r.claimed) {
      absl::StrAppendFormat(&text, "%-10.3g %s", r.bound,
                            r.value <= r.bound ? "ok" : "OFF");
    } else {
      absl::StrAppendFormat(&text, "%-10s not claimed", "-");
    }
    absl::StrAppend(&text, r.note.empty() ? "" : "  ", r.note, "\n");
  }
  return text;
}

}  // namespace attnd::client
