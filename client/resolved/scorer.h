// Scores of one sequence under one encoding, pair by pair.
#ifndef ATTND_CLIENT_RESOLVED_SCORER_H_
#define ATTND_CLIENT_RESOLVED_SCORER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "attnd/v1/attention.pb.h"
#include "client/resolved/arrays.h"
#include "client/resolved/bias.h"
#include "client/resolved/gates.h"
#include "client/resolved/generator.h"
#include "client/resolved/pair.h"
#include "client/resolved/pair_product.h"
#include "client/resolved/times.h"
#include "client/resolved/visibility.h"

namespace attnd::client::resolved {

// The arrays of a request.
struct Inputs {
  Array query, key, value, query_clock, key_clock, bias, gates;

  static absl::StatusOr<Inputs> Make(const v1::AttendRequest& request);
};

// One of all kv heads, or one each. INVALID_ARGUMENT when the encoding was
// resolved for other sizes.
absl::StatusOr<std::vector<Generator>> GeneratorsOf(
    const v1::ResolvedEncoding& encoding, int64_t kv_heads, int64_t head_dim);

// Whether some block advances along a clock of the request.
bool ReadsClock(const v1::ResolvedEncoding& encoding);

// Whether decays take the size of a lag: the request's rule, else the
// encoding's.
bool TakesAbsoluteLags(const v1::AttendRequest& request,
                       const v1::ResolvedEncoding& encoding);

// Borrows everything it is made of.
class Scorer {
 public:
  // INVALID_ARGUMENT when the encoding was resolved for other sizes.
  static absl::StatusOr<std::unique_ptr<Scorer>> Make(
      const v1::AttendRequest& request, const Inputs& in, const Times& times,
      const Sequence& sequence, const v1::ResolvedEncoding& encoding);

  // Of the sequence's i-th query: scores [Hq, keys of the tensor], -inf where
  // hidden, and the logit sizes [Hq] of attention.h.
  absl::Status Row(int64_t i, absl::Span<double> scores,
                   absl::Span<double> logit_sizes);

 private:
  Scorer(const v1::AttendRequest& request, const Inputs& in, const Times& times,
         const Sequence& sequence, const v1::ResolvedEncoding& encoding);

  absl::Status Prepare();
  // A row of q or k with the absolute parts.
  absl::StatusOr<SizedRow> WithAbsolute(bool query, int64_t kv_head,
                                        int64_t row,
                                        absl::Span<const double> vector) const;
  double Elapsed(int64_t i) const;
  double Temperature(int64_t i) const;
  // Brings A(D) up to date for a pair of a kv head.
  void Turn(int64_t kv_head, int64_t i, int64_t j);
  Bias BiasOf(int64_t head, int64_t i, int64_t j) const;
  void ScorePair(int64_t head, int64_t i, int64_t j, const SizedRow& query,
                 double temperature, double* score, double* logit_size) const;

  const v1::AttendRequest& request_;
  const Inputs& in_;
  const Times& times_;
  const Sequence sequence_;
  const v1::ResolvedEncoding& encoding_;
  const int64_t group_;
  const Units units_;
  const Visibility visibility_;
  const Gates gates_;
  PairLags lags_;
  bool absolute_lag_ = false, clocked_ = false;
  double scale_ = 1;
  std::vector<Generator> generators_;
  std::vector<SizedRow> keys_;  // with absolute parts, [Hkv, keys]
  PairProduct product_;         // of the pair turned to last
};

}  // namespace attnd::client::resolved

#endif  // ATTND_CLIENT_RESOLVED_SCORER_H_
