#include "kernels/direct_sum_exp.h"

#include <array>
#include <cassert>
#include <cmath>
#include <complex>
#include <utility>

#include "kernels/matrix_exp.h"

namespace attnd {
namespace {

using Complex = std::complex<double>;

// exp(z) - 1 without cancellation near 0.
Complex ExpMinusOne(Complex z) {
  const double half_sine = std::sin(z.imag() / 2);
  return {std::expm1(z.real()) * std::cos(z.imag()) - 2 * half_sine * half_sine,
          std::exp(z.real()) * std::sin(z.imag())};
}

// One or two chains of equal numbers: a Jordan chain whose entries are complex
// numbers re + i im where a plane runs through it. exp on it is multiplication
// by exp(z + step N), z = -rate D - i angle.
struct Cell {
  std::vector<int> re, im = {};  // channels; im empty = real
  Complex z = 0;
  double step = 0;   // coupling * D
  double angle = 0;  // of exp: z.imag() up to whole turns
};

// The upper triangular Toeplitz matrix f(z + step N).
struct Toeplitz {
  std::array<Complex, kMaxJets> diagonal;  // [r]: f^(r)(z) step^r / r!
  Complex first_minus_one;                 // f(z) - 1
};

// factor * step^r, 0 where the factor is.
Complex TimesPower(Complex factor, double step, int r) {
  if (factor == Complex(0)) return 0;
  for (int i = 0; i < r; ++i) factor *= step;
  return factor;
}

Toeplitz ExpOf(const Cell& cell) {
  const Complex turned(cell.z.real(), -cell.angle);
  const Complex value = std::exp(cell.z.real()) *
                        Complex(std::cos(cell.angle), -std::sin(cell.angle));
  Toeplitz t{.diagonal = {}, .first_minus_one = ExpMinusOne(turned)};
  double factorial = 1;
  for (int r = 0; r < kMaxJets; ++r) {
    if (r > 0) factorial *= r;
    t.diagonal[r] = TimesPower(value / factorial, cell.step, r);
  }
  return t;
}

// phi1^(r)(z) = int_0^1 u^r e^(uz) du.
Toeplitz AverageOf(const Cell& cell) {
  const Complex z = cell.z;
  std::array<Complex, kMaxJets> integral{};
  Complex first_minus_one = 0;
  if (std::abs(z) < 2) {
    Complex power = 1;  // z^k / k!
    for (int k = 0; k < 40; ++k) {
      for (int r = 0; r < kMaxJets; ++r) integral[r] += power / (k + r + 1.0);
      if (k > 0) first_minus_one += power / (k + 1.0);
      power *= z / (k + 1.0);
    }
  } else {
    const Complex exp_minus_one = ExpMinusOne({z.real(), -cell.angle});
    integral[0] = exp_minus_one / z;
    for (int r = 1; r < kMaxJets; ++r) {
      integral[r] = (exp_minus_one + 1.0 - double(r) * integral[r - 1]) / z;
    }
    first_minus_one = integral[0] - 1.0;
  }
  Toeplitz t{.diagonal = {}, .first_minus_one = first_minus_one};
  double factorial = 1;
  for (int r = 0; r < kMaxJets; ++r) {
    if (r > 0) factorial *= r;
    t.diagonal[r] = TimesPower(integral[r] / factorial, cell.step, r);
  }
  return t;
}

// Gathers planes and chains that share channels.
class Cells {
 public:
  Cells(const DirectSum& sum, absl::FunctionRef<double(const Drive&)> lag,
        absl::Span<const double> angles, bool absolute_lag)
      : sum_(sum), lag_(lag), angles_(angles), absolute_lag_(absolute_lag) {
    for (const Chain& chain : sum.chains) {
      for (int channel : chain.channels) chain_of_[channel] = &chain;
    }
    std::vector<char> turned(sum.dim, 0);
    for (size_t i = 0; i < sum.planes.size(); ++i) {
      turned[sum.planes[i].first] = turned[sum.planes[i].second] = 1;
      AddPlane(i);
    }
    for (const Chain& chain : sum.chains) {
      if (turned[chain.channels[0]]) continue;
      Cell cell{.re = chain.channels};
      Damp(chain, cell);
      cells_.push_back(std::move(cell));
    }
  }

  const std::vector<Cell>& cells() const { return cells_; }

 private:
  double Advance(const Drive& drive) const {
    return absolute_lag_ ? std::abs(lag_(drive)) : lag_(drive);
  }

  void Damp(const Chain& chain, Cell& cell) const {
    const double advance = Advance(chain.drive);
    cell.z -= chain.rate * advance;
    cell.step = chain.coupling * advance;
  }

  void AddPlane(size_t index) {
    const Plane& plane = sum_.planes[index];
    const Chain* chain = chain_of_[plane.first];
    Cell cell{.re = {plane.first}, .im = {plane.second}};
    if (chain != nullptr) {
      // The planes of further jets belong to the cell of the first.
      if (chain->channels[0] != plane.first) return;
      assert(chain_of_[plane.second] != nullptr);
      cell.re = chain->channels;
      cell.im = chain_of_[plane.second]->channels;
      Damp(*chain, cell);
    }
    double angle = plane.omega * lag_(plane.drive);
    for (const PlaneTerm& term : plane.further) {
      angle += term.omega * lag_(term.drive);
    }
    cell.z.imag(-angle);
    cell.angle = angles_.empty() ? angle : angles_[index];
    cells_.push_back(std::move(cell));
  }

  const DirectSum& sum_;
  absl::FunctionRef<double(const Drive&)> lag_;
  absl::Span<const double> angles_;
  const bool absolute_lag_;
  std::vector<const Chain*> chain_of_ =
      std::vector<const Chain*>(sum_.dim, nullptr);
  std::vector<Cell> cells_;
};

// Writes the real form of a complex number times the map from entry `column` to
// entry `row` of a cell.
void Put(const Cell& cell, size_t row, size_t column, Complex factor, int dim,
         std::vector<double>& matrix) {
  matrix[cell.re[row] * dim + cell.re[column]] = factor.real();
  if (cell.im.empty()) return;
  matrix[cell.im[row] * dim + cell.im[column]] = factor.real();
  matrix[cell.re[row] * dim + cell.im[column]] = -factor.imag();
  matrix[cell.im[row] * dim + cell.re[column]] = factor.imag();
}

// exp(D M), or with |D| (M - W) + D W in place of D M under the two-sided rule.
void PutSmallBlock(const SmallBlock& block, double lag, bool averaged,
                   bool absolute_lag, int dim, DirectSumExp& exp) {
  const int n = static_cast<int>(block.channels.size());
  std::vector<double> matrix = block.matrix;
  if (absolute_lag && lag < 0) {
    lag = -lag;
    for (size_t e = 0; e < block.rotation.size(); ++e) {
      matrix[e] -= 2 * block.rotation[e];
    }
  }
  const std::vector<double> value =
      averaged ? MatrixPhi1(matrix, n, lag) : MatrixExp(matrix, n, lag);
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      const int entry = block.channels[i] * dim + block.channels[j];
      exp.value[entry] = value[i * n + j];
      exp.minus_identity[entry] = value[i * n + j] - (i == j);
    }
  }
}

// R(p)^T R(0).
void PutFreeRotation(const FreeRotation& free,
                     absl::FunctionRef<double(const Drive&)> lag, int dim,
                     DirectSumExp& exp) {
  SmallBlock still{.channels = free.channels,
                   .matrix = std::vector<double>(free.channels.size() *
                                                 free.channels.size()),
                   .rotation = {},
                   .drive = {}};
  const size_t size = still.matrix.size();
  for (size_t a = 0; a < free.drives.size(); ++a) {
    const double position = lag(free.drives[a]);
    for (size_t e = 0; e < size; ++e) {
      still.matrix[e] -= position * free.generators[a * size + e];
    }
  }
  PutSmallBlock(still, 1, false, false, dim, exp);
}

}  // namespace

DirectSumExp Exp(const DirectSum& sum,
                 absl::FunctionRef<double(const Drive&)> lag,
                 absl::Span<const double> angles, bool absolute_lag) {
  const int n = sum.dim;
  DirectSumExp exp;
  exp.minus_identity.assign(static_cast<size_t>(n) * n, 0.0);
  exp.value = exp.minus_identity;
  for (int c = 0; c < n; ++c) exp.value[c * n + c] = 1;
  const Cells cells(sum, lag, angles, absolute_lag);
  for (const Cell& cell : cells.cells()) {
    const Toeplitz t = sum.averaged ? AverageOf(cell) : ExpOf(cell);
    for (size_t row = 0; row < cell.re.size(); ++row) {
      for (size_t column = row; column < cell.re.size(); ++column) {
        const Complex factor = t.diagonal[column - row];
        Put(cell, row, column, factor, n, exp.value);
        Put(cell, row, column, column == row ? t.first_minus_one : factor, n,
            exp.minus_identity);
      }
    }
  }
  for (const SmallBlock& block : sum.small_blocks) {
    PutSmallBlock(block, lag(block.drive), sum.averaged, absolute_lag, n, exp);
  }
  for (const FreeRotation& free : sum.free_rotations) {
    PutFreeRotation(free, lag, n, exp);
  }
  return exp;
}

}  // namespace attnd
