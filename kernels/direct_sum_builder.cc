#include "kernels/direct_sum_builder.h"

#include <utility>

namespace attnd {
namespace {

// Puts an n x n matrix at channel `first` into the identity.
void Embed(const std::vector<double>& part, int n, int first, int dim,
           std::vector<double>& whole) {
  if (whole.empty()) {
    whole.resize(static_cast<size_t>(dim) * dim);
    for (int c = 0; c < dim; ++c) whole[c * dim + c] = 1;
  }
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      whole[(first + i) * dim + first + j] = part[i * n + j];
    }
  }
}

}  // namespace

DirectSumBuilder::DirectSumBuilder(int dim) { resolved_.sum.dim = dim; }

absl::Span<Plane> DirectSumBuilder::AddPlanes(
    int first, const std::vector<double>& frequencies, PairLayout layout,
    const Drive& drive) {
  std::vector<Plane>& planes = resolved_.sum.planes;
  const int n = static_cast<int>(frequencies.size());
  const bool half = layout == PairLayout::kHalfSplit;
  for (int j = 0; j < n; ++j) {
    planes.push_back({.first = first + (half ? j : 2 * j),
                      .second = first + (half ? j + n : 2 * j + 1),
                      .omega = frequencies[j],
                      .drive = drive});
  }
  return absl::MakeSpan(planes).last(n);
}

void DirectSumBuilder::AddChain(std::vector<int> channels, double rate,
                                double coupling, const Drive& drive) {
  if (channels.size() == 1 && rate == 0) return;
  resolved_.sum.chains.push_back({.channels = std::move(channels),
                                  .rate = rate,
                                  .coupling = coupling,
                                  .drive = drive});
}

void DirectSumBuilder::AddJets(int first, int size, double omega, double rate,
                               double eta, const Drive& drive) {
  std::vector<int> re, im;
  for (int jet = 0; jet < size; ++jet) {
    re.push_back(first + 2 * jet);
    im.push_back(first + 2 * jet + 1);
    resolved_.sum.planes.push_back({.first = re.back(),
                                    .second = im.back(),
                                    .omega = omega,
                                    .drive = drive});
    if (eta != 0) continue;
    AddChain({re.back()}, rate, 0, drive);
    AddChain({im.back()}, rate, 0, drive);
  }
  if (eta == 0) return;
  AddChain(std::move(re), rate, eta, drive);
  AddChain(std::move(im), rate, eta, drive);
}

void DirectSumBuilder::AddForm(int first, DenseForm form, const Drive& drive) {
  DirectSum& sum = resolved_.sum;
  for (Plane& plane : form.sum.planes) {
    plane.first += first;
    plane.second += first;
    plane.drive = drive;
    sum.planes.push_back(std::move(plane));
  }
  for (Chain& chain : form.sum.chains) {
    for (int& channel : chain.channels) channel += first;
    chain.drive = drive;
    sum.chains.push_back(std::move(chain));
  }
  for (SmallBlock& block : form.sum.small_blocks) {
    for (int& channel : block.channels) channel += first;
    block.drive = drive;
    sum.small_blocks.push_back(std::move(block));
  }
  if (form.basis.empty()) return;
  Embed(form.basis, form.sum.dim, first, sum.dim, resolved_.basis);
  Embed(form.basis_inverse, form.sum.dim, first, sum.dim,
        resolved_.basis_inverse);
}

void DirectSumBuilder::AddFreeRotation(FreeRotation rotation) {
  resolved_.sum.free_rotations.push_back(std::move(rotation));
}

void DirectSumBuilder::Amplify(int first, int width, double amplitude) {
  if (amplitude == 1) return;
  std::vector<double>& scale = resolved_.sum.channel_scale;
  scale.resize(resolved_.sum.dim, 1.0);
  for (int c = first; c < first + width; ++c) scale[c] = amplitude;
}

}  // namespace attnd
