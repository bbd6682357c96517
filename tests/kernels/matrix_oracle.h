// Small matrices by the plain definitions, in long double: what closed forms
// are judged by.
#ifndef ATTND_TESTS_KERNELS_MATRIX_ORACLE_H_
#define ATTND_TESTS_KERNELS_MATRIX_ORACLE_H_

#include <vector>

#include "kernels/generator.h"
#include "tests/kernels/problem_builder.h"

namespace attnd::testing {

// Row-major n x n.
using Matrix = std::vector<double>;

Matrix Identity(int n);
Matrix Product(const Matrix& a, const Matrix& b, int n);
Matrix Transpose(const Matrix& a, int n);
// |a_ij - b_ij| at its largest; infinite when the sizes differ or a NaN is
// there.
double Difference(const Matrix& a, const Matrix& b);
double LargestEntry(const Matrix& a);
double FrobeniusNorm(const Matrix& a);

// exp(lag X) and phi1(lag X) by the power series in long double, after halving
// the lag until |lag X| <= 1/4: for |lag X| up to about 1e4.
Matrix SeriesExp(const Matrix& x, int n, double lag);
Matrix SeriesPhi1(const Matrix& x, int n, double lag);

// X of a generator, all drives alike: its planes, chains and small blocks added
// up, in its basis.
Matrix GeneratorMatrix(const Generator& generator);

Matrix RandomMatrix(int n, Random& random);
// Orthogonal, from reflections.
Matrix RandomTurn(int n, Random& random);

}  // namespace attnd::testing

#endif  // ATTND_TESTS_KERNELS_MATRIX_ORACLE_H_
