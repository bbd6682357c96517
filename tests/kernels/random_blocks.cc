#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "tests/kernels/random_parts.h"

namespace attnd::testing {

Drive RandomParts::RandomDrive() {
  if (!Rarely(random_, 5)) {
    const bool further = spec_.coordinates > 1 && random_.Coin();
    return {.coordinate = further ? static_cast<int>(random_.Integer(
                                        1, spec_.coordinates - 1))
                                  : 0};
  }
  const auto channel = static_cast<int>(random_.Integer(0, 2));
  clock_channels_ = std::max(clock_channels_, channel + 1);
  return {.clock = true, .clock_channel = channel};
}

Drive RandomParts::DecayDrive() {
  Drive drive = RandomDrive();
  // No state follows what nothing orders.
  if (carried_) drive.coordinate = 0;
  one_sided_ = true;
  if (drive.coordinate > 0) unordered_ = true;
  return drive;
}

RotaryScaling RandomParts::Scaling(int planes) {
  const double factor = LogUniform(random_, 1, 64);
  const double length = LogUniform(random_, 4, 1e5);
  switch (random_.Integer(0, 8)) {
    case 0:
      return LinearScaling{.factor = factor};
    case 1:
      if (planes < 2) return {};
      return NtkScaling{.factor = factor};
    case 2:
      if (planes < 2) return {};
      return DynamicNtkScaling{.factor = factor, .original_length = length};
    case 3:
      return YarnScaling{.factor = factor,
                         .original_length = length,
                         .truncate = random_.Coin(),
                         .paper_ramp = random_.Coin()};
    case 4: {
      LongRopeScaling scaling{.original_length = length, .factor = factor};
      for (int p = 0; p < planes; ++p) {
        scaling.short_factor.push_back(LogUniform(random_, 1, 4));
        scaling.long_factor.push_back(LogUniform(random_, 1, 64));
      }
      return scaling;
    }
    case 5:
      return Llama3Scaling{.original_length = length};
    case 6:
      return ProportionalScaling{.fraction = random_.Uniform(),
                                 .factor = factor};
    default:
      return {};
  }
}

// Its rows' discs lie in the left half plane (Gershgorin).
std::vector<double> RandomParts::StableMatrix(int n) {
  std::vector<double> x(n * n);
  const double rate = LogUniform(random_, 1e-3, 1e4) / span_;
  for (int i = 0; i < n; ++i) {
    double reach = 0;
    for (int j = 0; j < n; ++j) {
      x[i * n + j] = rate * random_.Normal();
      reach += std::abs(x[i * n + j]);
    }
    x[i * n + i] = -reach;
  }
  return x;
}

Block RandomParts::OneBlock(int left, int* width) {
  const auto most_planes = left / 2;
  const auto planes =
      static_cast<int>(random_.Integer(1, std::max(1, most_planes)));
  if (most_planes > 0 && Rarely(random_, spec_.coordinates > 1 ? 2 : 8)) {
    return AxesBlock(left, width);
  }
  switch (random_.Integer(0, 9)) {
    case 0:
      *width = static_cast<int>(random_.Integer(1, left));
      return IdentityBlock{.width = *width};
    case 1: {
      if (most_planes == 0) break;
      const Drive drive = RandomDrive();
      *width = 2 * planes;
      return Block(RotaryBlock{.base = LogUniform(random_, 10, 1e7),
                               .rotary_dim = 2 * planes,
                               .layout = Layout(),
                               .scaling = drive.clock ? RotaryScaling()
                                                      : Scaling(planes)},
                   drive);
    }
    case 2: {
      if (most_planes == 0) break;
      const Drive drive = RandomDrive();
      *width = 2 * planes;
      return Block(
          RotationBlock{.frequencies = Frequencies(planes, drive.clock),
                        .layout = Layout()},
          drive);
    }
    case 3: {
      if (most_planes == 0) break;
      *width = 2 * planes;
      const Drive drive = DecayDrive();
      DampedRotationBlock block{.frequencies = Frequencies(planes, drive.clock),
                                .rates = OneOrSeveralRates(planes),
                                .layout = Layout()};
      if (Rarely(random_, 3)) block.decay_drive = DecayDrive();
      return Block(block, drive);
    }
    case 4: {
      const auto size = static_cast<int>(random_.Integer(2, 4));
      const auto chains = static_cast<int>(random_.Integer(1, 3));
      if (size * chains > left) break;
      const Drive drive = DecayDrive();
      *width = size * chains;
      return Block(
          RealJordanBlock{.size = size,
                          .rates = OneOrSeveralRates(chains),
                          .tau = span_ * LogUniform(random_, 1e-6, 1e6),
                          .chains = chains},
          drive);
    }
    case 5: {
      const auto size = static_cast<int>(random_.Integer(2, 4));
      const auto chains = static_cast<int>(random_.Integer(1, 2));
      if (2 * size * chains > left) break;
      const Drive drive = DecayDrive();
      *width = 2 * size * chains;
      return Block(
          ComplexJordanBlock{.size = size,
                             .frequencies = Frequencies(chains, drive.clock),
                             .rates = OneOrSeveralRates(chains),
                             .eta = LogUniform(random_, 1e-6, 1e6) / span_},
          drive);
    }
    case 6: {
      const auto n = static_cast<int>(random_.Integer(1, std::min(left, 6)));
      *width = n;
      const Drive drive = DecayDrive();
      return Block(DenseMatrixBlock{.dim = n, .matrix = StableMatrix(n)},
                   drive);
    }
    case 7: {
      const auto n = static_cast<int>(random_.Integer(2, std::max(2, left)));
      if (n > left) break;
      *width = n;
      const Drive drive = RandomDrive();
      SkewRank2Block block{.frequency = Frequency(drive.clock) / n};
      for (int i = 0; i < n; ++i) {
        block.a.push_back(random_.Normal());
        block.b.push_back(random_.Normal());
      }
      return Block(block, drive);
    }
    default:
      break;
  }
  *width = static_cast<int>(random_.Integer(1, left));
  return DecayOf(*width, DecayDrive());
}

Block RandomParts::DecayOf(int width, const Drive& drive) {
  DecayBlock block{.rates = OneOrSeveralRates(width)};
  if (block.rates.size() == 1) block.width = width;
  return Block(block, drive);
}

std::vector<Block> RandomParts::Blocks() {
  std::vector<Block> blocks;
  averaged_ = !carried_ && Rarely(random_, 8);
  for (auto left = static_cast<int>(spec_.dim); left > 0;) {
    int width = 0;
    Block block = OneBlock(left, &width);
    block.averaged =
        averaged_ && !std::holds_alternative<IdentityBlock>(block.kind);
    blocks.push_back(std::move(block));
    left -= width;
    if (Rarely(random_, 3)) break;
  }
  return blocks;
}

}  // namespace attnd::testing
