// What the loops READ of an encoding: flat arrays for one head dimension, head
// count and tick length. Symbolic twin: generator.h.
#ifndef ATTND_KERNELS_ENCODER_H_
#define ATTND_KERNELS_ENCODER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/clock.h"
#include "kernels/generator.h"

namespace attnd {

struct EncoderSizes {
  int head_dim = 0;
  int query_heads = 0;
  int kv_heads = 0;
};

// Immutable after Compile; shared by all threads.
class Encoder {
 public:
  // INVALID_ARGUMENT when the spec does not fit the sizes (too few channels,
  // slopes for another number of heads) or is itself invalid.
  static absl::StatusOr<std::shared_ptr<const Encoder>> Compile(
      const EncodingSpec& spec, const EncoderSizes& sizes,
      const TickRatio& ratio);

  const EncoderSizes& sizes() const { return sizes_; }
  const TickRatio& ratio() const { return ratio_; }
  const Generator& generator() const { return generator_; }

  // Rotation planes exist.
  bool rotates() const { return !groups_.empty(); }

  // Slope of -slope * |D| in logits per unit for a query head; 0 without ALiBi.
  double slope(int query_head) const {
    return slopes_.empty() ? 0.0 : slopes_[query_head];
  }
  bool has_linear_bias() const { return !slopes_.empty(); }

  // Defined for lag >= 0 only: negative visible lags must be refused.
  bool one_sided() const { return one_sided_; }

  // A run of planes whose channels lie regularly.
  struct PlaneGroup {
    int first_channel = 0;
    int planes = 0;
    int distance = 0;  // channels between a half-split pair
    PairLayout layout = PairLayout::kHalfSplit;
    int table_offset = 0;  // of its first plane in the cos/sin tables
  };
  const std::vector<PlaneGroup>& groups() const { return groups_; }
  int planes() const { return static_cast<int>(generator_.planes().size()); }
  // Turn frequencies per plane, split into halves for vector loads and padded
  // with zeros to a multiple of 16 planes.
  absl::Span<const uint64_t> frequencies_hi() const { return frequencies_hi_; }
  absl::Span<const uint64_t> frequencies_lo() const { return frequencies_lo_; }
  // Their whole turns per tick, which real times need.
  absl::Span<const int64_t> whole_turns() const { return whole_turns_; }

 private:
  Encoder() = default;
  EncoderSizes sizes_;
  TickRatio ratio_;
  Generator generator_;
  std::vector<PlaneGroup> groups_;
  std::vector<uint64_t> frequencies_hi_, frequencies_lo_;
  std::vector<int64_t> whole_turns_;
  std::vector<double> slopes_;
  bool one_sided_ = false;
};

}  // namespace attnd

#endif  // ATTND_KERNELS_ENCODER_H_
