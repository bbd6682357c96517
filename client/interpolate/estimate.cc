#include "client/interpolate/estimate.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/interpolate/attention_average.h"
#include "client/interpolate/constant_vector.h"

namespace attnd::client {
namespace {

absl::StatusOr<v1::ResolvedEncoding> Resolve(const Client& client,
                                             const std::string& name,
                                             int head_dim) {
  v1::ListEncodingsRequest request;
  request.add_names(name);
  request.set_head_dim(head_dim);
  request.set_query_heads(1);
  request.set_kv_heads(1);
  absl::StatusOr<v1::ListEncodingsResponse> list =
      client.ListEncodings(request);
  if (!list.ok()) return list.status();
  if (list->encodings_size() != 1) {
    return absl::NotFoundError(
        absl::StrCat("encoding '", name,
                     "': the server does not know it; `attnctl "
                     "encodings` lists those it does"));
  }
  return list->encodings(0);
}

absl::StatusOr<AverageRule> MakeRule(const Client& client, const Pass& pass,
                                     bool causal) {
  std::vector<double> weights = pass.plane_weights;
  if (weights.empty()) {
    // Its own head dimension tells how many planes it has.
    auto encoding = Resolve(client, pass.encoding, 0);
    if (!encoding.ok()) return encoding.status();
    weights = DefaultWeights(CountTimedBlocks(*encoding));
  }
  const int head_dim = std::max<int>(1, 2 * static_cast<int>(weights.size()));
  auto encoding = Resolve(client, pass.encoding, head_dim);
  if (!encoding.ok()) return encoding.status();
  auto vector = ConstantVector(*encoding, weights);
  if (!vector.ok()) return vector.status();
  return AverageRule{.encoding = pass.encoding,
                     .vector = *std::move(vector),
                     .causal = causal};
}

}  // namespace

absl::StatusOr<std::vector<double>> Estimate(
    const Client& client, const EstimateOptions& options, const Trend& trend,
    absl::Span<const int64_t> times_ns, absl::Span<const double> values,
    absl::Span<const int64_t> wanted_ns) {
  absl::StatusOr<v1::GetServerInfoResponse> info = client.GetServerInfo();
  if (!info.ok()) return info.status();

  std::vector<double> estimate;
  for (int64_t t : wanted_ns) estimate.push_back(trend.At(t));
  std::vector<double> left(values.begin(), values.end());
  for (size_t i = 0; i < left.size(); ++i) left[i] -= trend.At(times_ns[i]);
  // The wanted times first, then the visible ones for the next pass.
  std::vector<int64_t> queries(wanted_ns.begin(), wanted_ns.end());
  queries.insert(queries.end(), times_ns.begin(), times_ns.end());

  for (size_t p = 0; p < options.passes.size(); ++p) {
    const bool last = p + 1 == options.passes.size();
    auto rule = MakeRule(client, options.passes[p], options.causal);
    if (!rule.ok()) return rule.status();
    const auto asked = absl::MakeConstSpan(queries).first(
        last ? wanted_ns.size() : queries.size());
    const PieceSize piece =
        LargestPieces(asked.size(), times_ns.size(), rule->vector.size(),
                      options.message_bytes, info->limits());
    auto means = AttentionAverage(client, *rule, piece, times_ns, left, asked);
    if (!means.ok()) return means.status();
    for (size_t i = 0; i < estimate.size(); ++i) estimate[i] += (*means)[i];
    for (size_t i = wanted_ns.size(); i < means->size(); ++i) {
      left[i - wanted_ns.size()] -= (*means)[i];
    }
  }
  return estimate;
}

}  // namespace attnd::client
