// Resolve of named_encoding.h: an encoding's numbers as ListEncodings shows
// them.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/named_encoding.h"

namespace attnd::server {
namespace {

v1::ResolvedBlock& AddBlock(absl::string_view kind, const Drive& drive,
                            v1::ResolvedGenerator& out) {
  v1::ResolvedBlock& block = *out.add_blocks();
  block.set_kind(std::string(kind));
  block.set_amplitude(1);
  block.set_coordinate(drive.coordinate);
  block.set_clock(drive.clock ? v1::CLOCK_REQUEST : v1::CLOCK_TIME);
  return block;
}

double AmplitudeOf(const Generator& generator, int channel) {
  const std::vector<double>& scale = generator.channel_scale();
  return scale.empty() ? 1 : scale[channel] * scale[channel];
}

// Planes with the chains that share their channels, then the other chains,
// small blocks, and what sees no time.
v1::ResolvedGenerator ResolveGenerator(const Generator& generator) {
  v1::ResolvedGenerator out;
  std::map<int, const Chain*> chain_of;  // by each channel
  for (const Chain& chain : generator.chains()) {
    for (int channel : chain.channels) chain_of[channel] = &chain;
  }
  std::map<int, const Plane*> plane_of;  // by first channel
  for (const Plane& plane : generator.planes()) plane_of[plane.first] = &plane;
  std::vector<bool> done(generator.dim(), false);
  for (const auto& [channel, plane] : plane_of) {
    if (done[channel]) continue;
    const auto chain = chain_of.find(channel);
    const bool alone = chain == chain_of.end();
    const size_t order = alone ? 1 : chain->second->channels.size();
    v1::ResolvedBlock& block = AddBlock(order > 1 ? "complex_jordan"
                                        : alone   ? "rotation"
                                                  : "damped_rotation",
                                        plane->drive, out);
    block.set_frequency(plane->omega);
    block.set_amplitude(AmplitudeOf(generator, channel));
    block.set_size(static_cast<int>(order));
    if (!alone) {
      block.set_rate(chain->second->rate);
      block.set_coupling(chain->second->coupling);
    }
    for (size_t jet = 0; jet < order; ++jet) {
      const Plane& member =
          *plane_of.at(alone ? channel : chain->second->channels[jet]);
      for (int c : {member.first, member.second}) {
        block.add_channels(c);
        done[c] = true;
      }
    }
    for (const PlaneTerm& term : plane->further) {
      v1::ResolvedTerm& further = *block.add_further();
      further.set_frequency(term.omega);
      further.set_coordinate(term.drive.coordinate);
    }
  }
  for (const Chain& chain : generator.chains()) {
    if (done[chain.channels[0]]) continue;
    v1::ResolvedBlock& block = AddBlock(
        chain.channels.size() > 1 ? "real_jordan" : "decay", chain.drive, out);
    block.set_rate(chain.rate);
    block.set_coupling(chain.coupling);
    block.set_size(static_cast<int>(chain.channels.size()));
    for (int c : chain.channels) {
      block.add_channels(c);
      done[c] = true;
    }
  }
  for (const SmallBlock& small : generator.small_blocks()) {
    v1::ResolvedBlock& block = AddBlock("dense", small.drive, out);
    block.set_size(static_cast<int>(small.channels.size()));
    for (double x : small.matrix) block.add_matrix(x);
    for (int c : small.channels) {
      block.add_channels(c);
      done[c] = true;
    }
  }
  v1::ResolvedBlock identity;
  identity.set_kind("identity");
  identity.set_amplitude(1);
  for (int channel = 0; channel < generator.dim(); ++channel) {
    if (!done[channel]) identity.add_channels(channel);
  }
  if (identity.channels_size() > 0) *out.add_blocks() = identity;
  for (double x : generator.basis()) out.add_basis(x);
  out.set_condition(generator.condition());
  out.set_averaged(generator.averaged());
  return out;
}

std::string Summary(const NamedEncoding& encoding, const Encoder& encoder,
                    const v1::ResolvedGenerator& generator) {
  std::map<std::string, int> kinds;
  for (const v1::ResolvedBlock& block : generator.blocks()) {
    if (block.kind() != "identity") ++kinds[block.kind()];
  }
  std::vector<std::string> parts;
  for (const auto& [kind, count] : kinds) {
    parts.push_back(kind == "rotation"
                        ? absl::StrCat("rotation of ", count, " planes")
                        : absl::StrCat(count, " x ", kind));
  }
  if (encoder.has_linear_bias()) {
    parts.push_back(
        absl::StrCat("ALiBi", encoder.one_sided() ? "" : " on both sides"));
  }
  for (const v1::Bias& bias : encoding.definition.biases()) {
    if (bias.has_alibi()) continue;
    parts.push_back(
        v1::Bias::descriptor()->FindFieldByNumber(bias.kind_case())->name());
  }
  if (parts.empty()) return "no encoding: only masks see the time";
  return absl::StrCat(absl::StrJoin(parts, " and "), "; unit ",
                      encoding.definition.time_unit());
}

// Lag at which the slowest part of a head has fallen to 1/e; -1: never. A bias
// counts by its weight factor, a generator by its slowest channel.
double Horizon(const Encoder& encoder, const Generator& generator, int head) {
  double rate = encoder.slope(head);
  double slowest = generator.dim() > 0 ? HUGE_VAL : 0;
  std::vector<double> rates(generator.dim(), 0.0);
  for (const Chain& chain : generator.chains()) {
    for (int c : chain.channels) rates[c] = chain.rate;
  }
  for (const SmallBlock& small : generator.small_blocks()) {
    for (int c : small.channels) rates[c] = small.rate;
  }
  for (double r : rates) slowest = std::min(slowest, r);
  rate = std::max(rate, slowest);
  return rate > 0 ? 1 / rate : -1;
}

}  // namespace

absl::StatusOr<v1::ResolvedEncoding> Resolve(const NamedEncoding& encoding,
                                             const EncoderSizes& sizes) {
  const TickRatio ratio = {
      .tick_ns = std::max<int64_t>(1, encoding.spec.unit_ns),
      .unit_ns = std::max<int64_t>(1, encoding.spec.unit_ns)};
  const absl::StatusOr<EncodingSpec> spec = SpecFor(encoding, sizes);
  if (!spec.ok()) return spec.status();
  const auto encoder = Encoder::Compile(*spec, sizes, ratio);
  if (!encoder.ok()) return encoder.status();
  v1::ResolvedEncoding out;
  out.set_name(encoding.name);
  out.set_hash(encoding.hash);
  *out.mutable_definition() = encoding.definition;
  out.set_unit_nanoseconds(static_cast<double>(encoding.spec.unit_ns));
  out.set_head_dim(sizes.head_dim);
  const int generators = spec->per_head.empty() ? 1 : sizes.kv_heads;
  const int group =
      std::max(1, sizes.query_heads / std::max(1, sizes.kv_heads));
  bool bounded = true;
  for (int g = 0; g < generators; ++g) {
    const Generator& generator = (*encoder)->head(g).generator();
    *out.add_generators() = ResolveGenerator(generator);
    bounded = bounded && generator.bounded();
  }
  for (int head = 0; head < sizes.query_heads; ++head) {
    if ((*encoder)->has_linear_bias()) {
      out.add_alibi_slopes((*encoder)->slope(head));
    }
    out.add_effective_horizon(
        Horizon(**encoder, (*encoder)->head(head / group).generator(), head));
  }
  out.set_relative(encoding.spec.absolutes.empty() &&
                   !encoding.spec.temperature);
  out.set_bounded(bounded);
  out.set_causal_only((*encoder)->one_sided());
  out.set_summary(Summary(encoding, **encoder, out.generators(0)));
  return out;
}

}  // namespace attnd::server
