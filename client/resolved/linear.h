// The linear kind pair by pair: sums over the past of each query.
#ifndef ATTND_CLIENT_RESOLVED_LINEAR_H_
#define ATTND_CLIENT_RESOLVED_LINEAR_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "attnd/v1/attention.pb.h"
#include "client/resolved/arrays.h"
#include "client/resolved/generator.h"
#include "client/resolved/pair.h"
#include "client/resolved/pair_product.h"
#include "client/resolved/scorer.h"
#include "client/resolved/times.h"
#include "client/resolved/visibility.h"

namespace attnd::client::resolved {

// Applies the request's feature map to rows of q or k. A row with an element
// that is not finite becomes NaN.
void ApplyFeatureMap(v1::LinearOptions::FeatureMap map, Array* rows);

// The mask with the causality that the linear kind implies.
v1::Mask LinearMask(const v1::AttendRequest& request);

// One sequence under one encoding. Borrows everything it is made of.
class LinearRows {
 public:
  // `causal` is the request with LinearMask; q and k of `in` went through
  // ApplyFeatureMap. UNIMPLEMENTED where an initial state is not in the
  // request's tensors.
  static absl::StatusOr<LinearRows> Make(const v1::AttendRequest& causal,
                                         const Inputs& in, const Times& times,
                                         const Sequence& sequence,
                                         const v1::ResolvedEncoding& encoding);

  // Of the sequence's i-th query, over all heads: output [Hq, Dv], and for each
  // element the sum of |scale| |q_i| |A_ij(D)| |k_j| |v| divided by what the
  // row is divided by, which a server's errors are measured by.
  void Row(int64_t i, absl::Span<double> output, absl::Span<double> size);

 private:
  // What a row of a head sums up.
  struct Sums {
    double ones = 0, ones_size = 0, decays = 0;
  };

  LinearRows(const v1::AttendRequest& request, const Inputs& in,
             const Times& times, const Sequence& sequence,
             const v1::ResolvedEncoding& encoding);

  bool Sees(int64_t i, int64_t key) const;
  const Generator& GeneratorOf(int64_t kv_head) const {
    return generators_[generators_.size() == 1 ? 0 : kv_head];
  }
  // Brings the product up to date for the key at `rank` of the order; returns
  // what multiplies it.
  double Turn(int64_t kv_head, int64_t i, size_t rank);
  double Gap(size_t rank) const;
  double Decay(int64_t kv_head) const;
  void Finish(const Sums& sums, absl::Span<double> output,
              absl::Span<double> size) const;

  const v1::AttendRequest& request_;
  const v1::LinearOptions& options_;
  const Inputs& in_;
  const Times& times_;
  const Sequence sequence_;
  const int64_t group_;
  const Units units_;
  const Visibility visibility_;
  PairLags lags_;
  bool absolute_lag_ = false;
  bool heads_differ_ = false;  // in A for the same pair
  double scale_ = 1;
  std::vector<Generator> generators_;
  PairProduct product_;
};

}  // namespace attnd::client::resolved

#endif  // ATTND_CLIENT_RESOLVED_LINEAR_H_
