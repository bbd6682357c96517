// What the loops READ of an encoding: flat arrays for one head dimension, head
// count, tick length and (where it matters) sequence length. Symbolic twin:
// generator.h.
#ifndef ATTND_KERNELS_ENCODER_H_
#define ATTND_KERNELS_ENCODER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/absolute.h"
#include "kernels/clock.h"
#include "kernels/cumulative_bias.h"
#include "kernels/encoding_spec.h"
#include "kernels/endpoint_bias.h"
#include "kernels/free_turns.h"
#include "kernels/generator.h"
#include "kernels/lag_bias.h"

namespace attnd {

struct EncoderSizes {
  int head_dim = 0;
  int query_heads = 0;
  int kv_heads = 0;
  // Valid keys of the item, for scalings that depend on it (dynamic NTK,
  // LongRoPE); see Encoder::length_dependent.
  int64_t length = 0;
};

// The encoding of one kv head. Encoded rows have their channels in an order of
// their own, the same for q and k, in which every loop below is contiguous:
// `position` means an index in that order, `channel` one of the head as sent.
class HeadEncoder {
 public:
  // A run of planes at regular positions, with consecutive entries in the phase
  // tables.
  struct PlaneGroup {
    int first = 0;  // position of the first plane's first member
    int planes = 0;
    int distance = 0;  // positions between the members of a half-split pair
    PairLayout layout = PairLayout::kHalfSplit;
    int table_offset = 0;
  };
  // `count` chains of `order` jets: jet r of chain i at first + r * count + i.
  struct ChainGroup {
    int order = 1;
    int first = 0;
    int count = 0;
    int factor_offset = 0;  // of its first chain in the arrays below
    // Count is a multiple of 32, and chain i + count / 2 acts as chain i does:
    // both members of planes.
    bool halves_alike = false;
  };
  // exp(D M) on `size` positions from `first` on.
  struct Small {
    int first = 0;
    int size = 0;
    int source = 0;
    std::vector<double> matrix;
    // For negative lags under the two-sided rule: exp(|D| mirrored).
    std::vector<double> mirrored;
  };

  const Generator& generator() const { return generator_; }

  // Channel at each position; empty = identity.
  const std::vector<int>& order() const { return order_; }
  // Row-major [dim in, dim out] in encoded order: q' = q B_q, k' = k B_k. Empty
  // without a basis (then common_scale multiplies all positions, and `scale`,
  // if not empty, each its own).
  const std::vector<float>& query_basis() const { return query_basis_; }
  const std::vector<float>& key_basis() const { return key_basis_; }
  const std::vector<float>& scale() const { return scale_; }
  float common_scale() const { return common_scale_; }

  const std::vector<PlaneGroup>& plane_groups() const { return plane_groups_; }
  // Planes (p, p + planes) that are all a row of this head turns, and nothing
  // else happens to it but a common scale (0: nothing at all); -1 where it is
  // not that simple.
  int half_split_planes() const;
  // Whether rows are turned by a phase row when they are encoded.
  bool turns() const { return phase_floats() > 0 && !pairwise(); }
  // Entries in a phase table: planes rounded up to 16.
  int table_size() const { return table_size_; }
  // Turns by places; their matrices stand behind the phases of a row.
  const std::vector<FreeTurn>& free_turns() const { return free_turns_; }
  // Floats of a phase row: cosines, sines, matrices; a multiple of 16.
  int phase_floats() const { return 2 * table_size_ + matrix_floats_; }
  // Turn frequencies per tick of one source, [table_size] each half.
  struct Frequencies {
    int source = 0;
    std::vector<uint64_t> hi, lo;
    std::vector<__int128> whole;  // turns per tick, which real times need
    std::vector<double> omega;    // rad per unit, for real-valued clocks
    // Turns per unit of a learned clock (ClockTurns); empty along times.
    std::vector<double> clock_high, clock_low;
    // Per 16 entries of the table, whether any plane of them turns.
    std::vector<bool> turning;
  };
  const std::vector<Frequencies>& frequencies() const { return frequencies_; }

  const std::vector<ChainGroup>& chain_groups() const { return chain_groups_; }
  const ChainGroup& group_of(int chain) const;
  // Per chain, in group order: rate and coupling per unit and the source.
  const std::vector<float>& rates() const { return rates_; }
  const std::vector<float>& couplings() const { return couplings_; }
  // The same before they were rounded to float.
  const std::vector<double>& exact_rates() const { return exact_rates_; }
  const std::vector<double>& exact_couplings() const {
    return exact_couplings_;
  }
  const std::vector<int>& chain_sources() const { return chain_sources_; }
  // The source of all chains, or -1 if they differ.
  int common_source() const { return common_source_; }
  // Some chain has a coupling: factors need z.
  bool coupled() const { return coupled_; }
  const std::vector<Small>& smalls() const { return smalls_; }
  // Sources of the chains that do something and of small blocks, ascending, and
  // whether all of them grow along the item's order (coordinate 0 and learned
  // clocks do).
  const std::vector<int>& decay_sources() const { return decay_sources_; }
  bool decays_sorted() const { return decays_sorted_; }

  // Eigenvalue chains for phi1: `order` jets of a complex (im >= 0) or real
  // channel. exp-like functions f act as sum_i f^(i)(z)/i! (coupling D)^i N^i
  // with z = -rate |D| - i sum_a omega_a D_a.
  struct Spectral {
    std::vector<int> re, im;  // positions per jet; im empty for a real chain
    double rate = 0, coupling = 0;
    int source = 0;                             // of rate and coupling
    std::vector<std::pair<int, double>> turns;  // source, omega
  };
  // Of every head: averaged encodings and held keys read it.
  const std::vector<Spectral>& spectrum() const { return spectrum_; }

  // Something besides planes: needs local references (rule N3).
  bool one_sided() const { return !rates_.empty() || !smalls_.empty(); }
  // Evaluated pair by pair (phi1).
  bool pairwise() const { return generator_.averaged(); }
  // Anything to do at all.
  bool identity() const;

 private:
  friend class EncoderBuilder;
  Generator generator_;
  std::vector<int> order_;
  std::vector<float> query_basis_, key_basis_, scale_;
  float common_scale_ = 1;
  std::vector<PlaneGroup> plane_groups_;
  int table_size_ = 0;
  std::vector<FreeTurn> free_turns_;
  int matrix_floats_ = 0;
  std::vector<Frequencies> frequencies_;
  std::vector<ChainGroup> chain_groups_;
  std::vector<float> rates_, couplings_;
  std::vector<double> exact_rates_, exact_couplings_;
  std::vector<int> chain_sources_;
  int common_source_ = -1;
  bool coupled_ = false;
  std::vector<Small> smalls_;
  std::vector<int> decay_sources_;
  bool decays_sorted_ = true;
  std::vector<Spectral> spectrum_;
};

// Immutable after Compile; shared by all threads.
class Encoder {
 public:
  // Ratios of coordinates 1, 2, ... come from the spec's units and the same
  // tick lengths. INVALID_ARGUMENT when the spec does not fit the sizes (too
  // few channels, lists for another number of heads) or is itself invalid.
  // CANCELLED soon after `stop` becomes true.
  static absl::StatusOr<std::shared_ptr<const Encoder>> Compile(
      const EncodingSpec& spec, const EncoderSizes& sizes,
      const TickRatio& ratio, const std::vector<TickRatio>& further = {},
      const std::atomic<bool>* stop = nullptr);

  const EncodingSpec& spec() const { return spec_; }
  const EncoderSizes& sizes() const { return sizes_; }
  const TickRatio& ratio() const { return ratio_; }
  // Of what drives a block.
  TickRatio RatioOf(const Drive& drive) const;

  const HeadEncoder& head(int64_t kv_head) const {
    return heads_.size() == 1 ? heads_[0] : heads_[kv_head];
  }
  // One generator serves all heads.
  bool one_generator() const { return heads_.size() == 1; }
  // What blocks advance along; sources of planes and chains index this list.
  const std::vector<Drive>& sources() const { return sources_; }
  // Units per tick of a source (1 for learned clocks).
  double units_per_tick(int source) const { return units_per_tick_[source]; }
  // Some source is a learned clock; its channel count must cover them.
  bool uses_clock() const;
  int clock_channels() const;
  int coordinates() const;

  // Slope of -slope * |D| in logits per unit for a query head; 0 without ALiBi.
  double slope(int query_head) const {
    return slopes_.empty() ? 0.0 : slopes_[query_head];
  }
  bool has_linear_bias() const { return !slopes_.empty(); }
  const LagBias& lag_bias() const { return *lag_bias_; }
  const EndpointBias& endpoint_bias() const { return endpoint_bias_; }
  // Of the request's gates; any() false: no gates are read.
  const GateWeights& gate_weights() const { return gate_weights_; }
  bool has_bias() const {
    return has_linear_bias() || !lag_bias_->empty() ||
           !endpoint_bias_.empty() || gate_weights_.any();
  }

  // Vectors added to rows of q and k before everything else.
  const Absolute& absolute() const { return *absolute_; }

  // Defined for lag >= 0 only: negative visible lags must be refused.
  bool one_sided() const { return one_sided_; }
  // Decays and couplings take |D| (the two-sided rule).
  bool absolute_lag() const { return spec_.absolute_lag; }
  bool length_dependent() const { return length_dependent_; }
  bool hf_fp32_angles() const { return spec_.hf_fp32_angles; }

 private:
  friend class EncoderBuilder;
  Encoder() = default;
  absl::Status CompileHeads(const std::atomic<bool>* stop);
  absl::Status CompileBiases();

  EncodingSpec spec_;
  EncoderSizes sizes_;
  TickRatio ratio_;
  std::vector<TickRatio> further_;
  std::vector<HeadEncoder> heads_;
  std::vector<Drive> sources_;
  std::vector<double> units_per_tick_;
  std::vector<double> slopes_;
  std::shared_ptr<const LagBias> lag_bias_;
  EndpointBias endpoint_bias_;
  GateWeights gate_weights_;
  std::shared_ptr<const Absolute> absolute_;
  bool one_sided_ = false;
  bool length_dependent_ = false;
};

}  // namespace attnd

#endif  // ATTND_KERNELS_ENCODER_H_
