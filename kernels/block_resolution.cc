#include "kernels/block_resolution.h"

#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "kernels/block_checks.h"
#include "kernels/dense.h"
#include "kernels/direct_sum_builder.h"
#include "kernels/field_checks.h"
#include "kernels/rotary_scaling.h"
#include "kernels/skew_rank2.h"

namespace attnd {
namespace {

// One per item, or one for all.
double At(const std::vector<double>& values, size_t item) {
  return values.size() == 1 ? values[0] : values[item];
}

// What a block turns along: its drive moved on by `offset` axes.
Drive Moved(Drive drive, int offset) {
  (drive.clock ? drive.clock_channel : drive.coordinate) += offset;
  return drive;
}

// The coordinate of every plane: which section it belongs to.
std::vector<int> DealPlanes(const AxisSections& axes, int planes) {
  std::vector<int> axis_of(planes, 0);
  const int axes_count = static_cast<int>(axes.sections.size());
  if (axes_count == 0) return axis_of;
  std::vector<int> left = axes.sections;
  for (int j = 0, axis = 0; j < planes; ++j) {
    if (axes.order == AxisSections::Order::kInterleaved) {
      axis = j % axes_count;
      axis_of[j] = left[axis]-- > 0 ? axis : 0;
    } else {
      while (left[axis] == 0) ++axis;
      --left[axis];
      axis_of[j] = axis;
    }
  }
  return axis_of;
}

class Resolver {
 public:
  Resolver(int head_dim, double length, const std::atomic<bool>* stop)
      : length_(length), dim_(head_dim), stop_(stop), builder_(head_dim) {}

  absl::Status Add(const Block& block, std::string path) {
    path_ = std::move(path);
    drive_ = block.drive;
    return std::visit([&](const auto& kind) { return Lay(kind); }, block.kind);
  }

  bool length_dependent() const { return length_dependent_; }
  ResolvedBlocks Take() && { return std::move(builder_).Take(); }

 private:
  absl::Status Lay(const IdentityBlock& block) { return Reserve(block.width); }

  absl::Status Lay(const RotaryBlock& block) {
    const int64_t width =
        block.rotary_dim > 0
            ? block.rotary_dim
            : static_cast<int64_t>(std::floor(block.rotary_fraction * Left()));
    if (block.rotary_dim == 0 && (width == 0 || width % 2 != 0)) {
      return Refuse(path_,
                    absl::StrCat(width, " of the ", Left(), " channels left"),
                    "an even number > 0; set rotary_dim");
    }
    absl::Status status = Reserve(width);
    if (!status.ok()) return status;
    status = CheckSections(block.axes, width / 2);
    if (!status.ok()) return status;
    absl::StatusOr<RotaryLadder> ladder =
        ScaledLadder(block, static_cast<int>(width), length_, path_);
    if (!ladder.ok()) return ladder.status();

    const std::vector<int> axis_of =
        DealPlanes(block.axes, static_cast<int>(width / 2));
    const absl::Span<Plane> planes =
        builder_.AddPlanes(first_, ladder->frequencies, block.layout, drive_);
    for (size_t j = 0; j < planes.size(); ++j) {
      planes[j].drive = Moved(drive_, axis_of[j]);
    }
    builder_.Amplify(first_, static_cast<int>(width), ladder->amplitude);
    length_dependent_ |= ladder->length_dependent;
    return absl::OkStatus();
  }

  absl::Status Lay(const RotationBlock& block) {
    const int terms = block.coordinates;
    const int count = static_cast<int>(block.frequencies.size()) / terms;
    absl::Status status = Reserve(2 * int64_t{count});
    if (!status.ok()) return status;
    std::vector<double> first(count);
    for (int j = 0; j < count; ++j) first[j] = block.frequencies[j * terms];
    const absl::Span<Plane> planes =
        builder_.AddPlanes(first_, first, block.layout, drive_);
    for (int j = 0; terms > 1 && j < count; ++j) {
      SetTerms(&block.frequencies[j * terms], terms, planes[j]);
    }
    return absl::OkStatus();
  }

  absl::Status Lay(const DecayBlock& block) {
    const int64_t width = block.rates.size() > 1
                              ? static_cast<int64_t>(block.rates.size())
                          : block.width > 0 ? block.width
                                            : Left();
    if (width == 0) return Refuse(path_, "no channels left", "at least 1");
    absl::Status status = Reserve(width);
    if (!status.ok()) return status;
    for (int c = 0; c < width; ++c) {
      builder_.AddChain({first_ + c}, At(block.rates, c), 0, drive_);
    }
    return absl::OkStatus();
  }

  absl::Status Lay(const DampedRotationBlock& block) {
    absl::Status status =
        Reserve(2 * static_cast<int64_t>(block.frequencies.size()));
    if (!status.ok()) return status;
    const absl::Span<Plane> planes =
        builder_.AddPlanes(first_, block.frequencies, block.layout, drive_);
    const Drive decay_drive = block.decay_drive.value_or(drive_);
    for (size_t j = 0; j < planes.size(); ++j) {
      const double rate = At(block.rates, j);
      builder_.AddChain({planes[j].first}, rate, 0, decay_drive);
      builder_.AddChain({planes[j].second}, rate, 0, decay_drive);
    }
    return absl::OkStatus();
  }

  absl::Status Lay(const RealJordanBlock& block) {
    const int64_t chains = block.chains > 0 ? block.chains
                           : block.rates.size() > 1
                               ? static_cast<int64_t>(block.rates.size())
                               : Left() / block.size;
    if (chains == 0) {
      return Refuse(path_, absl::StrCat(Left(), " channels left"),
                    absl::StrCat("at least size ", block.size));
    }
    absl::Status status = Reserve(chains * block.size);
    if (!status.ok()) return status;
    for (int i = 0; i < chains; ++i) {
      std::vector<int> channels(block.size);
      std::iota(channels.begin(), channels.end(), first_ + i * block.size);
      builder_.AddChain(std::move(channels), At(block.rates, i), 1 / block.tau,
                        drive_);
    }
    return absl::OkStatus();
  }

  absl::Status Lay(const ComplexJordanBlock& block) {
    const int chains = static_cast<int>(block.frequencies.size());
    absl::Status status = Reserve(2 * int64_t{chains} * block.size);
    if (!status.ok()) return status;
    for (int i = 0; i < chains; ++i) {
      builder_.AddJets(first_ + 2 * i * block.size, block.size,
                       block.frequencies[i], At(block.rates, i), block.eta,
                       drive_);
    }
    return absl::OkStatus();
  }

  absl::Status Lay(const DenseMatrixBlock& block) {
    absl::Status status = Reserve(block.dim);
    if (!status.ok()) return status;
    absl::StatusOr<DenseForm> form =
        SplitDense(block.matrix, block.dim, path_ + ".matrix", stop_);
    if (!form.ok()) return form.status();
    builder_.AddForm(first_, *std::move(form), drive_);
    return absl::OkStatus();
  }

  absl::Status Lay(const SkewRank2Block& block) {
    absl::Status status = Reserve(static_cast<int64_t>(block.a.size()));
    if (!status.ok()) return status;
    DenseForm form = SplitSkewRank2(block);
    for (const Plane& plane : form.sum.planes) {
      status = CheckFinite(path_ + ": frequency of the plane", plane.omega);
      if (!status.ok()) return status;
    }
    builder_.AddForm(first_, std::move(form), drive_);
    return absl::OkStatus();
  }

  absl::Status Lay(const LieReBlock& block) {
    absl::Status status = Reserve(block.dim);
    if (!status.ok()) return status;
    if (block.dim == 2) {
      // Turns of one plane commute.
      SetTerms(block.generators.data(), block.coordinates,
               builder_.AddPlanes(first_, {block.generators[0]},
                                  PairLayout::kInterleaved, drive_)[0]);
      return absl::OkStatus();
    }
    FreeRotation free;
    for (int c = 0; c < block.dim; ++c) free.channels.push_back(first_ + c);
    size_t next = 0;
    for (int a = 0; a < block.coordinates; ++a) {
      std::vector<double> skew(static_cast<size_t>(block.dim) * block.dim);
      for (int i = 1; i < block.dim; ++i) {
        for (int j = 0; j < i; ++j) {
          skew[i * block.dim + j] = block.generators[next++];
          skew[j * block.dim + i] = -skew[i * block.dim + j];
        }
      }
      free.drives.push_back(Moved(drive_, a));
      free.generators.insert(free.generators.end(), skew.begin(), skew.end());
    }
    if (block.coordinates > 1) {
      builder_.AddFreeRotation(std::move(free));
      return absl::OkStatus();
    }
    // R(p)^T R(p') = exp(-(p - p') A).
    for (double& x : free.generators) x = -x;
    absl::StatusOr<DenseForm> form =
        SplitDense(free.generators, block.dim, path_, stop_);
    if (!form.ok()) return form.status();
    builder_.AddForm(first_, *std::move(form), drive_);
    return absl::OkStatus();
  }

  int64_t Left() const { return dim_ - next_; }

  // Takes the next `width` channels; first_ is the first of them.
  absl::Status Reserve(int64_t width) {
    if (width > Left()) {
      return Refuse(path_, absl::StrCat("needs ", width, " channels"),
                    absl::StrCat("at most ", Left(), ", from channel ", next_,
                                 " on of head_dim ", dim_));
    }
    first_ = next_;
    next_ += static_cast<int>(width);
    return absl::OkStatus();
  }

  absl::Status CheckSections(const AxisSections& axes, int64_t planes) const {
    if (axes.sections.empty()) return absl::OkStatus();
    const int64_t sum =
        std::accumulate(axes.sections.begin(), axes.sections.end(), int64_t{0});
    if (sum == planes) return absl::OkStatus();
    return Refuse(path_ + ".axes.sections", absl::StrCat("sum ", sum),
                  absl::StrCat(planes, " planes"));
  }

  // The frequency vector of one plane; axes that it does not follow are left
  // out.
  void SetTerms(const double* frequencies, int terms, Plane& plane) const {
    std::vector<PlaneTerm> used;
    for (int a = 0; a < terms; ++a) {
      if (frequencies[a] != 0) {
        used.push_back({.omega = frequencies[a], .drive = Moved(drive_, a)});
      }
    }
    if (used.empty()) return;
    plane.omega = used[0].omega;
    plane.drive = used[0].drive;
    plane.further.assign(used.begin() + 1, used.end());
  }

  const double length_;
  const int dim_;
  const std::atomic<bool>* const stop_;
  DirectSumBuilder builder_;
  int next_ = 0;   // first channel that no block has taken
  int first_ = 0;  // of the block being laid
  std::string path_;
  Drive drive_;
  bool length_dependent_ = false;
};

absl::Status CheckAveraged(const std::vector<Block>& blocks) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    const auto* liere = std::get_if<LieReBlock>(&blocks[i].kind);
    if (liere != nullptr && liere->coordinates > 1 && blocks[i].averaged) {
      return Refuse(absl::StrCat("blocks[", i, "].averaged"), "true",
                    "false where scores do not depend on lags alone");
    }
  }
  const Block* averaged = nullptr;
  const Block* plain = nullptr;
  for (const Block& block : blocks) {
    if (std::holds_alternative<IdentityBlock>(block.kind)) continue;
    (block.averaged ? averaged : plain) = &block;
  }
  if (averaged == nullptr || plain == nullptr) return absl::OkStatus();
  return Refuse(
      absl::StrCat("blocks[", plain - blocks.data(), "].averaged"), "false",
      absl::StrCat("true, as in blocks[", averaged - blocks.data(), "]"));
}

bool Moves(const DirectSum& sum) {
  return !sum.planes.empty() || !sum.chains.empty() ||
         !sum.small_blocks.empty() || !sum.free_rotations.empty();
}

}  // namespace

absl::StatusOr<ResolvedBlocks> ResolveBlocks(const std::vector<Block>& blocks,
                                             int head_dim, double length,
                                             const std::atomic<bool>* stop) {
  absl::Status status = CheckAveraged(blocks);
  if (!status.ok()) return status;
  Resolver resolver(head_dim, length, stop);
  bool averaged = false;
  for (size_t i = 0; i < blocks.size(); ++i) {
    status = resolver.Add(
        blocks[i], absl::StrCat("blocks[", i, "].", KindName(blocks[i])));
    if (!status.ok()) return status;
    averaged |= blocks[i].averaged;
  }
  const bool length_dependent = resolver.length_dependent();
  ResolvedBlocks resolved = std::move(resolver).Take();
  // Where nothing moves, phi1(0) is the identity that exp(0) is.
  resolved.sum.averaged = averaged && Moves(resolved.sum);
  resolved.sum.length_dependent = length_dependent;
  return resolved;
}

}  // namespace attnd
