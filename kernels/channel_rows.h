// Rows of a tile some of whose value channels see observed keys only of next to
// no weight beside the row's others, so that exp of their logits against the
// row's maximum vanishes. These channels are averaged anew, each against its
// own maximum.
#ifndef ATTND_KERNELS_CHANNEL_ROWS_H_
#define ATTND_KERNELS_CHANNEL_ROWS_H_

#include <cstdint>
#include <vector>

namespace attnd {

// Below this share of exp(maximum), what f32 flushes to zero may count: 8192
// weights of 2^-126 against it are 1e-10 of the whole.
inline constexpr float kLeastChannelSum = 0x1p-80f;

class ChannelRows {
 public:
  void Start() { channels_.clear(); }
  bool empty() const { return channels_.empty(); }

  // A channel of a row that must be averaged anew; `sink` is the logit of the
  // denominator's own, -inf for none.
  void Add(int64_t row, int64_t channel, float sink);

  // Logits (of visible keys) of the row for keys whose packed rows begin at
  // `values`: [value, observed] as key_pack.h lays them out.
  void Advance(int64_t row, const float* logits, int64_t count,
               const float* values, int64_t stride, int64_t dim);

  // average(row, channel, value) for each channel; 0 if it saw nothing.
  template <typename Write>
  void Finish(Write write) const {
    for (const Channel& c : channels_) {
      write(c.row, c.channel,
            static_cast<float>(c.sum > 0 ? c.weighted / c.sum : 0));
    }
  }

 private:
  struct Channel {
    int64_t row = 0, channel = 0;
    double max = 0, sum = 0, weighted = 0;
  };
  std::vector<Channel> channels_;  // by row
};

}  // namespace attnd

#endif  // ATTND_KERNELS_CHANNEL_ROWS_H_
