#include "client/resolved/scorer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/resolved/absolute.h"

namespace attnd::client::resolved {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace

absl::StatusOr<Inputs> Inputs::Make(const v1::AttendRequest& request) {
  Inputs in;
  const struct {
    const v1::Tensor& tensor;
    const char* field;
    Array& array;
    bool required;
  } tensors[] = {{request.query(), "query", in.query, true},
                 {request.key(), "key", in.key, true},
                 {request.value(), "value", in.value, true},
                 {request.query_clock(), "query_clock", in.query_clock, false},
                 {request.key_clock(), "key_clock", in.key_clock, false},
                 {request.bias(), "bias", in.bias, false},
                 {request.gates(), "gates", in.gates, false}};
  for (const auto& t : tensors) {
    if (!t.required && t.tensor.shape().empty()) continue;
    absl::StatusOr<Array> array = Array::Make(t.tensor, t.field);
    if (!array.ok()) return array.status();
    t.array = *std::move(array);
  }
  if (in.key.heads() < 1 || in.query.heads() % in.key.heads() != 0) {
    return absl::InvalidArgumentError("key: heads must divide the query's");
  }
  return in;
}

absl::StatusOr<std::vector<Generator>> GeneratorsOf(
    const v1::ResolvedEncoding& encoding, int64_t kv_heads, int64_t head_dim) {
  const int dim = static_cast<int>(head_dim);
  const int count = encoding.generators_size();
  if (count > 1 && count != kv_heads) {
    return absl::InvalidArgumentError(
        absl::StrCat(count, " generators, but ", kv_heads, " kv heads"));
  }
  std::vector<Generator> generators;
  for (const v1::ResolvedGenerator& resolved : encoding.generators()) {
    absl::StatusOr<Generator> generator = Generator::Make(resolved, dim);
    if (!generator.ok()) return generator.status();
    generators.push_back(*std::move(generator));
  }
  if (generators.empty()) {
    generators.push_back(*Generator::Make(v1::ResolvedGenerator(), dim));
  }
  return generators;
}

bool ReadsClock(const v1::ResolvedEncoding& encoding) {
  for (const v1::ResolvedGenerator& generator : encoding.generators()) {
    for (const v1::ResolvedBlock& block : generator.blocks()) {
      if (block.clock() == v1::CLOCK_REQUEST ||
          block.decay_drive().clock() == v1::CLOCK_REQUEST) {
        return true;
      }
    }
  }
  return false;
}

bool TakesAbsoluteLags(const v1::AttendRequest& request,
                       const v1::ResolvedEncoding& encoding) {
  const v1::TwoSidedRule rule = request.two_sided();
  return (rule == v1::TWO_SIDED_RULE_UNSPECIFIED
              ? encoding.definition().two_sided()
              : rule) == v1::TWO_SIDED_RULE_ABSOLUTE_LAG;
}

Scorer::Scorer(const v1::AttendRequest& request, const Inputs& in,
               const Times& times, const Sequence& sequence,
               const v1::ResolvedEncoding& encoding)
    : request_(request),
      in_(in),
      times_(times),
      sequence_(sequence),
      encoding_(encoding),
      group_(in.query.heads() / in.key.heads()),
      units_(encoding, times),
      visibility_(request, times, sequence, in.key.rows()),
      gates_(times, sequence, units_, visibility_.order(),
             GateWeightOf(encoding.definition()), in.gates),
      lags_(encoding, times, sequence, in.query_clock, in.key_clock),
      scale_(request.has_scale()
                 ? request.scale()
                 : 1 / std::sqrt(static_cast<double>(in.query.columns()))) {}

absl::StatusOr<std::unique_ptr<Scorer>> Scorer::Make(
    const v1::AttendRequest& request, const Inputs& in, const Times& times,
    const Sequence& sequence, const v1::ResolvedEncoding& encoding) {
  std::unique_ptr<Scorer> scorer(
      new Scorer(request, in, times, sequence, encoding));
  if (absl::Status status = scorer->Prepare(); !status.ok()) return status;
  return scorer;
}

absl::Status Scorer::Prepare() {
  if (!encoding_.alibi_slopes().empty() &&
      encoding_.alibi_slopes_size() != in_.query.heads()) {
    return absl::InvalidArgumentError(
        absl::StrCat(encoding_.alibi_slopes_size(), " slopes, but ",
                     in_.query.heads(), " query heads"));
  }
  absl::StatusOr<std::vector<Generator>> generators =
      GeneratorsOf(encoding_, in_.key.heads(), in_.query.columns());
  if (!generators.ok()) return generators.status();
  generators_ = *std::move(generators);
  clocked_ = ReadsClock(encoding_);
  if (gates_.any() && in_.gates.empty()) {
    return absl::InvalidArgumentError("gates: the encoding needs them");
  }
  absolute_lag_ = TakesAbsoluteLags(request_, encoding_);
  for (int64_t g = 0; g < in_.key.heads(); ++g) {
    for (int64_t j = 0; j < sequence_.keys; ++j) {
      if (!visibility_.ValidKey(j)) {
        keys_.emplace_back();
        continue;
      }
      absl::StatusOr<SizedRow> key = WithAbsolute(
          false, g, j,
          in_.key.Row(sequence_.batch, g, sequence_.first_key + j));
      if (!key.ok()) return key.status();
      keys_.push_back(*std::move(key));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<SizedRow> Scorer::WithAbsolute(
    bool query, int64_t kv_head, int64_t row,
    absl::Span<const double> vector) const {
  const auto since = [&](int64_t origin) {
    return units_.In(query ? times_.Query(sequence_, row, 0, origin)
                           : times_.Key(sequence_, row, 0, origin));
  };
  const int64_t event =
      query ? visibility_.QueryEvent(row) : visibility_.KeyEvent(row);
  const absl::StatusOr<std::vector<double>> parts =
      AbsoluteParts(encoding_.definition(), query, static_cast<int>(kv_head),
                    static_cast<int>(vector.size()), {since, event});
  if (!parts.ok()) return parts.status();
  SizedRow row_with_parts(vector);
  row_with_parts.Add(*parts);
  return row_with_parts;
}

double Scorer::Elapsed(int64_t i) const {
  if (visibility_.order().empty()) return 0;
  return units_
      .In(times_.QueryMinusKey(sequence_, i, visibility_.order().front()))
      .high;
}

double Scorer::Temperature(int64_t i) const {
  if (!encoding_.definition().has_query_temperature()) return 1;
  int64_t visible = 0;
  for (int64_t j = 0; j < sequence_.keys; ++j) {
    visible += visibility_.Sees(i, j) ? 1 : 0;
  }
  return TemperatureOf(encoding_.definition().query_temperature(), visible,
                       Elapsed(i));
}

void Scorer::Turn(int64_t kv_head, int64_t i, int64_t j) {
  lags_.Select(kv_head, i, j);
  product_.Turn(generators_[generators_.size() == 1 ? 0 : kv_head], lags_,
                absolute_lag_);
}

Bias Scorer::BiasOf(int64_t head, int64_t i, int64_t j) const {
  const DoubleDouble lag = units_.In(times_.QueryMinusKey(sequence_, i, j));
  const int h = static_cast<int>(head);
  Bias bias = LagBias(encoding_, h, static_cast<int>(in_.query.heads()), lag,
                      Elapsed(i));
  const Bias endpoints = EndpointBias(
      encoding_.definition(), h, std::abs(lag.high),
      in_.query.Row(sequence_.batch, head, sequence_.first_query + i),
      in_.key.Row(sequence_.batch, head / group_, sequence_.first_key + j));
  bias.Add(endpoints.value, endpoints.size);
  if (gates_.any()) bias.Add(gates_.Between(head, i, j));
  return bias;
}

void Scorer::ScorePair(int64_t head, int64_t i, int64_t j,
                       const SizedRow& query, double temperature, double* score,
                       double* logit_size) const {
  const double sent = in_.bias.empty() ? 0
                                       : in_.bias.At(sequence_.batch, head,
                                                     sequence_.first_query + i,
                                                     sequence_.first_key + j);
  if (sent == -kInfinity) return;
  const Product product =
      product_.Multiply(query, keys_[head / group_ * sequence_.keys + j]);
  double logit = scale_ * temperature * product.value;
  if (!std::isfinite(product.size)) logit = kNaN;
  if (request_.has_softcap()) {
    logit = request_.softcap() * std::tanh(logit / request_.softcap());
  }
  const Bias bias = BiasOf(head, i, j);
  *score = logit + bias.value + sent;
  *logit_size =
      std::max(*logit_size, std::abs(scale_ * temperature) * product.size +
                                bias.size + std::abs(sent));
}

absl::Status Scorer::Row(int64_t i, absl::Span<double> scores,
                         absl::Span<double> logit_sizes) {
  std::fill(scores.begin(), scores.end(), -kInfinity);
  std::fill(logit_sizes.begin(), logit_sizes.end(), 0.0);
  const double temperature = Temperature(i);
  const int64_t heads = in_.query.heads();
  std::vector<SizedRow> queries;
  for (int64_t h = 0; h < heads; ++h) {
    absl::StatusOr<SizedRow> query = WithAbsolute(
        true, h / group_, i,
        in_.query.Row(sequence_.batch, h, sequence_.first_query + i));
    if (!query.ok()) return query.status();
    queries.push_back(*std::move(query));
  }
  for (int64_t j = 0; j < sequence_.keys; ++j) {
    if (!visibility_.Sees(i, j)) continue;
    for (int64_t h = 0; h < heads; ++h) {
      const bool other_generator = clocked_ || generators_.size() > 1;
      if (h == 0 || (other_generator && h % group_ == 0)) {
        Turn(h / group_, i, j);
      }
      ScorePair(h, i, j, queries[h], temperature,
                &scores[h * in_.key.rows() + sequence_.first_key + j],
                &logit_sizes[h]);
    }
  }
  return absl::OkStatus();
}

}  // namespace attnd::client::resolved
