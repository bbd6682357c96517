#include "client/resolved/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/resolved/linear.h"
#include "client/resolved/scorer.h"
#include "client/resolved/softmax.h"
#include "client/resolved/visibility.h"

namespace attnd::client::resolved {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Answer EmptyAnswer(const Inputs& in, absl::Span<const int64_t> rows) {
  Answer answer;
  answer.batch = in.query.batch();
  answer.heads = in.query.heads();
  answer.keys = in.key.rows();
  answer.head_dim = in.query.columns();
  answer.channels = in.value.columns();
  answer.rows.assign(rows.begin(), rows.end());
  if (rows.empty()) {
    answer.rows.resize(in.query.rows());
    std::iota(answer.rows.begin(), answer.rows.end(), 0);
  }
  const int64_t count =
      answer.batch * answer.heads * static_cast<int64_t>(answer.rows.size());
  answer.output.resize(count * answer.channels);
  answer.lse.assign(count, -kInfinity);
  answer.scores.assign(count * answer.keys, -kInfinity);
  answer.weights.resize(count * answer.keys);
  answer.logit_size.resize(count);
  answer.value_size.resize(count);
  return answer;
}

// Softmax and average of one row, whose scores stand in the answer.
void Finish(const v1::AttendRequest& request, const Inputs& in, int64_t batch,
            int64_t head, int64_t r, Answer& answer) {
  const v1::Mask& mask = request.mask();
  const std::optional<double> sink =
      mask.sinks().empty()
          ? std::nullopt
          : std::optional<double>(mask.sinks(static_cast<int>(head)));
  const absl::Span<const double> scores =
      absl::MakeConstSpan(answer.scores).subspan(r * answer.keys, answer.keys);
  answer.lse[r] = Softmax(
      scores, sink,
      absl::MakeSpan(answer.weights).subspan(r * answer.keys, answer.keys));
  const int64_t kv_head = head / (in.query.heads() / in.key.heads());
  const auto row = [&](size_t j) {
    return in.value.Row(batch, kv_head, static_cast<int64_t>(j));
  };
  const std::string& observed = mask.value_channel_mask();
  const auto seen = [&](size_t j, size_t c) {
    return observed.empty() ||
           observed[(batch * answer.keys + j) * answer.channels + c] != 0;
  };
  answer.value_size[r] =
      Average(scores, sink, {row, seen},
              absl::MakeSpan(answer.output)
                  .subspan(r * answer.channels, answer.channels));
}

absl::StatusOr<Answer> LinearAttention(
    const v1::AttendRequest& request, Inputs& in, const Times& times,
    const std::vector<Sequence>& sequences,
    absl::Span<const v1::ResolvedEncoding* const> encodings,
    absl::Span<const int64_t> rows) {
  for (Array* array : {&in.query, &in.key}) {
    ApplyFeatureMap(request.linear().feature_map(), array);
  }
  v1::AttendRequest causal;
  *causal.mutable_mask() = LinearMask(request);
  *causal.mutable_linear() = request.linear();
  if (request.has_scale()) causal.set_scale(request.scale());
  causal.set_two_sided(request.two_sided());
  // Gaps without an encoding are in seconds.
  v1::ResolvedEncoding nope;
  nope.set_unit_nanoseconds(1e9);
  Answer answer = EmptyAnswer(in, rows);
  answer.output_size.resize(answer.output.size());
  const auto count = static_cast<int64_t>(answer.rows.size());
  const int64_t channels = answer.channels;
  std::vector<double> output(answer.heads * channels), size(output.size());
  for (size_t n = 0; n < sequences.size(); ++n) {
    const Sequence& sequence = sequences[n];
    absl::StatusOr<LinearRows> linear = LinearRows::Make(
        causal, in, times, sequence,
        encodings.empty() ? nope : *encodings[encodings.size() == 1 ? 0 : n]);
    if (!linear.ok()) return linear.status();
    for (int64_t k = 0; k < count; ++k) {
      const int64_t i = answer.rows[k] - sequence.first_query;
      if (i < 0 || i >= sequence.queries) continue;
      linear->Row(i, absl::MakeSpan(output), absl::MakeSpan(size));
      for (int64_t h = 0; h < answer.heads; ++h) {
        const int64_t to =
            ((sequence.batch * answer.heads + h) * count + k) * channels;
        std::copy_n(output.begin() + h * channels, channels,
                    answer.output.begin() + to);
        std::copy_n(size.begin() + h * channels, channels,
                    answer.output_size.begin() + to);
      }
    }
  }
  return answer;
}

double Growth(const Answer& answer, int64_t r) {
  return answer.slack * std::max(1.0, answer.logit_size[r] / 8);
}

double SlackOf(absl::Span<const v1::ResolvedEncoding* const> encodings) {
  for (const v1::ResolvedEncoding* encoding : encodings) {
    for (const v1::ResolvedGenerator& generator : encoding->generators()) {
      for (const v1::ResolvedBlock& block : generator.blocks()) {
        if (absl::EndsWith(block.kind(), "_jordan")) return kJordanSlack;
      }
    }
  }
  return 1;
}

}  // namespace

absl::StatusOr<Answer> Attention(
    const v1::AttendRequest& request,
    absl::Span<const v1::ResolvedEncoding* const> encodings,
    absl::Span<const int64_t> rows) {
  absl::StatusOr<Inputs> in = Inputs::Make(request);
  if (!in.ok()) return in.status();
  const absl::StatusOr<Times> times =
      Times::Make(request, in->query.rows(), in->key.rows());
  if (!times.ok()) return times.status();
  const std::vector<Sequence> sequences = SequencesOf(
      request.mask(), in->query.batch(), in->query.rows(), in->key.rows());
  if (encodings.size() > 1 && encodings.size() != sequences.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        encodings.size(), " encodings for ", sequences.size(), " sequences"));
  }
  if (request.kind() == v1::ATTENTION_KIND_LINEAR) {
    return LinearAttention(request, *in, *times, sequences, encodings, rows);
  }
  const v1::ResolvedEncoding nope;
  Answer answer = EmptyAnswer(*in, rows);
  answer.slack = SlackOf(encodings);
  const auto count = static_cast<int64_t>(answer.rows.size());
  std::vector<double> scores(answer.heads * answer.keys), sizes(answer.heads);
  for (size_t n = 0; n < sequences.size(); ++n) {
    const Sequence& sequence = sequences[n];
    const absl::StatusOr<std::unique_ptr<Scorer>> scorer = Scorer::Make(
        request, *in, *times, sequence,
        encodings.empty() ? nope : *encodings[encodings.size() == 1 ? 0 : n]);
    if (!scorer.ok()) return scorer.status();
    for (int64_t k = 0; k < count; ++k) {
      const int64_t i = answer.rows[k] - sequence.first_query;
      if (i < 0 || i >= sequence.queries) continue;
      absl::Status status =
          (*scorer)->Row(i, absl::MakeSpan(scores), absl::MakeSpan(sizes));
      if (!status.ok()) return status;
      for (int64_t h = 0; h < answer.heads; ++h) {
        const int64_t r = (sequence.batch * answer.heads + h) * count + k;
        std::copy_n(scores.begin() + h * answer.keys, answer.keys,
                    answer.scores.begin() + r * answer.keys);
        answer.logit_size[r] = sizes[h];
        Finish(request, *in, sequence.batch, h, r, answer);
      }
    }
  }
  return answer;
}

double LogitBound(const Answer& answer, int64_t r) {
  return kAccuracy * Growth(answer, r);
}

double OutputBound(const Answer& answer, int64_t r, int64_t channel) {
  if (!answer.output_size.empty()) {
    return kLinearAccuracy * answer.output_size[r * answer.channels + channel];
  }
  return LogitBound(answer, r) * answer.value_size[r];
}

}  // namespace attnd::client::resolved
