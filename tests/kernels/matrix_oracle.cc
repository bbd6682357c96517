#include "tests/kernels/matrix_oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attnd::testing {
namespace {

using LongMatrix = std::vector<long double>;

LongMatrix LongIdentity(int n) {
  LongMatrix one(static_cast<size_t>(n) * n, 0);
  for (int i = 0; i < n; ++i) one[i * n + i] = 1;
  return one;
}

LongMatrix LongProduct(const LongMatrix& a, const LongMatrix& b, int n) {
  LongMatrix c(a.size(), 0);
  for (int i = 0; i < n; ++i) {
    for (int k = 0; k < n; ++k) {
      for (int j = 0; j < n; ++j) c[i * n + j] += a[i * n + k] * b[k * n + j];
    }
  }
  return c;
}

// The series of phi1, and exp = 1 + A phi1, of A = lag X / 2^halvings.
struct Series {
  LongMatrix exp, phi1;
  int halvings = 0;
};

Series Sum(const Matrix& x, int n, double lag) {
  long double norm = 0;
  for (double e : x) norm += std::abs(static_cast<long double>(e) * lag);
  Series s;
  while (norm > 0.25L) {
    norm /= 2;
    ++s.halvings;
  }
  LongMatrix a(x.begin(), x.end());
  for (long double& e : a) e = std::ldexp(e * lag, -s.halvings);
  LongMatrix term = LongIdentity(n);
  s.phi1 = term;
  for (int k = 1; k <= 30; ++k) {
    term = LongProduct(term, a, n);
    for (size_t e = 0; e < a.size(); ++e) {
      term[e] /= k + 1;
      s.phi1[e] += term[e];
    }
  }
  s.exp = LongProduct(a, s.phi1, n);
  for (int i = 0; i < n; ++i) s.exp[i * n + i] += 1;
  return s;
}

// phi1(2A) = (exp(A) + 1) phi1(A) / 2.
Series Squared(const Matrix& x, int n, double lag) {
  Series s = Sum(x, n, lag);
  for (int h = 0; h < s.halvings; ++h) {
    const LongMatrix twice = LongProduct(s.exp, s.phi1, n);
    for (size_t e = 0; e < twice.size(); ++e) {
      s.phi1[e] = (twice[e] + s.phi1[e]) / 2;
    }
    s.exp = LongProduct(s.exp, s.exp, n);
  }
  return s;
}

}  // namespace

Matrix Identity(int n) {
  Matrix one(static_cast<size_t>(n) * n);
  for (int i = 0; i < n; ++i) one[i * n + i] = 1;
  return one;
}

Matrix Product(const Matrix& a, const Matrix& b, int n) {
  const LongMatrix c =
      LongProduct({a.begin(), a.end()}, {b.begin(), b.end()}, n);
  return Matrix(c.begin(), c.end());
}

Matrix Transpose(const Matrix& a, int n) {
  Matrix t(a.size());
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) t[j * n + i] = a[i * n + j];
  }
  return t;
}

double Difference(const Matrix& a, const Matrix& b) {
  double largest = 0;
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  for (size_t e = 0; e < a.size(); ++e) {
    const double difference = std::abs(a[e] - b[e]);
    if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, difference);
  }
  return largest;
}

double LargestEntry(const Matrix& a) {
  return Difference(a, Matrix(a.size(), 0.0));
}

double FrobeniusNorm(const Matrix& a) {
  double sum = 0;
  for (double x : a) sum += x * x;
  return std::sqrt(sum);
}

Matrix SeriesExp(const Matrix& x, int n, double lag) {
  const Series s = Squared(x, n, lag);
  return Matrix(s.exp.begin(), s.exp.end());
}

Matrix SeriesPhi1(const Matrix& x, int n, double lag) {
  const Series s = Squared(x, n, lag);
  return Matrix(s.phi1.begin(), s.phi1.end());
}

Matrix GeneratorMatrix(const Generator& generator) {
  const int n = generator.dim();
  Matrix x(static_cast<size_t>(n) * n);
  for (const Plane& p : generator.planes()) {
    double omega = p.omega;
    for (const PlaneTerm& term : p.further) omega += term.omega;
    x[p.first * n + p.second] += omega;
    x[p.second * n + p.first] -= omega;
  }
  for (const Chain& chain : generator.chains()) {
    const std::vector<int>& c = chain.channels;
    for (size_t i = 0; i < c.size(); ++i) {
      x[c[i] * n + c[i]] -= chain.rate;
      if (i + 1 < c.size()) x[c[i] * n + c[i + 1]] += chain.coupling;
    }
  }
  for (const SmallBlock& block : generator.small_blocks()) {
    const std::vector<int>& c = block.channels;
    for (size_t i = 0; i < c.size(); ++i) {
      for (size_t j = 0; j < c.size(); ++j) {
        x[c[i] * n + c[j]] += block.matrix[i * c.size() + j];
      }
    }
  }
  if (generator.basis().empty()) return x;
  return Product(Product(generator.basis(), x, n), generator.basis_inverse(),
                 n);
}

Matrix RandomMatrix(int n, Random& random) {
  Matrix m(static_cast<size_t>(n) * n);
  for (double& x : m) x = random.Normal();
  return m;
}

Matrix RandomTurn(int n, Random& random) {
  Matrix turn = Identity(n);
  for (int r = 0; r < n; ++r) {
    Matrix v(n);
    double square = 0;
    for (double& x : v) {
      x = random.Normal();
      square += x * x;
    }
    Matrix reflection = Identity(n);
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < n; ++j) {
        reflection[i * n + j] -= 2 * v[i] * v[j] / square;
      }
    }
    turn = Product(turn, reflection, n);
  }
  return turn;
}

}  // namespace attnd::testing
