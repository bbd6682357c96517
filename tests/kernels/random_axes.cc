// Blocks over several axes: coordinates, or channels of a learned clock.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/kernels/random_parts.h"
#include "tests/kernels/random_places.h"

namespace attnd::testing {

int RandomParts::AxesFrom(const Drive& drive) {
  if (!drive.clock) return spec_.coordinates - drive.coordinate;
  const auto axes = static_cast<int>(random_.Integer(1, 3));
  clock_channels_ = std::max(clock_channels_, drive.clock_channel + axes);
  return axes;
}

// M-RoPE and axial RoPE; some axes turn nothing.
AxisSections RandomParts::Sections(int planes, int axes) {
  AxisSections dealt{
      .sections = std::vector<int>(axes),
      .order = random_.Pick(std::vector<AxisSections::Order>{
          AxisSections::Order::kContiguous, AxisSections::Order::kInterleaved,
          AxisSections::Order::kAxial})};
  for (int p = 0; p < planes; ++p) {
    ++dealt.sections[random_.Integer(0, axes - 1)];
  }
  return dealt;
}

// Units from 0, where turns by places begin.
double RandomParts::LargestPlace(const Drive& drive) const {
  // Clocks run up to a hundred times as fast as time.
  if (drive.clock) return 100 * span_;
  double largest = span_;
  for (int c = 0; c < spec_.coordinates; ++c) {
    const double unit =
        c == 0 ? static_cast<double>(spec_.ratio.unit_ns)
               : static_cast<double>(spec_.encoding->coordinate_unit_ns[c - 1]);
    const auto look = [&](const auto& times) {
      for (size_t e = c; e < times.size(); e += spec_.coordinates) {
        largest = std::max(largest,
                           std::abs(static_cast<double>(times[e])) *
                               static_cast<double>(spec_.ratio.tick_ns) / unit);
      }
    };
    look(spec_.query_ticks);
    look(spec_.key_ticks);
    look(spec_.query_real);
    look(spec_.key_real);
  }
  return largest;
}

Block RandomParts::LieRe(int left, const Drive& drive, int axes, int* width) {
  const auto n = static_cast<int>(random_.Integer(2, std::min(left, 12)));
  *width = n;
  // One axis makes lags of it, and planes commute.
  if (axes > 1 && n > 2) by_places_ = true;
  LieReBlock block{.dim = n, .coordinates = axes};
  const double rate = LogUniform(random_, 1e-3, 1e4) / LargestPlace(drive);
  for (int e = 0; e < axes * n * (n - 1) / 2; ++e) {
    block.generators.push_back(rate * random_.Normal());
  }
  return Block(block, drive);
}

Block RandomParts::AxesBlock(int left, int* width) {
  const Drive drive = RandomDrive();
  const int axes = AxesFrom(drive);
  const auto planes = static_cast<int>(random_.Integer(1, left / 2));
  const int64_t kind = random_.Integer(0, 2);
  // LieRE of several axes has neither averages nor a state.
  if (kind == 0 && !(axes > 1 && (averaged_ || carried_))) {
    return LieRe(left, drive, axes, width);
  }
  *width = 2 * planes;
  if (kind == 1) {
    const AxisSections sections = Sections(planes, axes);
    // A ladder per axis; one plane is too few for some scalings.
    const bool lone =
        sections.order == AxisSections::Order::kAxial &&
        std::count(sections.sections.begin(), sections.sections.end(), 1) > 0;
    return Block(RotaryBlock{.base = LogUniform(random_, 10, 1e7),
                             .rotary_dim = 2 * planes,
                             .layout = Layout(),
                             .scaling = drive.clock || lone ? RotaryScaling()
                                                            : Scaling(planes),
                             .axes = sections},
                 drive);
  }
  // RoPE-mixed: one frequency vector per plane, some of it 0.
  RotationBlock block{.frequencies = Frequencies(planes * axes, drive.clock),
                      .layout = Layout(),
                      .coordinates = axes};
  for (double& frequency : block.frequencies) {
    if (Rarely(random_, 4)) frequency = 0;
  }
  return Block(block, drive);
}

}  // namespace attnd::testing
