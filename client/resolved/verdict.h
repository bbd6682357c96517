// A server's answer against the computation of attention.h.
#ifndef ATTND_CLIENT_RESOLVED_VERDICT_H_
#define ATTND_CLIENT_RESOLVED_VERDICT_H_

#include "absl/status/statusor.h"
#include "attnd/v1/attention.pb.h"
#include "client/resolved/attention.h"

namespace attnd::client::resolved {

// The largest errors, as shares of the bounds of attention.h; infinite where
// one is NaN or infinite and the other is not. 0 for what the response lacks.
struct Verdict {
  double output = 0, lse = 0, scores = 0, weights = 0;

  double worst() const;
};

// `answer` must hold all rows of the request. `condition` is that of the
// encoding (ConditionOf); bounds grow with it. INVALID_ARGUMENT when sizes
// differ. For f32 outputs in BHLD.
absl::StatusOr<Verdict> Judge(const v1::AttendResponse& response,
                              const Answer& answer, double condition);

// The largest condition number of a generator's basis; 1 without one.
double ConditionOf(const v1::ResolvedEncoding& encoding);

}  // namespace attnd::client::resolved

#endif  // ATTND_CLIENT_RESOLVED_VERDICT_H_
