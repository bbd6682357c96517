// Resolve of named_encoding.h: an encoding's numbers as ListEncodings shows
// them.
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/named_encoding.h"

namespace attnd::server {
namespace {

v1::ResolvedGenerator ResolveGenerator(const Generator& generator) {
  v1::ResolvedGenerator out;
  std::vector<bool> turns(generator.dim(), false);
  for (const Plane& plane : generator.planes()) {
    v1::ResolvedBlock& block = *out.add_blocks();
    block.set_kind("rotation");
    block.add_channels(plane.first);
    block.add_channels(plane.second);
    block.set_frequency(plane.omega);
    block.set_amplitude(1);
    block.set_clock(v1::CLOCK_TIME);
    turns[plane.first] = turns[plane.second] = true;
  }
  v1::ResolvedBlock identity;
  identity.set_kind("identity");
  identity.set_amplitude(1);
  for (int channel = 0; channel < generator.dim(); ++channel) {
    if (!turns[channel]) identity.add_channels(channel);
  }
  if (identity.channels_size() > 0) *out.add_blocks() = identity;
  return out;
}

std::string Summary(const NamedEncoding& encoding, const Encoder& encoder) {
  std::vector<std::string> parts;
  if (encoder.rotates()) {
    parts.push_back(absl::StrCat("rotation of ", encoder.planes(), " planes"));
  }
  if (encoder.has_linear_bias()) {
    parts.push_back(
        absl::StrCat("ALiBi", encoder.one_sided() ? "" : " on both sides"));
  }
  if (parts.empty()) return "no encoding: only masks see the time";
  return absl::StrCat(absl::StrJoin(parts, " and "), "; unit ",
                      encoding.definition.time_unit());
}

}  // namespace

absl::StatusOr<v1::ResolvedEncoding> Resolve(const NamedEncoding& encoding,
                                             const EncoderSizes& sizes) {
  const TickRatio ratio = {
      .tick_ns = std::max<int64_t>(1, encoding.spec.unit_ns),
      .unit_ns = std::max<int64_t>(1, encoding.spec.unit_ns)};
  const auto encoder = Encoder::Compile(encoding.spec, sizes, ratio);
  if (!encoder.ok()) return encoder.status();
  v1::ResolvedEncoding out;
  out.set_name(encoding.name);
  out.set_hash(encoding.hash);
  *out.mutable_definition() = encoding.definition;
  out.set_unit_nanoseconds(static_cast<double>(encoding.spec.unit_ns));
  out.set_head_dim(sizes.head_dim);
  *out.add_generators() = ResolveGenerator((*encoder)->generator());
  // Rotations never fade; ALiBi's weight factor e^(-slope D) is 1/e at 1/slope.
  for (int head = 0; head < sizes.query_heads; ++head) {
    const double slope = (*encoder)->slope(head);
    if ((*encoder)->has_linear_bias()) out.add_alibi_slopes(slope);
    out.add_effective_horizon(slope > 0 ? 1 / slope : -1);
  }
  out.set_relative(true);
  out.set_bounded(true);
  out.set_causal_only((*encoder)->one_sided());
  out.set_summary(Summary(encoding, **encoder));
  return out;
}

}  // namespace attnd::server
