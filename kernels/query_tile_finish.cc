// What a tile writes once all keys were seen, and the second pass of those
// answers that need every weight.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/bias.h"
#include "kernels/float16.h"
#include "kernels/key_mass.h"
#include "kernels/query_tile.h"

namespace attnd {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

int64_t TimeBits(const TimeAxis& axis, int64_t batch, int64_t row) {
  return axis.kind() == TimeAxis::Kind::kReal
             ? std::bit_cast<int64_t>(axis.Real(batch, row))
             : axis.Ticks(batch, row);
}

}  // namespace

int64_t QueryTile::RowIndex(int64_t row) const {
  const Shape4& q = plan_->problem().query.shape();
  return (batch_ * q.heads + place_.head) * q.rows +
         item_->QueryRow(place_.first + row);
}

int64_t QueryTile::OutputRow(int64_t row) const {
  return plan_->problem().query.RowNumber(batch_, place_.head,
                                          item_->QueryRow(place_.first + row));
}

// Neither the mask nor a bias of -inf hides the key.
bool QueryTile::Sees(int64_t i, int64_t j) const {
  const TensorRef& bias = plan_->problem().bias;
  return item_->Sees(i, j) &&
         (bias.shape() == Shape4{} ||
          BiasElement(bias, batch_, place_.head, item_->QueryRow(i),
                      item_->KeyRow(j)) != kMinusInfinity);
}

bool QueryTile::SeesKey(int64_t i) const {
  for (int64_t j = item_->begin[i]; j < item_->end[i]; ++j) {
    if (Sees(i, j)) return true;
  }
  return false;
}

void QueryTile::Finish(const KeyPack& pack, const OutputBuffers& out) {
  if (half_) GatherHalfValues();
  if (FinishAtOnce(pack, out)) return;
  for (int64_t r = 0; r < place_.rows; ++r) {
    // A row that sees no key has no biases to be relative to.
    const double reference =
        max_[r] == kMinusInfinity ? 0 : bias_.Reference(place_.first + r);
    FinishRow(r, reference, TakeSink(r, reference), pack, out);
  }
}

// The output alone, in f32 and in the order of the request. False when it is
// anything more, or when a row saw nothing.
bool QueryTile::FinishAtOnce(const KeyPack& pack, const OutputBuffers& out) {
  const AttentionProblem& problem = plan_->problem();
  const OutputSet& wanted = problem.outputs;
  if (!wanted.output || wanted.lse || wanted.scores || wanted.weights ||
      wanted.entropy || wanted.key_mass || wanted.top_k > 0 ||
      !out.halves.empty() || !problem.sinks.empty() ||
      !problem.value_mask.empty() || !pack.non_finite().empty() ||
      !item_->query_order.empty()) {
    return false;
  }
  const Shape4& value = problem.value.shape();
  const int64_t heads =
      problem.query.layout() == Layout::kBHLD ? 1 : problem.query.shape().heads;
  return NormaliseRows(values_.data(), static_cast<int>(place_.rows),
                       value_dim_, value.cols, sums_.data(),
                       out.output.data() + OutputRow(0) * value.cols,
                       heads * value.cols);
}

// Takes the head's sink into the row's state; returns its logit beside the
// row's, -inf for none.
float QueryTile::TakeSink(int64_t row, double reference) {
  const absl::Span<const float> sinks = plan_->problem().sinks;
  if (sinks.empty()) return kMinusInfinity;
  const auto sink = static_cast<float>(sinks[place_.head] - reference);
  float* moments = plan_->problem().outputs.entropy
                       ? moments_.data() + row * kSumLanes
                       : nullptr;
  const float factor =
      AddSink(sink, &max_[row], sums_.data() + row * kSumLanes, moments);
  float* values = values_.data() + row * value_dim_;
  // What no key has touched is not even zero.
  if (factor == 0) {
    std::fill(values, values + value_dim_, 0.0f);
  } else {
    ScaleRows(values, 1, value_dim_, &factor);
  }
  return sink;
}

void QueryTile::FinishRow(int64_t row, double reference, float sink,
                          const KeyPack& pack, const OutputBuffers& out) {
  const AttentionProblem& problem = plan_->problem();
  const int64_t i = place_.first + row;
  const int64_t dim = problem.value.shape().cols;
  const bool halves = !out.halves.empty();
  const bool wanted = halves || !out.output.empty();
  float* output = wanted && !halves ? out.output.data() + OutputRow(row) * dim
                                    : raw_.data();
  float sum = NormaliseRow(values_.data() + row * value_dim_, wanted ? dim : 0,
                           sums_.data() + row * kSumLanes, output);
  // Finite logits beyond f32's range are not the same as seeing no key.
  const bool overflown = sum == 0 && SeesKey(i);
  if (overflown) sum = kNaN;
  share_[row] = sum == 0 ? 0 : 1 / sum;
  if (wanted) {
    if (overflown) {
      std::fill(output, output + dim, sum);
    } else if (sum != 0 && !problem.value_mask.empty()) {
      AverageChannels(row, sink, pack, output);
    }
    if (!pack.non_finite().empty()) MarkNonFinite(pack, row, output);
  }
  if (halves) {
    HalvesFromFloats(problem.output_dtype, output, dim,
                     out.halves.data() + OutputRow(row) * dim);
  }
  if (!out.lse.empty()) {
    out.lse[RowIndex(row)] =
        sum == 0
            ? kMinusInfinity
            : static_cast<float>(max_[row] + std::log(double{sum}) + reference);
  }
  if (!out.weights.empty()) {
    const int64_t width = problem.key.shape().rows;
    WriteWeights(row, sum, overflown,
                 out.weights.data() + RowIndex(row) * width);
  }
  if (!out.entropy.empty()) {
    const float beside =
        sink == kMinusInfinity ? 0.0f : std::exp(sink - max_[row]);
    out.entropy[RowIndex(row)] = Entropy(row, sum - beside, sum);
  }
  if (!out.top_rows.empty()) WriteTopKeys(row, sum, out);
}

// Each channel by the sum over its own keys, which stands behind the values.
void QueryTile::AverageChannels(int64_t row, float sink, const KeyPack& pack,
                                float* out) {
  const int64_t dim = plan_->problem().value.shape().cols;
  const float* values = values_.data() + row * value_dim_;
  const float beside =
      sink == kMinusInfinity ? 0.0f : std::exp(sink - max_[row]);
  for (int64_t c = 0; c < dim; ++c) {
    const float sum = values[dim + c] + beside;
    if (sum < kLeastChannelSum) {
      out[c] = 0;
      if (pack.Observed(c)) channels_.Add(row, c, sink);
    } else {
      out[c] = values[c] / sum;
    }
  }
}

void QueryTile::MarkNonFinite(const KeyPack& pack, int64_t row,
                              float* out) const {
  const int64_t i = place_.first + row;
  for (size_t c = 0; c < pack.non_finite().size(); ++c) {
    const std::vector<int32_t>& keys = pack.non_finite()[c];
    const auto end = std::lower_bound(keys.begin(), keys.end(), item_->end[i]);
    const auto begin = std::lower_bound(keys.begin(), end, item_->begin[i]);
    if (std::any_of(begin, end, [&](int32_t j) { return Sees(i, j); })) {
      out[c] = kNaN;
    }
  }
}

// With p = exp(x) over a row, w = p / sum: -sum w ln w = (ln(sum) sum p - sum p
// x) / sum.
float QueryTile::Entropy(int64_t row, float key_sum, float sum) const {
  if (sum == 0) return 0;
  const double moment = SumLanes(moments_.data() + row * kSumLanes);
  return static_cast<float>((std::log(double{sum}) * key_sum - moment) / sum);
}

void QueryTile::WriteWeights(int64_t row, float sum, bool overflown,
                             float* weights) {
  const int64_t i = place_.first + row;
  WeightsFromLogits(weights, plan_->problem().key.shape().rows, max_[row], sum,
                    weights);
  for (int64_t j = item_->begin[i]; overflown && j < item_->end[i]; ++j) {
    if (Sees(i, j)) weights[item_->KeyRow(j)] = sum;
  }
}

void QueryTile::WriteTopKeys(int64_t row, float sum, const OutputBuffers& out) {
  const AttentionProblem& problem = plan_->problem();
  const int64_t wanted = problem.outputs.top_k;
  const int64_t first = RowIndex(row) * wanted;
  const absl::Span<const TopKeys::Candidate> found = top_keys_.Sorted(row);
  const auto count = static_cast<int64_t>(found.size());
  float* weights = out.top_weights.data() + first;
  for (int64_t k = 0; k < wanted; ++k) {
    weights[k] = k < count ? found[k].logit : kMinusInfinity;
    out.top_rows[first + k] = k < count ? found[k].row : -1;
    if (out.top_times.empty()) continue;
    out.top_times[first + k] =
        k < count ? TimeBits(problem.key_time, batch_, found[k].row) : 0;
  }
  WeightsFromLogits(weights, wanted, max_[row], sum, weights);
}

bool QueryTile::NeedsSecondPass(const OutputBuffers& out) const {
  return !out.key_sums.empty() || !channels_.empty();
}

absl::Status QueryTile::Revisit(TileGemm& gemm, KeyPack& pack, const Step& step,
                                const OutputBuffers& out) {
  absl::Status status = MakeLogits(gemm, pack, step);
  if (!status.ok()) return status;
  if (!out.key_sums.empty()) {
    float sums[kMaxTileKeys] = {};
    AddWeights(Tile(step), share_ + step.first, sums);
    const Shape4 &q = plan_->problem().query.shape(),
                 &k = plan_->problem().key.shape();
    uint64_t* mass =
        out.key_sums.data() + (batch_ * q.heads + place_.head) * k.rows;
    const int64_t last = std::min(step.key + step.keys, item_->key_rows);
    for (int64_t j = step.key; j < last; ++j) {
      AddKeyMass(sums[j - step.key], q.rows, mass[item_->KeyRow(j)]);
    }
  }
  if (channels_.empty()) return absl::OkStatus();
  const float* values = pack.Values(step.key, step.key + step.keys);
  for (int64_t r = 0; r < step.rows; ++r) {
    float* logits = logits_.data() + r * step.keys;
    for (int64_t c = begin_[r]; split_ && c < end_[r]; ++c) {
      logits[c] += bias_.column()[c] + bias_.row()[r];
    }
    channels_.Advance(step.first + r, logits + begin_[r], end_[r] - begin_[r],
                      values + begin_[r] * value_dim_, value_dim_,
                      plan_->problem().value.shape().cols);
  }
  return absl::OkStatus();
}

void QueryTile::FinishAgain(const KeyPack& pack, const OutputBuffers& out) {
  const AttentionProblem& problem = plan_->problem();
  const int64_t dim = problem.value.shape().cols;
  channels_.Finish([&](int64_t row, int64_t channel, float average) {
    // A value that is not finite stays what Finish made of it.
    if (!pack.non_finite().empty()) {
      std::vector<float> mark(dim, average);
      MarkNonFinite(pack, row, mark.data());
      average = mark[channel];
    }
    const int64_t element = OutputRow(row) * dim + channel;
    if (out.halves.empty()) {
      out.output[element] = average;
    } else {
      HalvesFromFloats(problem.output_dtype, &average, 1, &out.halves[element]);
    }
  });
}

}  // namespace attnd
