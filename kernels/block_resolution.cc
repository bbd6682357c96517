#include "kernels/block_resolution.h"

#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "kernels/block_checks.h"
#include "kernels/dense.h"
#include "kernels/field_checks.h"
#include "kernels/rotary_scaling.h"
#include "kernels/skew_rank2.h"

namespace attnd {
namespace {

// One per item, or one for all.
double At(const std::vector<double>& values, int64_t item) {
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
  Resolver(int head_dim, double length) : length_(length) {
    resolved_.sum.dim = head_dim;
  }

  absl::Status Add(const Block& block, std::string path) {
    path_ = std::move(path);
    drive_ = block.drive;
    return std::visit([&](const auto& kind) { return Lay(kind); }, block.kind);
  }

  ResolvedBlocks Take() && { return std::move(resolved_); }

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
    const size_t begin = resolved_.sum.planes.size();
    AddPlanes(ladder->frequencies, block.layout);
    for (size_t j = 0; j < axis_of.size(); ++j) {
      resolved_.sum.planes[begin + j].drive = Moved(drive_, axis_of[j]);
    }
    Amplify(width, ladder->amplitude);
    resolved_.sum.length_dependent |= ladder->length_dependent;
    return absl::OkStatus();
  }

  absl::Status Lay(const RotationBlock& block) {
    const int terms = block.coordinates;
    const int planes = static_cast<int>(block.frequencies.size()) / terms;
    absl::Status status = Reserve(2 * int64_t{planes});
    if (!status.ok()) return status;
    const size_t begin = resolved_.sum.planes.size();
    std::vector<double> first(planes);
    for (int j = 0; j < planes; ++j) first[j] = block.frequencies[j * terms];
    AddPlanes(first, block.layout);
    for (int j = 0; terms > 1 && j < planes; ++j) {
      SetTerms(&block.frequencies[j * terms], terms,
               resolved_.sum.planes[begin + j]);
    }
    return absl::OkStatus();
  }

  absl::Status Lay(const DecayBlock& block) {
    const int64_t width = block.rates.size() > 1
                              ? static_cast<int64_t>(block.rates.size())
                          : block.width > 0 ? block.width
                                            : Left();
    absl::Status status = Reserve(width);
    if (!status.ok()) return status;
    for (int64_t c = 0; c < width; ++c) {
      AddDecay(first_ + static_cast<int>(c), At(block.rates, c), drive_);
    }
    return absl::OkStatus();
  }

  absl::Status Lay(const DampedRotationBlock& block) {
    const int planes = static_cast<int>(block.frequencies.size());
    absl::Status status = Reserve(2 * int64_t{planes});
    if (!status.ok()) return status;
    const size_t begin = resolved_.sum.planes.size();
    AddPlanes(block.frequencies, block.layout);
    const Drive decay_drive = block.decay_drive.value_or(drive_);
    for (int j = 0; j < planes; ++j) {
      const Plane& plane = resolved_.sum.planes[begin + j];
      AddDecay(plane.first, At(block.rates, j), decay_drive);
      AddDecay(plane.second, At(block.rates, j), decay_drive);
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
    for (int64_t i = 0; i < chains; ++i) {
      Chain chain{.channels = std::vector<int>(block.size),
                  .rate = At(block.rates, i),
                  .coupling = 1 / block.tau,
                  .drive = drive_};
      std::iota(chain.channels.begin(), chain.channels.end(),
                first_ + static_cast<int>(i) * block.size);
      resolved_.sum.chains.push_back(std::move(chain));
    }
    return absl::OkStatus();
  }

  absl::Status Lay(const ComplexJordanBlock& block) {
    const int chains = static_cast<int>(block.frequencies.size());
    absl::Status status = Reserve(2 * int64_t{chains} * block.size);
    if (!status.ok()) return status;
    for (int i = 0; i < chains; ++i) {
      AddJets(first_ + 2 * i * block.size, block.size, block.frequencies[i],
              At(block.rates, i), block.eta);
    }
    return absl::OkStatus();
  }

  absl::Status Lay(const DenseMatrixBlock& block) {
    absl::Status status = Reserve(block.dim);
    if (!status.ok()) return status;
    absl::StatusOr<DenseForm> form =
        SplitDense(block.matrix, block.dim, path_ + ".matrix");
    if (!form.ok()) return form.status();
    AddForm(*std::move(form));
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
    AddForm(std::move(form));
    return absl::OkStatus();
  }

  absl::Status Lay(const LieReBlock& block) {
    absl::Status status = Reserve(block.dim);
    if (!status.ok()) return status;
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
      resolved_.sum.free_rotations.push_back(std::move(free));
      return absl::OkStatus();
    }
    // R(p)^T R(p') = exp(-(p - p') A).
    for (double& x : free.generators) x = -x;
    absl::StatusOr<DenseForm> form =
        SplitDense(free.generators, block.dim, path_);
    if (!form.ok()) return form.status();
    AddForm(*std::move(form));
    return absl::OkStatus();
  }

  int64_t Left() const { return resolved_.sum.dim - next_; }

  // Takes the next `width` channels; first_ is the first of them.
  absl::Status Reserve(int64_t width) {
    if (width > Left()) {
      return Refuse(path_, absl::StrCat("needs ", width, " channels"),
                    absl::StrCat("at most ", Left(), ", from channel ", next_,
                                 " on of head_dim ", resolved_.sum.dim));
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

  // Lays one plane per frequency over the channels from first_ on.
  void AddPlanes(const std::vector<double>& frequencies, PairLayout layout) {
    const int n = static_cast<int>(frequencies.size());
    const bool half = layout == PairLayout::kHalfSplit;
    for (int j = 0; j < n; ++j) {
      resolved_.sum.planes.push_back(
          {.first = first_ + (half ? j : 2 * j),
           .second = first_ + (half ? j + n : 2 * j + 1),
           .omega = frequencies[j],
           .drive = drive_});
    }
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

  // Moves a form's channels and basis to first_.
  void AddForm(DenseForm form) {
    DirectSum& sum = resolved_.sum;
    for (Plane& plane : form.sum.planes) {
      plane.first += first_;
      plane.second += first_;
      plane.drive = drive_;
      sum.planes.push_back(std::move(plane));
    }
    for (Chain& chain : form.sum.chains) {
      for (int& channel : chain.channels) channel += first_;
      chain.drive = drive_;
      sum.chains.push_back(std::move(chain));
    }
    for (SmallBlock& block : form.sum.small_blocks) {
      for (int& channel : block.channels) channel += first_;
      block.drive = drive_;
      sum.small_blocks.push_back(std::move(block));
    }
    if (form.basis.empty()) return;
    Embed(form.basis, form.sum.dim, resolved_.basis);
    Embed(form.basis_inverse, form.sum.dim, resolved_.basis_inverse);
  }

  // Puts an n x n matrix at first_ into the identity.
  void Embed(const std::vector<double>& part, int n,
             std::vector<double>& whole) const {
    const int dim = resolved_.sum.dim;
    if (whole.empty()) {
      whole.resize(static_cast<size_t>(dim) * dim);
      for (int c = 0; c < dim; ++c) whole[c * dim + c] = 1;
    }
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < n; ++j) {
        whole[(first_ + i) * dim + first_ + j] = part[i * n + j];
      }
    }
  }

  void AddDecay(int channel, double rate, const Drive& drive) {
    if (rate == 0) return;
    resolved_.sum.chains.push_back(
        {.channels = {channel}, .rate = rate, .drive = drive});
  }

  // A complex chain over (re, im) of jet 0, of jet 1, ... from channel `first`
  // on.
  void AddJets(int first, int size, double omega, double rate, double eta) {
    for (int jet = 0; jet < size; ++jet) {
      resolved_.sum.planes.push_back({.first = first + 2 * jet,
                                      .second = first + 2 * jet + 1,
                                      .omega = omega,
                                      .drive = drive_});
    }
    for (int part = 0; part < 2; ++part) {
      Chain chain{.rate = rate, .coupling = eta, .drive = drive_};
      for (int jet = 0; jet < size; ++jet) {
        if (eta == 0) AddDecay(first + 2 * jet + part, rate, drive_);
        chain.channels.push_back(first + 2 * jet + part);
      }
      if (eta != 0) resolved_.sum.chains.push_back(std::move(chain));
    }
  }

  void Amplify(int64_t width, double amplitude) {
    if (amplitude == 1) return;
    std::vector<double>& scale = resolved_.sum.channel_scale;
    scale.resize(resolved_.sum.dim, 1.0);
    for (int64_t c = 0; c < width; ++c) scale[first_ + c] = amplitude;
  }

  const double length_;
  ResolvedBlocks resolved_;
  int next_ = 0;   // first channel that no block has taken
  int first_ = 0;  // of the block being laid
  std::string path_;
  Drive drive_;
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

}  // namespace

absl::StatusOr<ResolvedBlocks> ResolveBlocks(const std::vector<Block>& blocks,
                                             int head_dim, double length) {
  absl::Status status = CheckAveraged(blocks);
  if (!status.ok()) return status;
  Resolver resolver(head_dim, length);
  bool averaged = false;
  for (size_t i = 0; i < blocks.size(); ++i) {
    status = resolver.Add(
        blocks[i], absl::StrCat("blocks[", i, "].", KindName(blocks[i])));
    if (!status.ok()) return status;
    averaged |= blocks[i].averaged;
  }
  ResolvedBlocks resolved = std::move(resolver).Take();
  resolved.sum.averaged = averaged;
  return resolved;
}

}  // namespace attnd
