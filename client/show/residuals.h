// How far a listed encoding is from what its class promises.
#ifndef ATTND_CLIENT_SHOW_RESIDUALS_H_
#define ATTND_CLIENT_SHOW_RESIDUALS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "attnd/v1/encoding.pb.h"
#include "client/client.h"

namespace attnd::client {

// One property, as a residual against its bound.
struct Residual {
  std::string property;
  // The largest over lags and heads; relative to |A| where A grows.
  double value = 0;
  double bound = 0;
  // False: the encoding does not claim the property, and why.
  bool claimed = true;
  std::string note;

  bool ok() const { return !claimed || value <= bound; }
};

// A(0) = I, the group law A(a)A(b) = A(a+b), and |A(D)x| against |x|, over lags
// from a thousandth to a million units (less where figures are so large that
// products would leave the doubles), in double, from the resolved definition
// alone. A common amplitude of a block is set aside.
absl::StatusOr<std::vector<Residual>> KernelResiduals(
    const v1::ResolvedEncoding& encoding);

// What the server makes of it: bits of an answer that a shift of all times by a
// year (positions: 2^20) changes, and the largest error of an answer as a share
// of the accuracy that servers promise (resolved/attention.h).
absl::StatusOr<std::vector<Residual>> ServerResiduals(
    const v1::ResolvedEncoding& encoding, const Client& client,
    const CallOptions& call);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_SHOW_RESIDUALS_H_
