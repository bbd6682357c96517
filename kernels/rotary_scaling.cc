#include "kernels/rotary_scaling.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <variant>

#include "absl/strings/str_cat.h"
#include "kernels/field_checks.h"

namespace attnd {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;
// Published ones lie between 0.5 and 2.
constexpr double kMinAmplitude = 1e-6, kMaxAmplitude = 1e6;

// base * stretch^(r/(r-2)): divides the lowest frequency by `stretch` and
// leaves the highest.
double StretchedBase(double base, double stretch, int r) {
  return base * std::pow(stretch, static_cast<double>(r) / (r - 2));
}

// Scales one ladder of r/2 planes, the first of which is plane `first_plane` of
// the block.
struct Scaler {
  const RotaryBlock& block;
  int r;
  int first_plane;
  double length;

  std::vector<double> Ladder(double base) const {
    return RotaryFrequencies(r, base, block.float_powers);
  }
  std::vector<double> Plain() const { return Ladder(block.base); }

  std::vector<double> operator()(std::monostate) const { return Plain(); }

  std::vector<double> operator()(const LinearScaling& s) const {
    std::vector<double> w = Plain();
    for (double& w_j : w) w_j /= s.factor;
    return w;
  }

  std::vector<double> operator()(const NtkScaling& s) const {
    return Ladder(StretchedBase(block.base, s.factor, r));
  }

  std::vector<double> operator()(const DynamicNtkScaling& s) const {
    const double n = std::max(length, s.original_length);
    const double stretch = s.factor * n / s.original_length - (s.factor - 1);
    return Ladder(StretchedBase(block.base, stretch, r));
  }

  std::vector<double> operator()(const YarnScaling& s) const {
    std::vector<double> w = Plain();
    const auto [low, high] = YarnBorders(s);
    for (int j = 0; j < r / 2; ++j) {
      const double turns = s.original_length * w[j] / kTwoPi;
      const double share =
          s.paper_ramp ? 1 - (turns - s.beta_slow) / (s.beta_fast - s.beta_slow)
                       : (j - low) / (high - low);
      const double interpolated = std::clamp(share, 0.0, 1.0);
      w[j] = w[j] * (1 - interpolated) + w[j] / s.factor * interpolated;
    }
    return w;
  }

  std::vector<double> operator()(const LongRopeScaling& s) const {
    const std::vector<double>& divisors =
        length > s.original_length ? s.long_factor : s.short_factor;
    std::vector<double> w = Plain();
    for (int j = 0; j < r / 2; ++j) w[j] /= divisors[first_plane + j];
    return w;
  }

  std::vector<double> operator()(const Llama3Scaling& s) const {
    std::vector<double> w = Plain();
    for (double& w_j : w) {
      const double turns = s.original_length * w_j / kTwoPi;
      const double width = s.high_freq_factor - s.low_freq_factor;
      const double kept =
          width > 0 ? std::clamp((turns - s.low_freq_factor) / width, 0.0, 1.0)
          : turns >= s.low_freq_factor ? 1.0
                                       : 0.0;
      w_j = (1 - kept) * w_j / s.factor + kept * w_j;
    }
    return w;
  }

  std::vector<double> operator()(const ProportionalScaling& s) const {
    std::vector<double> w = Plain();
    const int kept = static_cast<int>(std::floor(s.fraction * r / 2));
    for (int j = 0; j < r / 2; ++j) w[j] = j < kept ? w[j] / s.factor : 0;
    return w;
  }

  // Planes between which the code ramp runs; high <= r - 1, not r/2 - 1, as in
  // every implementation.
  struct Borders {
    double low, high;
  };
  Borders YarnBorders(const YarnScaling& s) const {
    const auto plane_of = [&](double turns) {
      return r * std::log(s.original_length / (turns * kTwoPi)) /
             (2 * std::log(block.base));
    };
    double low = plane_of(s.beta_fast), high = plane_of(s.beta_slow);
    if (s.truncate) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, r - 1.0);
    if (low == high) high += 0.001;
    return {low, high};
  }
};

// YaRN's temperature, m(k) = 0.1 k ln s + 1.
double YarnAmplitude(const YarnScaling& s) {
  if (s.attention_factor.has_value()) return *s.attention_factor;
  const auto m = [&](double k) {
    return s.factor <= 1 ? 1.0 : 0.1 * k * std::log(s.factor) + 1;
  };
  const double numerator = s.mscale.value_or(0);
  const double denominator = s.mscale_all_dim.value_or(0);
  // Zero counts as unset, as in the published code.
  if (numerator != 0 && denominator != 0) return m(numerator) / m(denominator);
  return m(1);
}

double LongRopeAmplitude(const LongRopeScaling& s) {
  if (s.attention_factor.has_value()) return *s.attention_factor;
  if (s.factor <= 1) return 1;
  return std::sqrt(1 + std::log(s.factor) / std::log(s.original_length));
}

double Amplitude(const RotaryScaling& scaling) {
  if (const auto* s = std::get_if<YarnScaling>(&scaling)) {
    return YarnAmplitude(*s);
  }
  if (const auto* s = std::get_if<LongRopeScaling>(&scaling)) {
    return LongRopeAmplitude(*s);
  }
  return 1;
}

absl::Status CheckFits(const RotaryBlock& block, const std::vector<int>& dims,
                       int rotary_dim, const std::string& path) {
  const bool stretches =
      std::holds_alternative<NtkScaling>(block.scaling) ||
      std::holds_alternative<DynamicNtkScaling>(block.scaling);
  for (int r : dims) {
    if (stretches && r == 2) {
      return Refuse(path, "2 rotary channels in a ladder",
                    "at least 4 with ntk or dynamic_ntk: the exponent is "
                    "r/(r-2)");
    }
  }
  if (const auto* s = std::get_if<LongRopeScaling>(&block.scaling)) {
    return CheckCount(path + ".longrope.short_factor", s->short_factor.size(),
                      rotary_dim / 2, "one per plane");
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<double> RotaryFrequencies(int rotary_dim, double base,
                                      bool float_powers) {
  std::vector<double> frequencies(rotary_dim / 2);
  for (int j = 0; j < rotary_dim / 2; ++j) {
    if (float_powers) {
      const double exponent =
          static_cast<float>(2 * j) / static_cast<float>(rotary_dim);
      const auto power = static_cast<float>(
          std::pow(static_cast<double>(static_cast<float>(base)), exponent));
      frequencies[j] = 1 / power;
    } else {
      frequencies[j] = std::pow(base, -2.0 * j / rotary_dim);
    }
  }
  return frequencies;
}

absl::StatusOr<RotaryLadder> ScaledLadder(const RotaryBlock& block,
                                          int rotary_dim, double length,
                                          const std::string& path) {
  std::vector<int> dims = {rotary_dim};
  if (block.axes.order == AxisSections::Order::kAxial &&
      !block.axes.sections.empty()) {
    dims.clear();
    for (int planes : block.axes.sections) dims.push_back(2 * planes);
  }
  absl::Status status = CheckFits(block, dims, rotary_dim, path);
  if (!status.ok()) return status;

  RotaryLadder ladder;
  for (int r : dims) {
    const Scaler scaler{block, r, static_cast<int>(ladder.frequencies.size()),
                        length};
    const std::vector<double> w = std::visit(scaler, block.scaling);
    ladder.frequencies.insert(ladder.frequencies.end(), w.begin(), w.end());
  }
  for (size_t j = 0; j < ladder.frequencies.size(); ++j) {
    if (std::isfinite(ladder.frequencies[j])) continue;
    return Refuse(
        path,
        absl::StrCat("frequency ", ladder.frequencies[j], " in plane ", j),
        "finite");
  }
  ladder.amplitude = Amplitude(block.scaling);
  // Scores have its square; beyond these they leave the range of f32.
  if (!(ladder.amplitude >= kMinAmplitude &&
        ladder.amplitude <= kMaxAmplitude)) {
    return Refuse(path,
                  absl::StrCat("an amplitude of ", ladder.amplitude,
                               " (attention_factor, or what factor and "
                               "mscales make of it)"),
                  absl::StrCat(kMinAmplitude, " to ", kMaxAmplitude));
  }
  ladder.length_dependent =
      std::holds_alternative<DynamicNtkScaling>(block.scaling) ||
      std::holds_alternative<LongRopeScaling>(block.scaling);
  return ladder;
}

}  // namespace attnd
