#include "client/resolved/generator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/resolved/double_double.h"

namespace attnd::client::resolved {
namespace {

absl::Status Unfit(const v1::ResolvedBlock& block, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("block of kind '", block.kind(), "': ", why));
}

// From as many rad on a double-double of their turns tells little.
constexpr double kMostReduced = 0x1p60;

// sin and cos of the C library know pi as exactly as any double needs.
double WithoutTurns(double angle) {
  return std::atan2(std::sin(angle), std::cos(angle));
}

// Of two finite numbers, the nearest that is finite.
double FiniteProduct(double a, double b) {
  constexpr double kMost = std::numeric_limits<double>::max();
  return std::clamp(a * b, -kMost, kMost);
}

template <typename Message>
Drive DriveOf(const Message& in) {
  return in.clock() == v1::CLOCK_REQUEST ? Drive{true, in.clock_channel()}
                                         : Drive{false, in.coordinate()};
}

template <typename Field>
Matrix SquareOf(const Field& field, int size, int first = 0) {
  Matrix m(size);
  std::copy_n(field.begin() + first, m.entries.size(), m.entries.begin());
  return m;
}

}  // namespace

double AngleOf(double frequency, DoubleDouble lag) {
  const double size = std::abs(frequency * lag.high);
  if (size < kMostReduced) {
    const DoubleDouble turns = DoubleDouble{frequency, 0} * lag / kTwoPi;
    return kTwoPi.high * Fraction(turns);
  }
  // A product that no double holds: the angle of less, as many times.
  const int scale = std::isfinite(size) ? 0 : std::ilogb(lag.high) + 1;
  const double less = std::ldexp(frequency, -scale);
  double angle = 0;
  for (const double part : {lag.high, lag.low}) {
    const DoubleDouble product = ExactProduct(less, part);
    angle += WithoutTurns(product.high) + WithoutTurns(product.low);
  }
  return std::ldexp(angle, scale);
}

absl::StatusOr<Generator::Block> Generator::ReadBlock(
    const v1::ResolvedBlock& in, int head_dim) {
  Block block;
  block.channels.assign(in.channels().begin(), in.channels().end());
  for (int channel : block.channels) {
    if (channel < 0 || channel >= head_dim) {
      return Unfit(in, absl::StrCat("channel ", channel, " of ", head_dim));
    }
  }
  block.drive = block.decay_drive = DriveOf(in);
  if (in.has_decay_drive()) block.decay_drive = DriveOf(in.decay_drive());
  block.frequency = in.frequency();
  block.rate = in.rate();
  block.coupling = in.coupling();
  block.amplitude = in.amplitude();
  block.turns = in.kind() == "rotation" || in.kind() == "damped_rotation" ||
                in.kind() == "complex_jordan";
  for (const v1::ResolvedTerm& term : in.further()) {
    block.further.emplace_back(term.frequency(), DriveOf(term));
  }
  const int size = static_cast<int>(block.channels.size());
  const int entries = size * size;
  if (in.kind() == "dense") {
    if (in.matrix_size() != entries ||
        (in.rotation_size() != 0 && in.rotation_size() != entries)) {
      return Unfit(in, absl::StrCat("expected ", entries, " entries"));
    }
    block.matrix = SquareOf(in.matrix(), size);
    if (in.rotation_size() > 0) block.rotation = SquareOf(in.rotation(), size);
  } else if (in.kind() == "liere") {
    if (size == 0 || in.matrix_size() % entries != 0) {
      return Unfit(in, absl::StrCat("expected ", entries, " entries an axis"));
    }
    for (int first = 0; first < in.matrix_size(); first += entries) {
      block.free.push_back(SquareOf(in.matrix(), size, first));
    }
  } else if (!block.turns && in.kind() != "decay" &&
             in.kind() != "real_jordan" && in.kind() != "identity") {
    return Unfit(in, "unknown to this client");
  }
  if (block.turns && size % 2 != 0) return Unfit(in, "odd number of channels");
  block.order = block.turns ? size / 2 : size;
  return block;
}

absl::StatusOr<Generator> Generator::Make(const v1::ResolvedGenerator& resolved,
                                          int head_dim) {
  Generator generator;
  generator.dim_ = head_dim;
  generator.averaged_ = resolved.averaged();
  std::vector<bool> taken(head_dim, false);
  for (const v1::ResolvedBlock& in : resolved.blocks()) {
    absl::StatusOr<Block> block = ReadBlock(in, head_dim);
    if (!block.ok()) return block.status();
    for (int channel : block->channels) {
      if (taken[channel]) {
        return Unfit(in, absl::StrCat("channel ", channel, " is taken"));
      }
      taken[channel] = true;
    }
    if (in.kind() == "identity") continue;
    if (!block->free.empty()) generator.relative_ = false;
    generator.blocks_.push_back(*std::move(block));
  }
  if (resolved.basis_size() == 0) return generator;
  if (resolved.basis_size() != head_dim * head_dim) {
    return absl::InvalidArgumentError("basis: not of the head dimension");
  }
  generator.basis_ = SquareOf(resolved.basis(), head_dim);
  generator.inverse_ = Inverse(generator.basis_);
  return generator;
}

double Generator::Angle(const Block& block, const Lags& lags,
                        bool averaged) const {
  // phi1 has no period.
  const auto along = [&](double frequency, const Drive& drive) {
    return averaged ? frequency * lags.units(drive)
                    : lags.angle(frequency, drive);
  };
  double angle = along(block.frequency, block.drive);
  for (const auto& [frequency, drive] : block.further) {
    angle += along(frequency, drive);
  }
  return angle;
}

// D X of one block. A plane of frequency w has X = -w J, J = [[0,-1],[1,0]].
Matrix Generator::Argument(const Block& block, const Lags& lags,
                           bool absolute_lag, bool averaged) const {
  double advance = lags.units(block.decay_drive);
  const bool mirrored = absolute_lag && advance < 0;
  if (absolute_lag) advance = std::abs(advance);
  if (block.matrix.size > 0) {
    Matrix argument = block.matrix;
    for (size_t e = 0; e < argument.entries.size(); ++e) {
      if (mirrored && block.rotation.size > 0) {
        argument.entries[e] -= 2 * block.rotation.entries[e];
      }
      argument.entries[e] *= advance;
    }
    return argument;
  }
  const int width = block.turns ? 2 : 1;
  Matrix argument(block.order * width);
  for (int i = 0; i < argument.size; ++i) {
    argument(i, i) = FiniteProduct(-block.rate, advance);
    if (i + width < argument.size) {
      argument(i, i + width) = FiniteProduct(block.coupling, advance);
    }
  }
  if (!block.turns) return argument;
  const double angle = Angle(block, lags, averaged);
  for (int i = 0; i < argument.size; i += 2) {
    argument(i, i + 1) = angle;
    argument(i + 1, i) = -angle;
  }
  return argument;
}

Matrix Generator::Value(const Block& block, const Lags& lags, bool absolute_lag,
                        bool averaged) const {
  if (!block.free.empty()) {
    Matrix of_query(static_cast<int>(block.channels.size()));
    Matrix of_key = of_query;
    for (size_t a = 0; a < block.free.size(); ++a) {
      Drive drive = block.drive;
      drive.index += static_cast<int>(a);
      const double query = lags.query_position(drive);
      const double key = lags.key_position(drive);
      for (size_t e = 0; e < of_query.entries.size(); ++e) {
        // Skew: the transpose of exp(pA) is exp(-pA).
        of_query.entries[e] -= query * block.free[a].entries[e];
        of_key.entries[e] += key * block.free[a].entries[e];
      }
    }
    return Exponential(of_query) * Exponential(of_key);
  }
  const Matrix argument = Argument(block, lags, absolute_lag, averaged);
  Matrix value =
      averaged ? AveragedExponential(argument) : Exponential(argument);
  for (double& x : value.entries) x *= block.amplitude;
  return value;
}

std::vector<Generator::BlockValue> Generator::Values(const Lags& lags,
                                                     bool absolute_lag,
                                                     bool averaged) const {
  std::vector<BlockValue> values;
  for (const Block& block : blocks_) {
    values.push_back(
        {&block.channels, Value(block, lags, absolute_lag, averaged)});
  }
  return values;
}

std::vector<Generator::BlockValue> Generator::Blocks(const Lags& lags,
                                                     bool absolute_lag) const {
  return Values(lags, absolute_lag, averaged_);
}

std::vector<Generator::BlockValue> Generator::AveragedBlocks(
    const Lags& lags) const {
  return Values(lags, false, true);
}

void Generator::FirstRate(
    absl::FunctionRef<void(double rate, const Drive&)> then) const {
  for (const Block& block : blocks_) {
    if (block.rate != 0) return then(block.rate, block.decay_drive);
  }
}

Matrix Generator::Sum(const std::vector<BlockValue>& blocks) const {
  Matrix a = Matrix::Identity(dim_);
  for (const BlockValue& block : blocks) {
    for (int i = 0; i < block.value.size; ++i) {
      for (int j = 0; j < block.value.size; ++j) {
        a((*block.channels)[i], (*block.channels)[j]) = block.value(i, j);
      }
    }
  }
  return has_basis() ? basis_ * a * inverse_ : a;
}

Matrix Generator::At(const Lags& lags, bool absolute_lag) const {
  return Sum(Blocks(lags, absolute_lag));
}

Matrix Generator::AveragedAt(const Lags& lags) const {
  return Sum(AveragedBlocks(lags));
}

Matrix Generator::At(double lag, bool absolute_lag) const {
  const auto units = [&](const Drive&) { return lag; };
  const auto origin = [](const Drive&) { return 0.0; };
  const auto angle = [&](double frequency, const Drive&) {
    return AngleOf(frequency, {lag, 0});
  };
  return At(Lags{units, angle, units, origin}, absolute_lag);
}

}  // namespace attnd::client::resolved
