// q^T A k for one pair of rows after the other.
#ifndef ATTND_CLIENT_RESOLVED_PAIR_PRODUCT_H_
#define ATTND_CLIENT_RESOLVED_PAIR_PRODUCT_H_

#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "client/resolved/generator.h"
#include "client/resolved/pair.h"

namespace attnd::client::resolved {

// A sum and the sum of the sizes of its terms.
struct Product {
  double value = 0, size = 0;
  void Add(double q, double a, double k);
};

class PairProduct {
 public:
  // A = A(D) over what the lags have selected.
  void Turn(const Generator& generator, const PairLags& lags,
            bool absolute_lag);
  // A = the integral of A(u) over u from 0 to there, `span` units apart: d
  // phi1(dX).
  void TurnHeld(const Generator& generator, const PairLags& lags, double span);
  // A = A(what the lags have selected) A: a hold that ended there.
  void TurnFurther(const Generator& generator, const PairLags& lags);

  Product Multiply(absl::Span<const double> q,
                   absl::Span<const double> k) const;

 private:
  void FindFreeChannels(const Generator& generator);

  // Blocks and the channels of none, which `free_` multiplies, or all of A.
  std::vector<Generator::BlockValue> blocks_;
  std::vector<int> free_channels_;
  double free_ = 1;
  std::optional<Matrix> matrix_;
};

}  // namespace attnd::client::resolved

#endif  // ATTND_CLIENT_RESOLVED_PAIR_PRODUCT_H_
