// Channels that are sines of time: sinusoidal encodings, Time2Vec, THP, SAHP.
#ifndef ATTND_KERNELS_SINE_CHANNELS_H_
#define ATTND_KERNELS_SINE_CHANNELS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/absolute_time.h"
#include "kernels/clock.h"
#include "kernels/encoding_spec.h"

namespace attnd {

// Channel c is amplitude * sin(w_c t + v_c i + phase_c) at time t in units
// since the origin and index i; with a linear channel 0, w_0 t + phase_0.
// Phases of sines are exact (rule N2) for every int64 time and origin.
class SineChannels {
 public:
  SineChannels(const TickRatio& ratio, int64_t origin_ticks)
      : ratio_(ratio), origin_(origin_ticks) {}

  // Vaswani et al. 2017 in three orders; dim is even.
  static SineChannels Sinusoidal(const SinusoidalPart& part, int dim,
                                 const TickRatio& ratio, int64_t origin_ticks);
  // [w0 t + b0, sin(w_i t + b_i)].
  static SineChannels Time2Vec(const Time2VecPart& part, const TickRatio& ratio,
                               int64_t origin_ticks);
  // THP as published: channel i from 1 is cos(t / 10000^((i-1)/dim)) for odd i,
  // sin(t / 10000^(i/dim)) for even i. SAHP: sin(w_k i + w'_k t).
  static SineChannels Hawkes(const HawkesPart& part, int dim,
                             const TickRatio& ratio, int64_t origin_ticks);

  int size() const { return static_cast<int>(channels_.size()); }

  // vector[c] = channel c, in double.
  void Exact(const AbsoluteTime& time, double* vector) const;
  // row[c] += channel c; each sine within amplitude * kCirclePointError.
  void AddToRow(const AbsoluteTime& time, AbsoluteScratch* scratch,
                float* row) const;

 private:
  struct Channel {
    TurnFrequency per_tick;
    TurnFrequency per_index;
    uint64_t phase = 0;   // turns * 2^64
    uint64_t origin = 0;  // phase of origin_ticks
  };

  void Append(double frequency, double index_frequency, uint64_t phase);
  uint64_t Phase(const Channel& channel, const AbsoluteTime& time) const;
  double Linear(const AbsoluteTime& time) const;

  TickRatio ratio_;
  int64_t origin_;
  std::vector<Channel> channels_;
  double amplitude_ = 1;
  bool linear_first_ = false;
  double slope_ = 0, intercept_ = 0;
};

// A part whose channels are sines.
std::unique_ptr<AbsoluteVector> MakeSineVector(SineChannels channels);

// mTAND (Shukla and Marlin 2021): W phi(t), phi = Time2Vec per head, so that
// with q = k = 0 scores depend on time alone.
std::unique_ptr<AbsoluteVector> MakeMultiTimeVector(const MultiTimePart& part,
                                                    int dim,
                                                    const TickRatio& ratio,
                                                    int64_t origin_ticks);

}  // namespace attnd

#endif  // ATTND_KERNELS_SINE_CHANNELS_H_
