#include "kernels/linear_frame.h"

#include <algorithm>
#include <cmath>

#include "kernels/matrix_exp.h"

namespace attnd {
namespace {

int ChannelAt(const HeadEncoder& head, int position) {
  return head.order().empty() ? position : head.order()[position];
}

double ScaleAt(const HeadEncoder& head, int channel) {
  const std::vector<double>& scale = head.generator().channel_scale();
  return scale.empty() ? 1 : scale[channel];
}

// rows[r] = sum_c matrix(r, c) rows[c] on n rows.
template <typename Matrix>
void MixRows(int n, int64_t width, double* const* rows, Matrix matrix) {
  std::vector<double> in(n);
  for (int64_t w = 0; w < width; ++w) {
    for (int r = 0; r < n; ++r) in[r] = rows[r][w];
    for (int r = 0; r < n; ++r) {
      double sum = 0;
      for (int c = 0; c < n; ++c) sum += matrix(r, c) * in[c];
      rows[r][w] = sum;
    }
  }
}

}  // namespace

void RotateFrame(const HeadEncoder& head, const PhasePoint* points, bool back,
                 int64_t width, double* frame) {
  for (const HeadEncoder::PlaneGroup& group : head.plane_groups()) {
    const bool half = group.layout == PairLayout::kHalfSplit;
    for (int p = 0; p < group.planes; ++p) {
      const uint64_t word = PhaseWordOf(head, points, group.table_offset + p);
      const double angle = static_cast<double>(static_cast<int64_t>(word)) *
                           (2 * M_PI * 0x1p-64);
      const double c = std::cos(angle);
      const double s = back ? -std::sin(angle) : std::sin(angle);
      const int first = group.first + (half ? p : 2 * p);
      double* x0 = frame + first * width;
      double* x1 = frame + (first + (half ? group.distance : 1)) * width;
      for (int64_t w = 0; w < width; ++w) {
        const double a = x0[w], b = x1[w];
        x0[w] = a * c - b * s;
        x1[w] = a * s + b * c;
      }
    }
  }
}

void EnterFrame(const HeadEncoder* head, const PhasePoint* points, int64_t dim,
                int64_t width, const double* sums, double* frame) {
  if (head == nullptr) {
    std::copy(sums, sums + dim * width, frame);
    return;
  }
  const std::vector<double>& inverse = head->generator().basis_inverse();
  for (int p = 0; p < dim; ++p) {
    const int c = ChannelAt(*head, p);
    const double by = ScaleAt(*head, c);
    double* out = frame + p * width;
    if (inverse.empty()) {
      for (int64_t w = 0; w < width; ++w) out[w] = by * sums[c * width + w];
      continue;
    }
    std::fill(out, out + width, 0.0);
    for (int64_t in = 0; in < dim; ++in) {
      const double factor = by * inverse[c * dim + in];
      for (int64_t w = 0; w < width; ++w) {
        out[w] += factor * sums[in * width + w];
      }
    }
  }
  RotateFrame(*head, points, false, width, frame);
}

void LeaveFrame(const HeadEncoder* head, const PhasePoint* points, int64_t dim,
                int64_t width, const double* frame, double* sums) {
  if (head == nullptr) {
    std::copy(frame, frame + dim * width, sums);
    return;
  }
  std::vector<double> still(frame, frame + dim * width);
  RotateFrame(*head, points, true, width, still.data());
  const std::vector<double>& basis = head->generator().basis();
  std::fill(sums, sums + dim * width, 0.0);
  for (int p = 0; p < dim; ++p) {
    const int c = ChannelAt(*head, p);
    const double by = 1 / ScaleAt(*head, c);
    const double* in = still.data() + p * width;
    for (int64_t out = 0; out < dim; ++out) {
      if (basis.empty() && out != c) continue;
      const double factor = basis.empty() ? by : by * basis[out * dim + c];
      for (int64_t w = 0; w < width; ++w) {
        sums[out * width + w] += factor * in[w];
      }
    }
  }
}

void AdvanceFrame(const HeadEncoder* head, const double* lags, bool mirrored,
                  int64_t width, double* frame) {
  if (head == nullptr) return;
  for (const HeadEncoder::ChainGroup& group : head->chain_groups()) {
    for (int i = 0; i < group.count; ++i) {
      const int chain = group.factor_offset + i;
      const double lag = lags[head->chain_sources()[chain]];
      const double e = std::exp(-head->exact_rates()[chain] * lag);
      const double z = head->exact_couplings()[chain] * lag;
      double* rows[kMaxJets];
      double power[kMaxJets] = {e};
      for (int r = 0; r < group.order; ++r) {
        rows[r] = frame + (group.first + r * group.count + i) * width;
        if (r > 0) power[r] = e == 0 ? 0 : power[r - 1] * z / r;
      }
      MixRows(group.order, width, rows,
              [&](int r, int c) { return c < r ? 0 : power[c - r]; });
    }
  }
  for (const HeadEncoder::Small& small : head->smalls()) {
    const std::vector<double> exp =
        MatrixExp(mirrored ? small.mirrored : small.matrix, small.size,
                  lags[small.source]);
    std::vector<double*> rows;
    for (int r = 0; r < small.size; ++r) {
      rows.push_back(frame + (small.first + r) * width);
    }
    MixRows(small.size, width, rows.data(),
            [&](int r, int c) { return exp[r * small.size + c]; });
  }
}

}  // namespace attnd
