#include "client/attnctl/encodings_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

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
  return absl::StrJoin({encoding.relative() ? "relative" : "absolute",
                        encoding.bounded() ? "bounded" : "unbounded",
                        encoding.causal_only() ? "causal only" : "two-sided"},
                       ", ");
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

std::string BlockText(const v1::ResolvedBlock& block) {
  std::string text = absl::StrFormat("%-15s channels %s", block.kind(),
                                     ChannelsText(block.channels()));
  const auto add = [&](const char* what, double value, const char* unit) {
    absl::StrAppendFormat(&text, "  %s %.6g%s", what, value, unit);
  };
  if (block.frequency() != 0) {
    add("frequency", block.frequency(), " rad per unit");
  }
  if (block.rate() != 0) add("rate", block.rate(), " per unit");
  if (block.coupling() != 0) add("coupling", block.coupling(), " per unit");
  if (block.amplitude() != 1) add("amplitude", block.amplitude(), "");
  if (block.clock() == v1::CLOCK_REQUEST) {
    absl::StrAppend(&text, "  clock channel ", block.clock_channel());
  } else if (block.coordinate() != 0) {
    absl::StrAppend(&text, "  coordinate ", block.coordinate());
  }
  return text;
}

std::string HorizonText(const v1::ResolvedEncoding& encoding) {
  return absl::StrJoin(encoding.effective_horizon(), " ",
                       [](std::string* out, double horizon) {
                         if (horizon < 0) {
                           out->append("none");
                         } else {
                           absl::StrAppendFormat(out, "%.4g", horizon);
                         }
                       });
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
  const std::string& unit = encoding.definition().time_unit();
  std::string text = absl::StrFormat(
      "name        %s\nwhat        %s\nclass       %s\nproperties  %s\n"
      "time unit   %s\nhead dim    %d\nheads       %d\nhorizon     %s\n"
      "hash        %s\n",
      encoding.name(), encoding.summary(), ClassText(encoding),
      PropertiesText(encoding), unit.empty() ? "-" : unit, encoding.head_dim(),
      encoding.effective_horizon_size(), HorizonText(encoding),
      encoding.hash());
  if (encoding.length_dependent()) {
    absl::StrAppend(&text,
                    "length      numbers depend on the keys of an item; "
                    "--length\n");
  }
  if (!encoding.alibi_slopes().empty()) {
    absl::StrAppend(&text, "slopes      ",
                    absl::StrJoin(encoding.alibi_slopes(), " "), " per unit\n");
  }
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
