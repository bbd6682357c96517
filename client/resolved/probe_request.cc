#include "client/resolved/probe_request.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "client/random.h"
#include "client/request.h"

namespace attnd::client::resolved {
namespace {

constexpr int64_t kEpochNs = 1'700'000'000'000'000'000;
constexpr double kLongestGapNs = 8.64e15;
// Of what turns by places.
constexpr double kLongestFreeGap = 1e4;
// Rad per unit: 1e-9 of a unit is no exact double, and from here on it matters.
constexpr double kFastest = 0x1p60;

class Builder {
 public:
  Builder(const v1::ResolvedEncoding& encoding, const Probe& probe)
      : encoding_(encoding), probe_(probe), random_(probe.seed) {
    for (const v1::ResolvedGenerator& generator : encoding.generators()) {
      for (const v1::ResolvedBlock& block : generator.blocks()) Look(block);
    }
    for (const v1::Bias& bias : encoding.definition().biases()) {
      gates_ |= bias.has_cumulative_gate() || bias.has_path_integral();
    }
    for (const v1::Absolute& part : encoding.definition().absolutes()) {
      if (part.has_learned_table()) table_ = &part;
    }
  }

  v1::AttendRequest Build();

 private:
  template <typename Message>
  void LookAtDrive(const Message& drive, int axes = 1) {
    if (drive.clock() == v1::CLOCK_REQUEST) {
      channels_ = std::max<int64_t>(channels_, drive.clock_channel() + axes);
    } else {
      coordinates_ = std::max(coordinates_, drive.coordinate() + axes);
    }
  }

  void Look(const v1::ResolvedBlock& block) {
    const int size = block.channels_size();
    free_ |= block.kind() == "liere";
    fast_ |= std::abs(block.frequency()) > kFastest;
    LookAtDrive(block, block.kind() == "liere"
                           ? block.matrix_size() / std::max(1, size * size)
                           : 1);
    if (block.has_decay_drive()) LookAtDrive(block.decay_drive());
    for (const v1::ResolvedTerm& term : block.further()) {
      LookAtDrive(term);
      fast_ |= std::abs(term.frequency()) > kFastest;
    }
  }

  template <typename Draw>
  v1::Tensor Filled(const std::vector<int64_t>& shape, const Draw& draw) {
    int64_t count = 1;
    for (int64_t extent : shape) count *= extent;
    std::vector<double> values(count);
    for (double& x : values) x = draw();
    return *MakeTensor(values, shape);
  }
  v1::Tensor Normal(int64_t heads, int64_t rows, int64_t columns) {
    return Filled({probe_.batch, heads, rows, columns},
                  [&] { return random_.Normal(); });
  }

  // Units since the start, faster by a sixteenth from channel to channel: a
  // clock that never runs back from a key to a query that sees it.
  v1::Tensor Clock(int64_t rows, const std::vector<double>& elapsed) {
    std::vector<double> values;
    for (int64_t n = 0; n < probe_.batch * probe_.kv_heads; ++n) {
      for (int64_t i = 0; i < rows; ++i) {
        const double units = elapsed[n / probe_.kv_heads * rows + i];
        for (int64_t c = 0; c < channels_; ++c) {
          values.push_back(units * (1 + static_cast<double>(c) / 16));
        }
      }
    }
    return *MakeTensor(values,
                       {probe_.batch, probe_.kv_heads, rows, channels_});
  }

  // Of a row of the learned table, in ticks.
  int64_t TimeOfRow(double unit, bool positions) {
    const v1::LearnedTable& table = table_->learned_table();
    const auto row = static_cast<double>(random_.Below(table.rows()));
    const double step = table.has_step() ? table.step() : 1;
    return (positions ? 0 : table_->origin_ticks()) +
           std::llround((row - table.row_offset()) * step * unit);
  }

  double Whole(double gap, double unit) const {
    return fast_ && unit < kLongestGapNs
               ? unit * std::max(1.0, std::floor(gap / unit))
               : gap;
  }

  // `elapsed`: units since the start, of coordinate 0.
  v1::TimeAxis Times(int64_t rows, std::vector<double>& elapsed) {
    const bool positions = encoding_.unit_nanoseconds() == 0;
    const double unit = positions ? 1 : encoding_.unit_nanoseconds();
    const bool near_zero = positions || free_;
    const double longest =
        free_ ? std::min(kLongestFreeGap * unit, kLongestGapNs) : kLongestGapNs;
    std::vector<int64_t> ticks;
    for (int64_t b = 0; b < probe_.batch; ++b) {
      std::vector<int64_t> at(coordinates_,
                              (near_zero ? 0 : kEpochNs) + probe_.shift);
      const int64_t start = at[0];
      for (int64_t i = 0; i < rows; ++i) {
        elapsed.push_back(static_cast<double>(at[0] - start) / unit);
        for (int64_t& t : at) {
          if (table_ != nullptr) t = TimeOfRow(unit, positions) + probe_.shift;
          ticks.push_back(t);
          const double ratio = probe_.longest_gap / probe_.shortest_gap;
          const double gap =
              unit * probe_.shortest_gap * std::pow(ratio, random_.Uniform());
          const bool tie = random_.Below(8) == 0;
          if (!tie)
            t += static_cast<int64_t>(Whole(std::min(gap, longest), unit));
        }
      }
    }
    std::vector<int64_t> shape = {probe_.batch, rows};
    if (coordinates_ > 1) shape.push_back(coordinates_);
    return *MakeTimeAxis(
        ticks, positions ? v1::TICK_UNIT_POSITIONS : v1::TICK_UNIT_NANOSECONDS,
        shape, coordinates_);
  }

  const v1::ResolvedEncoding& encoding_;
  const Probe& probe_;
  Random random_;
  int coordinates_ = 1;
  int64_t channels_ = 0;
  bool gates_ = false;
  bool free_ = false;
  bool fast_ = false;
  const v1::Absolute* table_ = nullptr;
};

v1::AttendRequest Builder::Build() {
  v1::AttendRequest request;
  request.set_encoding(encoding_.name());
  const int64_t dim = encoding_.head_dim();
  *request.mutable_query() = Normal(probe_.heads, probe_.queries, dim);
  *request.mutable_key() = Normal(probe_.kv_heads, probe_.keys, dim);
  *request.mutable_value() =
      Normal(probe_.kv_heads, probe_.keys, probe_.value_dim);
  std::vector<double> query_elapsed, key_elapsed;
  *request.mutable_query_time() = Times(probe_.queries, query_elapsed);
  *request.mutable_key_time() = Times(probe_.keys, key_elapsed);
  if (channels_ > 0) {
    *request.mutable_query_clock() = Clock(probe_.queries, query_elapsed);
    *request.mutable_key_clock() = Clock(probe_.keys, key_elapsed);
  }
  if (gates_) {
    *request.mutable_gates() = Filled({probe_.batch, probe_.heads, probe_.keys},
                                      [&] { return -0.5 * random_.Uniform(); });
  }
  if (encoding_.causal_only()) {
    request.mutable_mask()->set_causal(v1::CAUSALITY_TIME);
  }
  for (v1::Output output : {v1::OUTPUT_OUTPUT, v1::OUTPUT_LSE,
                            v1::OUTPUT_SCORES, v1::OUTPUT_WEIGHTS}) {
    request.add_outputs(output);
  }
  return request;
}

}  // namespace

v1::AttendRequest MakeProbe(const v1::ResolvedEncoding& encoding,
                            const Probe& probe) {
  return Builder(encoding, probe).Build();
}

}  // namespace attnd::client::resolved
