#include "kernels/block_checks.h"

#include <cmath>
#include <numeric>
#include <variant>

#include "absl/strings/str_cat.h"
#include "kernels/field_checks.h"

namespace attnd {
namespace {

constexpr int kMaxDenseDim = 128;

struct Names {
  const char* operator()(const IdentityBlock&) { return "identity"; }
  const char* operator()(const RotaryBlock&) { return "rotary"; }
  const char* operator()(const RotationBlock&) { return "rotation"; }
  const char* operator()(const DecayBlock&) { return "component_decay"; }
  const char* operator()(const DampedRotationBlock&) {
    return "damped_rotation";
  }
  const char* operator()(const RealJordanBlock&) { return "real_jordan"; }
  const char* operator()(const ComplexJordanBlock&) { return "complex_jordan"; }
  const char* operator()(const DenseMatrixBlock&) { return "dense"; }
  const char* operator()(const SkewRank2Block&) { return "skew_rank2"; }
  const char* operator()(const LieReBlock&) { return "liere"; }
};

// The first that is not ok.
template <typename... Statuses>
absl::Status First(absl::Status first, Statuses... rest) {
  if constexpr (sizeof...(rest) == 0) {
    return first;
  } else {
    return first.ok() ? First(std::move(rest)...) : first;
  }
}

// One per item, or one for all.
absl::Status CheckOneOrEach(const std::string& path, size_t count, size_t items,
                            const char* of_what) {
  if (count == 1 || count == items) return absl::OkStatus();
  return Refuse(path, absl::StrCat(count, " entries"),
                absl::StrCat("1 or ", items, " (", of_what, ")"));
}

absl::Status CheckOrder(const std::string& path, int size) {
  if (size >= 2 && size <= 4) return absl::OkStatus();
  return Refuse(path, size, "2, 3 or 4");
}

struct ScalingCheck {
  const std::string& path;
  const RotaryBlock& rotary;

  absl::Status operator()(std::monostate) const { return absl::OkStatus(); }
  absl::Status operator()(const LinearScaling& s) const {
    return CheckPositive(path + ".linear.factor", s.factor);
  }
  absl::Status operator()(const NtkScaling& s) const {
    return First(CheckAtLeast(path + ".ntk.factor", s.factor, 1),
                 CheckMoreThanOnePlane(path + ".ntk"));
  }
  absl::Status operator()(const DynamicNtkScaling& s) const {
    const std::string at = path + ".dynamic_ntk";
    return First(CheckAtLeast(at + ".factor", s.factor, 1),
                 CheckPositive(at + ".original_length", s.original_length),
                 CheckMoreThanOnePlane(at));
  }
  absl::Status operator()(const YarnScaling& s) const {
    const std::string at = path + ".yarn";
    absl::Status status = First(
        CheckAtLeast(at + ".factor", s.factor, 1),
        CheckPositive(at + ".original_length", s.original_length),
        CheckPositive(at + ".beta_fast", s.beta_fast),
        CheckPositive(at + ".beta_slow", s.beta_slow),
        CheckAmplitude(at, s.attention_factor),
        CheckFinite(at + ".mscale", s.mscale.value_or(0)),
        CheckFinite(at + ".mscale_all_dim", s.mscale_all_dim.value_or(0)));
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
    absl::Status status =
        First(CheckNotEmpty(at + ".short_factor", s.short_factor.size(),
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
    absl::Status status =
        First(CheckPositive(at + ".factor", s.factor),
              CheckPositive(at + ".low_freq_factor", s.low_freq_factor),
              CheckPositive(at + ".high_freq_factor", s.high_freq_factor),
              CheckPositive(at + ".original_length", s.original_length));
    if (!status.ok() || s.high_freq_factor > s.low_freq_factor) return status;
    return Refuse(at + ".high_freq_factor", s.high_freq_factor,
                  absl::StrCat("> low_freq_factor, ", s.low_freq_factor));
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
  absl::Status status = CheckNoneNegative(path, sections);
  if (!status.ok() || block.rotary_dim == 0) return status;
  const int64_t sum =
      std::accumulate(sections.begin(), sections.end(), int64_t{0});
  if (sum == block.rotary_dim / 2) return absl::OkStatus();
  return Refuse(path, absl::StrCat("sum ", sum),
                absl::StrCat("rotary_dim / 2 = ", block.rotary_dim / 2));
}

absl::Status Check(const IdentityBlock& block, const std::string& path) {
  if (block.width >= 1) return absl::OkStatus();
  return Refuse(path + ".width", block.width, ">= 1");
}

absl::Status Check(const RotaryBlock& block, const std::string& path) {
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
  return First(std::visit(ScalingCheck{path, block}, block.scaling),
               CheckAxes(block, path + ".axes.sections"));
}

absl::Status Check(const RotationBlock& block, const std::string& path) {
  const std::string at = path + ".frequencies";
  if (block.coordinates < 1) {
    return Refuse(path + ".coordinates", block.coordinates, ">= 1");
  }
  absl::Status status =
      First(CheckNotEmpty(at, block.frequencies.size(), "one per plane"),
            CheckAllFinite(at, block.frequencies));
  if (!status.ok()) return status;
  if (block.frequencies.size() % block.coordinates == 0) {
    return absl::OkStatus();
  }
  return Refuse(at, absl::StrCat(block.frequencies.size(), " entries"),
                absl::StrCat("a multiple of coordinates, ", block.coordinates));
}

absl::Status Check(const DecayBlock& block, const std::string& path) {
  const std::string at = path + ".rates";
  absl::Status status =
      First(CheckNotEmpty(at, block.rates.size(), "one, or one per channel"),
            CheckNoneNegative(at, block.rates));
  if (!status.ok()) return status;
  if (block.width < 0) return Refuse(path + ".width", block.width, ">= 0");
  if (block.width == 0) return absl::OkStatus();
  return CheckOneOrEach(at, block.rates.size(), block.width, "per channel");
}

absl::Status Check(const DampedRotationBlock& block, const std::string& path) {
  return First(CheckNotEmpty(path + ".frequencies", block.frequencies.size(),
                             "one per plane"),
               CheckAllFinite(path + ".frequencies", block.frequencies),
               CheckOneOrEach(path + ".rates", block.rates.size(),
                              block.frequencies.size(), "per plane"),
               CheckNoneNegative(path + ".rates", block.rates));
}

absl::Status Check(const RealJordanBlock& block, const std::string& path) {
  absl::Status status = First(CheckOrder(path + ".size", block.size),
                              CheckNotEmpty(path + ".rates", block.rates.size(),
                                            "one, or one per chain"),
                              CheckNoneNegative(path + ".rates", block.rates),
                              CheckPositive(path + ".tau", block.tau),
                              CheckPositive(path + ".tau", 1 / block.tau));
  if (!status.ok()) return status;
  if (block.chains < 0) return Refuse(path + ".chains", block.chains, ">= 0");
  if (block.chains == 0) return absl::OkStatus();
  return CheckOneOrEach(path + ".rates", block.rates.size(), block.chains,
                        "per chain");
}

absl::Status Check(const ComplexJordanBlock& block, const std::string& path) {
  return First(CheckOrder(path + ".size", block.size),
               CheckNotEmpty(path + ".frequencies", block.frequencies.size(),
                             "one per chain"),
               CheckAllFinite(path + ".frequencies", block.frequencies),
               CheckOneOrEach(path + ".rates", block.rates.size(),
                              block.frequencies.size(), "per chain"),
               CheckNoneNegative(path + ".rates", block.rates),
               CheckFinite(path + ".eta", block.eta));
}

absl::Status Check(const DenseMatrixBlock& block, const std::string& path) {
  if (block.dim < 1 || block.dim > kMaxDenseDim) {
    return Refuse(path + ".dim", block.dim,
                  absl::StrCat("1 to ", kMaxDenseDim));
  }
  return First(
      CheckCount(path + ".matrix", block.matrix.size(),
                 static_cast<size_t>(block.dim) * block.dim, "dim * dim"),
      CheckAllFinite(path + ".matrix", block.matrix));
}

absl::Status Check(const SkewRank2Block& block, const std::string& path) {
  return First(
      CheckNotEmpty(path + ".a", block.a.size(), "one entry per channel"),
      CheckCount(path + ".b", block.b.size(), block.a.size(), "as many as a"),
      CheckAllFinite(path + ".a", block.a),
      CheckAllFinite(path + ".b", block.b),
      CheckFinite(path + ".frequency", block.frequency));
}

absl::Status Check(const LieReBlock& block, const std::string& path) {
  if (block.dim < 2 || block.dim > kMaxDenseDim) {
    return Refuse(path + ".tile", block.dim,
                  absl::StrCat("2 to ", kMaxDenseDim));
  }
  if (block.coordinates < 1) {
    return Refuse(path + ".coordinates", block.coordinates, ">= 1");
  }
  return First(CheckCount(path + ".generators", block.generators.size(),
                          static_cast<size_t>(block.coordinates) * block.dim *
                              (block.dim - 1) / 2,
                          "coordinates * dim (dim - 1) / 2"),
               CheckAllFinite(path + ".generators", block.generators));
}

absl::Status CheckDrive(const Drive& drive, const std::string& path) {
  if (drive.coordinate < 0) {
    return Refuse(path + ".coordinate", drive.coordinate, ">= 0");
  }
  if (drive.clock_channel < 0) {
    return Refuse(path + ".clock_channel", drive.clock_channel, ">= 0");
  }
  return absl::OkStatus();
}

}  // namespace

std::string KindName(const Block& block) {
  return std::visit(Names{}, block.kind);
}

absl::Status CheckBlocks(const std::vector<Block>& blocks,
                         const std::string& path) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    const std::string at = absl::StrCat(path, "[", i, "]");
    const std::string kind = at + "." + KindName(blocks[i]);
    absl::Status status =
        First(CheckDrive(blocks[i].drive, at),
              std::visit([&](const auto& block) { return Check(block, kind); },
                         blocks[i].kind));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace attnd
