#include "kernels/rotary_checks.h"

#include <cstdint>
#include <numeric>
#include <optional>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/field_checks.h"

namespace attnd {
namespace {

struct ScalingCheck {
  const std::string& path;
  const RotaryBlock& rotary;

  absl::Status operator()(std::monostate) const { return absl::OkStatus(); }
  absl::Status operator()(const LinearScaling& s) const {
    return CheckPositive(path + ".linear.factor", s.factor);
  }
  absl::Status operator()(const NtkScaling& s) const {
    return FirstRefusal(CheckAtLeast(path + ".ntk.factor", s.factor, 1),
                        CheckMoreThanOnePlane(path + ".ntk"));
  }
  absl::Status operator()(const DynamicNtkScaling& s) const {
    const std::string at = path + ".dynamic_ntk";
    return FirstRefusal(
        CheckAtLeast(at + ".factor", s.factor, 1),
        CheckPositive(at + ".original_length", s.original_length),
        CheckMoreThanOnePlane(at));
  }
  absl::Status operator()(const YarnScaling& s) const {
    const std::string at = path + ".yarn";
    absl::Status status = FirstRefusal(
        CheckAtLeast(at + ".factor", s.factor, 1),
        CheckPositive(at + ".original_length", s.original_length),
        CheckPositive(at + ".beta_fast", s.beta_fast),
        CheckPositive(at + ".beta_slow", s.beta_slow),
        CheckAmplitude(at, s.attention_factor),
        CheckAtLeast(at + ".mscale", s.mscale.value_or(0), 0),
        CheckAtLeast(at + ".mscale_all_dim", s.mscale_all_dim.value_or(0), 0));
    if (!status.ok()) return status;
    if (s.beta_fast < s.beta_slow ||
        (s.paper_ramp && s.beta_fast == s.beta_slow)) {
      return Refuse(at + ".beta_fast", s.beta_fast,
                    absl::StrCat("> beta_slow, ", s.beta_slow));
    }
    if (!s.paper_ramp && !(rotary.base > 1)) {
      return Refuse(path + ".base", rotary.base,
                    "> 1, or the ramp has no borders");
    }
    return absl::OkStatus();
  }
  absl::Status operator()(const LongRopeScaling& s) const {
    const std::string at = path + ".longrope";
    absl::Status status = FirstRefusal(
        CheckNotEmpty(at + ".short_factor", s.short_factor.size(),
                      "one divisor per plane"),
        CheckEach(at + ".short_factor", s.short_factor, CheckPositive),
        CheckCount(at + ".long_factor", s.long_factor.size(),
                   s.short_factor.size(), "as many as short_factor"),
        CheckEach(at + ".long_factor", s.long_factor, CheckPositive),
        CheckPositive(at + ".original_length", s.original_length),
        CheckAmplitude(at, s.attention_factor));
    if (!status.ok() || s.attention_factor.has_value()) return status;
    status = CheckPositive(at + ".factor", s.factor);
    if (!status.ok()) return status;
    if (s.factor > 1 && !(s.original_length > 1)) {
      return Refuse(at + ".original_length", s.original_length,
                    "> 1, or attention_factor");
    }
    return absl::OkStatus();
  }
  absl::Status operator()(const Llama3Scaling& s) const {
    const std::string at = path + ".llama3";
    absl::Status status = FirstRefusal(
        CheckPositive(at + ".factor", s.factor),
        CheckPositive(at + ".low_freq_factor", s.low_freq_factor),
        CheckPositive(at + ".high_freq_factor", s.high_freq_factor),
        CheckPositive(at + ".original_length", s.original_length));
    if (!status.ok() || s.high_freq_factor >= s.low_freq_factor) return status;
    return Refuse(at + ".high_freq_factor", s.high_freq_factor,
                  absl::StrCat(">= low_freq_factor, ", s.low_freq_factor));
  }
  absl::Status operator()(const ProportionalScaling& s) const {
    const std::string at = path + ".proportional";
    if (!(s.fraction > 0 && s.fraction <= 1)) {
      return Refuse(at + ".fraction", s.fraction, "in (0, 1]");
    }
    return CheckPositive(at + ".factor", s.factor);
  }

  absl::Status CheckMoreThanOnePlane(const std::string& at) const {
    if (rotary.rotary_dim != 2) return absl::OkStatus();
    return Refuse(at, "rotary_dim 2", "at least 4: the exponent is r/(r-2)");
  }
  static absl::Status CheckAmplitude(const std::string& at,
                                     const std::optional<double>& factor) {
    if (!factor.has_value()) return absl::OkStatus();
    return CheckPositive(at + ".attention_factor", *factor);
  }
};

absl::Status CheckAxes(const RotaryBlock& block, const std::string& path) {
  const std::vector<int>& sections = block.axes.sections;
  if (sections.empty()) return absl::OkStatus();
  if (sections.size() > kMaxDrives) {
    return Refuse(path, absl::StrCat(sections.size(), " entries"),
                  absl::StrCat("at most ", kMaxDrives));
  }
  absl::Status status = CheckNoneNegative(path, sections);
  if (!status.ok() || block.rotary_dim == 0) return status;
  const int64_t sum =
      std::accumulate(sections.begin(), sections.end(), int64_t{0});
  if (sum == block.rotary_dim / 2) return absl::OkStatus();
  return Refuse(path, absl::StrCat("sum ", sum),
                absl::StrCat("rotary_dim / 2 = ", block.rotary_dim / 2));
}

}  // namespace

absl::Status CheckRotary(const RotaryBlock& block, const std::string& path) {
  absl::Status status = CheckPositive(path + ".base", block.base);
  if (!status.ok()) return status;
  if (block.rotary_dim < 0 || block.rotary_dim % 2 != 0) {
    return Refuse(path + ".rotary_dim", block.rotary_dim, "even and >= 0");
  }
  if (!(block.rotary_fraction > 0 && block.rotary_fraction <= 1)) {
    return Refuse(path + ".rotary_fraction", block.rotary_fraction,
                  "in (0, 1]");
  }
  if (block.rotary_dim > 0 && block.rotary_fraction != 1) {
    return Refuse(path + ".rotary_fraction", block.rotary_fraction,
                  "1 where rotary_dim is set");
  }
  return FirstRefusal(std::visit(ScalingCheck{path, block}, block.scaling),
                      CheckAxes(block, path + ".axes.sections"));
}

}  // namespace attnd
