#include "server/linear_wire.h"

#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"

namespace attnd::server {
namespace {

// Room for everything in a state but its arrays.
constexpr int64_t kStateOverheadBytes = 512;

using Shape = std::vector<int64_t>;

void WriteFloats(const std::vector<float>& values, const Shape& shape,
                 v1::Tensor& tensor) {
  tensor.set_dtype(v1::DTYPE_F32);
  tensor.mutable_shape()->Add(shape.begin(), shape.end());
  tensor.mutable_data()->assign(reinterpret_cast<const char*>(values.data()),
                                values.size() * sizeof(float));
}

// values = high + low, each a float.
void WriteSums(const std::vector<double>& values, const Shape& shape,
               v1::Tensor& high, v1::Tensor& low) {
  std::vector<float> highs(values.size()), lows(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    highs[i] = static_cast<float>(values[i]);
    // Of what is not finite there is no rest.
    const double rest = values[i] - static_cast<double>(highs[i]);
    lows[i] = rest == rest ? static_cast<float>(rest) : 0;
  }
  WriteFloats(highs, shape, high);
  WriteFloats(lows, shape, low);
}

class Reader {
 public:
  Reader(const std::string& field, Violations& violations)
      : field_(field), violations_(violations) {}

  void Floats(const v1::Tensor& tensor, const char* name,
              std::vector<float>& out) {
    if (tensor.data().size() != out.size() * sizeof(float) ||
        (!out.empty() && tensor.dtype() != v1::DTYPE_F32)) {
      violations_.Add(absl::StrCat(field_, ".", name),
                      absl::StrCat(tensor.data().size(), " bytes, expected ",
                                   out.size() * sizeof(float), " of f32"));
      return;
    }
    if (!out.empty()) {
      std::memcpy(out.data(), tensor.data().data(), tensor.data().size());
    }
  }

  // `low` may be absent: then its part is 0.
  void Sums(const v1::Tensor& high, bool has_low, const v1::Tensor& low,
            const char* name, std::vector<double>& out) {
    std::vector<float> highs(out.size()), lows(out.size());
    Floats(high, name, highs);
    if (has_low) Floats(low, absl::StrCat(name, "_low").c_str(), lows);
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = static_cast<double>(highs[i]) + static_cast<double>(lows[i]);
    }
  }

  template <typename Field, typename T>
  void Numbers(const Field& numbers, const char* name, std::vector<T>& out) {
    if (static_cast<size_t>(numbers.size()) != out.size()) {
      violations_.Add(
          absl::StrCat(field_, ".", name),
          absl::StrCat(numbers.size(), " entries, expected ", out.size()));
      return;
    }
    out.assign(numbers.begin(), numbers.end());
  }

 private:
  const std::string& field_;
  Violations& violations_;
};

}  // namespace

LinearState ReadLinearState(const v1::LinearState& wire,
                            const LinearStateShape& expected,
                            const std::string& hash, const std::string& field,
                            Violations& violations) {
  LinearState state = LinearState::Zero(expected);
  if (wire.version() != kLinearStateVersion) {
    violations.Add(
        field + ".version",
        absl::StrCat(wire.version(), ", expected ", kLinearStateVersion));
    return state;
  }
  if (wire.encoding_hash() != hash) {
    violations.Add(field + ".encoding_hash",
                   "belongs to another encoding, unit of time, feature map, "
                   "input rule or normaliser than this request's");
    return state;
  }
  Reader reader(field, violations);
  reader.Numbers(wire.keys(), "keys", state.keys);
  reader.Numbers(wire.reference_ticks(), "reference_ticks",
                 state.reference_ticks);
  reader.Numbers(wire.reference_time(), "reference_time", state.reference_real);
  reader.Floats(wire.reference_clock(), "reference_clock",
                state.reference_clock);
  reader.Sums(wire.state(), wire.has_state_low(), wire.state_low(), "state",
              state.sums);
  reader.Sums(wire.normaliser(), wire.has_normaliser_low(),
              wire.normaliser_low(), "normaliser", state.normaliser);
  reader.Numbers(wire.decay_sum(), "decay_sum", state.decay_sum);
  reader.Floats(wire.held_key(), "held_key", state.held_key);
  reader.Floats(wire.held_value(), "held_value", state.held_value);
  reader.Numbers(wire.held_gap(), "held_gap", state.held_gap);
  return state;
}

void WriteLinearState(const LinearState& state, const std::string& hash,
                      v1::LinearState& wire) {
  const LinearStateShape& s = state.shape;
  wire.set_version(kLinearStateVersion);
  wire.set_encoding_hash(hash);
  const auto copy = [](const auto& from, auto* to) {
    to->Add(from.begin(), from.end());
  };
  copy(state.keys, wire.mutable_keys());
  copy(state.reference_ticks, wire.mutable_reference_ticks());
  copy(state.reference_real, wire.mutable_reference_time());
  if (s.clock_channels > 0) {
    WriteFloats(state.reference_clock, {s.items, s.kv_heads, s.clock_channels},
                *wire.mutable_reference_clock());
  }
  WriteSums(state.sums, {s.items, s.kv_heads, s.dim, s.value_dim},
            *wire.mutable_state(), *wire.mutable_state_low());
  if (s.normaliser) {
    WriteSums(state.normaliser, {s.items, s.kv_heads, s.dim},
              *wire.mutable_normaliser(), *wire.mutable_normaliser_low());
  }
  copy(state.decay_sum, wire.mutable_decay_sum());
  if (s.held) {
    WriteFloats(state.held_key, {s.items, s.kv_heads, s.dim},
                *wire.mutable_held_key());
    WriteFloats(state.held_value, {s.items, s.kv_heads, s.value_dim},
                *wire.mutable_held_value());
  }
  copy(state.held_gap, wire.mutable_held_gap());
}

int64_t LinearStateBytes(const LinearStateShape& shape) {
  // Counts and ticks take up to 10 bytes instead of 8.
  const int64_t bytes = shape.bytes();
  const int64_t most = INT64_MAX - kStateOverheadBytes -
                       4 * shape.items * (1 + shape.coordinates);
  return bytes > most ? INT64_MAX
                      : bytes + kStateOverheadBytes +
                            4 * shape.items * (1 + shape.coordinates);
}

}  // namespace attnd::server
