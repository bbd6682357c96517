// Attention of a request in double precision, pair by pair, from the request
// and the resolved definition of its encoding that ListEncodings returns: the
// judge of a server's answers that shares no code with it.
#ifndef ATTND_CLIENT_RESOLVED_ATTENTION_H_
#define ATTND_CLIENT_RESOLVED_ATTENTION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "attnd/v1/attention.pb.h"

namespace attnd::client::resolved {

// Always in BHLD order; R rows of queries.
struct Answer {
  int64_t batch = 0, heads = 0, keys = 0, head_dim = 0, channels = 0;
  std::vector<int64_t> rows;    // of the query tensor, [R]
  std::vector<double> output;   // [B,Hq,R,Dv]
  std::vector<double> lse;      // [B,Hq,R]
  std::vector<double> scores;   // [B,Hq,R,Lk], -inf where hidden
  std::vector<double> weights;  // [B,Hq,R,Lk]
  // What a server's errors are measured by, [B,Hq,R]: S, the largest over
  // visible keys of scale * sum_ij |q_i||A_ij(D)||k_j| + |bias|, and M, the
  // largest |value| over them.
  std::vector<double> logit_size, value_size;
  // Of the linear kind, which has nothing but the output: the sum of |scale|
  // |q_i| |A_ij(D)| |k_j| |v| over what the row sees, divided as the output is,
  // [B,Hq,R,Dv]. Empty for the softmax kind.
  std::vector<double> output_size;
  // Of the bounds below: kJordanSlack where an encoding has powers of a lag.
  double slack = 1;
};

// `encodings`: resolved for the request's head dimension and head counts; none
// for NoPE, one, or one per batch item (packed sequence) where they depend on
// the item's length. `rows`: query rows of every item to compute; empty = all.
//
// Costs about 1 microsecond per visible pair and plane. INVALID_ARGUMENT when
// request and encodings do not fit each other, UNIMPLEMENTED for carried
// states. What a server would refuse gives an unspecified answer.
absl::StatusOr<Answer> Attention(
    const v1::AttendRequest& request,
    absl::Span<const v1::ResolvedEncoding* const> encodings,
    absl::Span<const int64_t> rows = {});

// The accuracy that servers promise for f32 products (kernels/README.md):
// output within OutputBound, weights, scores and lse within LogitBound, entropy
// within kEntropyAccuracy / kAccuracy times that, of this answer's row `r`
// (index into lse); 16-bit outputs add half an ulp of their format. Where the
// products were of bf16 operands, kBf16OutputAccuracy and kBf16Accuracy stand
// in kAccuracy's place.
double LogitBound(const Answer& answer, int64_t r);
double OutputBound(const Answer& answer, int64_t r, int64_t channel);

// Of the bounds: per unit of the logit size over 8, at least one of those.
inline constexpr double kAccuracy = 2e-6;
inline constexpr double kEntropyAccuracy = 1e-5;
inline constexpr double kJordanSlack = 2;
inline constexpr double kBf16OutputAccuracy = 5e-3;
inline constexpr double kBf16Accuracy = 1e-2;
// Of outputs of the linear kind, per unit of output_size.
inline constexpr double kLinearAccuracy = 1e-5;

}  // namespace attnd::client::resolved

#endif  // ATTND_CLIENT_RESOLVED_ATTENTION_H_
