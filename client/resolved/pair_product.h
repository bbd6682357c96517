// q^T A k for one pair of rows after the other.
#ifndef ATTND_CLIENT_RESOLVED_PAIR_PRODUCT_H_
#define ATTND_CLIENT_RESOLVED_PAIR_PRODUCT_H_

#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "client/resolved/generator.h"
#include "client/resolved/pair.h"

namespace attnd::client::resolved {

// A row of q or k, and per channel the size of what it is the sum of: of a row
// as sent, its own.
struct SizedRow {
  std::vector<double> value, size;
  SizedRow() = default;
  explicit SizedRow(absl::Span<const double> row);
  // Adds another part, which may cancel.
  void Add(absl::Span<const double> part);
};

// A sum and the sum of the sizes of its terms.
struct Product {
  double value = 0, size = 0;
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

  Product Multiply(const SizedRow& q, const SizedRow& k) const;

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
