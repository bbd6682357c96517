#include "kernels/sine_channels.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/circle_points.h"

namespace attnd {
namespace {

// A quarter turn: cos x = sin(x + pi/2).
constexpr uint64_t kQuarter = uint64_t{1} << 62;
constexpr TickRatio kUnitPerTick;

// The difference as a double, without overflow.
double Since(int64_t ticks, int64_t origin) {
  return static_cast<double>(static_cast<__int128>(ticks) - origin);
}

}  // namespace

void SineChannels::Append(double frequency, double index_frequency,
                          uint64_t phase) {
  Channel channel{.per_tick = MakeTurnFrequency(frequency, ratio_),
                  .per_index = MakeTurnFrequency(index_frequency, kUnitPerTick),
                  .phase = phase};
  channel.origin = PhaseWord(channel.per_tick, origin_);
  channels_.push_back(channel);
}

SineChannels SineChannels::Sinusoidal(const SinusoidalPart& part, int dim,
                                      const TickRatio& ratio,
                                      int64_t origin_ticks) {
  using Order = SinusoidalPart::Order;
  SineChannels channels(ratio, origin_ticks);
  channels.amplitude_ = part.amplitude;
  const int pairs = dim / 2;
  const double last = part.order == Order::kEndpoints
                          ? std::max(pairs - 1, 1)
                          : static_cast<double>(dim) / 2;
  for (int c = 0; c < 2 * pairs; ++c) {
    const bool interleaved = part.order == Order::kInterleaved;
    const int i = interleaved ? c / 2 : c % pairs;
    const bool cosine = interleaved ? c % 2 == 1 : c >= pairs;
    channels.Append(std::pow(part.base, -i / last), 0, cosine ? kQuarter : 0);
  }
  return channels;
}

SineChannels SineChannels::Time2Vec(const Time2VecPart& part,
                                    const TickRatio& ratio,
                                    int64_t origin_ticks) {
  SineChannels channels(ratio, origin_ticks);
  channels.linear_first_ = true;
  channels.slope_ = part.frequencies[0];
  channels.intercept_ = part.phases[0];
  for (size_t c = 0; c < part.frequencies.size(); ++c) {
    channels.Append(part.frequencies[c], 0,
                    MakeTurnFrequency(part.phases[c], kUnitPerTick).hi);
  }
  return channels;
}

SineChannels SineChannels::Hawkes(const HawkesPart& part, int dim,
                                  const TickRatio& ratio,
                                  int64_t origin_ticks) {
  SineChannels channels(ratio, origin_ticks);
  for (int c = 0; c < dim; ++c) {
    if (part.index_form) {
      channels.Append(part.time_frequencies[c], part.index_frequencies[c], 0);
      continue;
    }
    const int i = c + 1;
    const bool odd = i % 2 == 1;
    const double exponent = static_cast<double>(odd ? i - 1 : i) / dim;
    channels.Append(std::pow(10000.0, -exponent), 0, odd ? kQuarter : 0);
  }
  return channels;
}

uint64_t SineChannels::Phase(const Channel& channel,
                             const AbsoluteTime& time) const {
  const uint64_t word = time.exact ? PhaseWord(channel.per_tick, time.ticks)
                                   : PhaseWord(channel.per_tick, time.real);
  return word - (time.position ? 0 : channel.origin) +
         PhaseWord(channel.per_index, time.index) + channel.phase;
}

double SineChannels::Linear(const AbsoluteTime& time) const {
  const int64_t origin = time.position ? 0 : origin_;
  const double ticks = time.exact ? Since(time.ticks, origin)
                                  : time.real - static_cast<double>(origin);
  return slope_ * (ticks * ratio_.units_per_tick()) + intercept_;
}

void SineChannels::Exact(const AbsoluteTime& time, double* vector) const {
  for (size_t c = 0; c < channels_.size(); ++c) {
    const auto phase = static_cast<int64_t>(Phase(channels_[c], time));
    vector[c] = amplitude_ *
                std::sin(static_cast<double>(phase) * (2 * M_PI * 0x1p-64));
  }
  if (linear_first_) vector[0] = amplitude_ * Linear(time);
}

void SineChannels::AddToRow(const AbsoluteTime& time, AbsoluteScratch* scratch,
                            float* row) const {
  const size_t n = channels_.size();
  scratch->phases.resize(n);
  scratch->cosines.resize(n);
  scratch->sines.resize(n);
  for (size_t c = 0; c < n; ++c) {
    scratch->phases[c] = Phase(channels_[c], time);
  }
  CirclePoints(scratch->phases.data(), static_cast<int64_t>(n),
               scratch->cosines.data(), scratch->sines.data());
  const auto amplitude = static_cast<float>(amplitude_);
  for (size_t c = linear_first_ ? 1 : 0; c < n; ++c) {
    row[c] += amplitude * scratch->sines[c];
  }
  if (linear_first_) row[0] += static_cast<float>(amplitude_ * Linear(time));
}

namespace {

class SineVector : public AbsoluteVector {
 public:
  explicit SineVector(SineChannels channels) : channels_(std::move(channels)) {}

  void AddExact(bool, int, const AbsoluteTime& time,
                double* vector) const override {
    std::vector<double> values(channels_.size());
    channels_.Exact(time, values.data());
    for (size_t c = 0; c < values.size(); ++c) vector[c] += values[c];
  }
  void AddToRow(bool, int, const AbsoluteTime& time, AbsoluteScratch* scratch,
                float* row) const override {
    channels_.AddToRow(time, scratch, row);
  }

 private:
  SineChannels channels_;
};

class MultiTimeVector : public AbsoluteVector {
 public:
  MultiTimeVector(const MultiTimePart& part, int dim, const TickRatio& ratio,
                  int64_t origin_ticks)
      : dim_(dim), query_(part.query_projection), key_(part.key_projection) {
    for (const Time2VecPart& head : part.embedding) {
      heads_.push_back(SineChannels::Time2Vec(head, ratio, origin_ticks));
    }
  }

  void AddExact(bool query, int head, const AbsoluteTime& time,
                double* vector) const override {
    std::vector<double> embedding(heads_[0].size());
    Project(query, head, time, embedding.data(), vector);
  }
  void AddToRow(bool query, int head, const AbsoluteTime& time,
                AbsoluteScratch* scratch, float* row) const override {
    scratch->embedding.resize(heads_[0].size());
    Project(query, head, time, scratch->embedding.data(), row);
  }

 private:
  // out += W phi(t), summed in double.
  template <typename Number>
  void Project(bool query, int head, const AbsoluteTime& time,
               double* embedding, Number* out) const {
    const SineChannels& phi = heads_[heads_.size() == 1 ? 0 : head];
    phi.Exact(time, embedding);
    const float* weight = (query ? query_ : key_).data();
    for (int c = 0; c < dim_; ++c, weight += phi.size()) {
      double sum = 0;
      for (int e = 0; e < phi.size(); ++e) sum += weight[e] * embedding[e];
      out[c] += static_cast<Number>(sum);
    }
  }

  int dim_;
  std::vector<SineChannels> heads_;
  std::vector<float> query_, key_;
};

}  // namespace

std::unique_ptr<AbsoluteVector> MakeSineVector(SineChannels channels) {
  return std::make_unique<SineVector>(std::move(channels));
}

std::unique_ptr<AbsoluteVector> MakeMultiTimeVector(const MultiTimePart& part,
                                                    int dim,
                                                    const TickRatio& ratio,
                                                    int64_t origin_ticks) {
  return std::make_unique<MultiTimeVector>(part, dim, ratio, origin_ticks);
}

}  // namespace attnd
