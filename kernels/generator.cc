#include "kernels/generator.h"

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace attnd {
namespace {

absl::Status Bad(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", why));
}

absl::Status Check(const IdentityBlock& block, const std::string& path) {
  if (block.width >= 1) return absl::OkStatus();
  return Bad(path + ".identity.width",
             absl::StrCat(block.width, ", expected >= 1"));
}

absl::Status Check(const RotaryBlock& block, const std::string& path) {
  if (!(block.base > 0) || !std::isfinite(block.base)) {
    return Bad(path + ".rotary.base",
               absl::StrCat(block.base, ", expected finite and > 0"));
  }
  if (block.rotary_dim < 0 || block.rotary_dim % 2 != 0) {
    return Bad(path + ".rotary.rotary_dim",
               absl::StrCat(block.rotary_dim, ", expected even and >= 0"));
  }
  return absl::OkStatus();
}

absl::Status Check(const RotationBlock& block, const std::string& path) {
  if (block.frequencies.empty()) {
    return Bad(path + ".rotation.frequencies", "empty, expected one per plane");
  }
  for (size_t i = 0; i < block.frequencies.size(); ++i) {
    if (!std::isfinite(block.frequencies[i])) {
      return Bad(absl::StrCat(path, ".rotation.frequencies[", i, "]"),
                 absl::StrCat(block.frequencies[i], ", expected finite"));
    }
  }
  return absl::OkStatus();
}

absl::Status Check(const AlibiTerm& term, const std::string& path) {
  for (size_t i = 0; i < term.slopes.size(); ++i) {
    if (!(term.slopes[i] >= 0) || !std::isfinite(term.slopes[i])) {
      return Bad(absl::StrCat(path, ".alibi.slopes[", i, "]"),
                 absl::StrCat(term.slopes[i], ", expected finite and >= 0"));
    }
  }
  if (!(term.bias_max > 0) || !std::isfinite(term.bias_max)) {
    return Bad(path + ".alibi.bias_max",
               absl::StrCat(term.bias_max, ", expected finite and > 0"));
  }
  return absl::OkStatus();
}

// Lays `frequencies` as planes over 2 * n channels from `first` on.
void AppendPlanes(const std::vector<double>& frequencies, PairLayout layout,
                  int first, std::vector<Plane>& planes) {
  const int n = static_cast<int>(frequencies.size());
  for (int j = 0; j < n; ++j) {
    const bool half = layout == PairLayout::kHalfSplit;
    planes.push_back({.first = half ? first + j : first + 2 * j,
                      .second = half ? first + j + n : first + 2 * j + 1,
                      .omega = frequencies[j]});
  }
}

}  // namespace

absl::Status Validate(const EncodingSpec& spec) {
  for (size_t i = 0; i < spec.blocks.size(); ++i) {
    const std::string path = absl::StrCat("blocks[", i, "]");
    absl::Status status = std::visit(
        [&](const auto& block) { return Check(block, path); }, spec.blocks[i]);
    if (!status.ok()) return status;
  }
  for (size_t i = 0; i < spec.biases.size(); ++i) {
    const std::string path = absl::StrCat("biases[", i, "]");
    absl::Status status = std::visit(
        [&](const auto& term) { return Check(term, path); }, spec.biases[i]);
    if (!status.ok()) return status;
  }
  if (spec.unit_ns < 0) {
    return Bad("time_unit", absl::StrCat(spec.unit_ns, " ns, expected >= 1"));
  }
  return absl::OkStatus();
}

std::vector<double> PublishedSlopes(int heads, double bias_max) {
  int power = 1;
  while (power * 2 <= heads) power *= 2;
  std::vector<double> slopes;
  for (int h = 0; h < heads; ++h) {
    const double exponent = h < power
                                ? bias_max * (h + 1) / power
                                : bias_max / 2 * (2 * (h - power) + 1) / power;
    slopes.push_back(std::exp2(-exponent));
  }
  return slopes;
}

std::vector<double> RotaryFrequencies(int rotary_dim, double base) {
  std::vector<double> frequencies;
  for (int j = 0; j < rotary_dim / 2; ++j) {
    frequencies.push_back(std::pow(base, -2.0 * j / rotary_dim));
  }
  return frequencies;
}

absl::StatusOr<Generator> Generator::Make(const std::vector<Block>& blocks,
                                          int head_dim) {
  Generator generator;
  generator.dim_ = head_dim;
  int next = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    int width = 0;
    if (const auto* identity = std::get_if<IdentityBlock>(&blocks[i])) {
      width = identity->width;
    } else if (const auto* rotary = std::get_if<RotaryBlock>(&blocks[i])) {
      width = rotary->rotary_dim > 0 ? rotary->rotary_dim : head_dim - next;
      if (width % 2 != 0) {
        return Bad(absl::StrCat("blocks[", i, "].rotary"),
                   absl::StrCat("head_dim ", head_dim, " leaves ", width,
                                " channels, an odd number; set rotary_dim"));
      }
      if (width > 0 && next + width <= head_dim) {
        AppendPlanes(RotaryFrequencies(width, rotary->base), rotary->layout,
                     next, generator.planes_);
      }
    } else {
      const auto& rotation = std::get<RotationBlock>(blocks[i]);
      width = 2 * static_cast<int>(rotation.frequencies.size());
      if (next + width <= head_dim) {
        AppendPlanes(rotation.frequencies, rotation.layout, next,
                     generator.planes_);
      }
    }
    if (width < 0 || next + width > head_dim) {
      return Bad(absl::StrCat("blocks[", i, "]"),
                 absl::StrCat("needs ", width, " channels from channel ", next,
                              " on, but head_dim is ", head_dim));
    }
    next += width;
  }
  return generator;
}

std::vector<double> Generator::Exp(double lag) const {
  std::vector<double> exp(static_cast<size_t>(dim_) * dim_, 0.0);
  for (int c = 0; c < dim_; ++c) exp[c * dim_ + c] = 1;
  for (const Plane& plane : planes_) {
    const double cosine = std::cos(plane.omega * lag);
    const double sine = std::sin(plane.omega * lag);
    exp[plane.first * dim_ + plane.first] = cosine;
    exp[plane.second * dim_ + plane.second] = cosine;
    // exp(-w D J), J = [[0,-1],[1,0]].
    exp[plane.first * dim_ + plane.second] = sine;
    exp[plane.second * dim_ + plane.first] = -sine;
  }
  return exp;
}

}  // namespace attnd
