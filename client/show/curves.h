// What an encoding does to logits as functions of the lag, computed from its
// resolved definition alone.
#ifndef ATTND_CLIENT_SHOW_CURVES_H_
#define ATTND_CLIENT_SHOW_CURVES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "attnd/v1/encoding.pb.h"
#include "client/plot/plot_frame.h"

namespace attnd::client {

struct Curve {
  std::string label;
  std::vector<ChartPoint> points;
};

// tr A(D) / head_dim of a kv head first: what q A(D) k is on average where q
// and k point the same way; then the leading entry of some of its blocks, those
// of the same figures as one with their channels, and
// of Jordan blocks the coupling of first and last jet. Each point is the mean
// over its share of the axis; a block's curve ends where it turns within that.
absl::StatusOr<std::vector<Curve>> KernelCurves(
    const v1::ResolvedEncoding& encoding, int kv_head, const PlotAxis& lags);

// The sum of the biases that lags determine, for each head, heads that are
// alike as one; empty where there are none. Buckets change at one lag, not
// between two. FIRE is taken for a query whose
// first key is the one in question. `side` -1: of lags -D, for keys after the
// query.
std::vector<Curve> BiasCurves(const v1::ResolvedEncoding& encoding,
                              const std::vector<int>& heads,
                              const PlotAxis& lags, int side = 1);

// The path of the first unit vector of a plane under A(D), and where it stands
// after each of the first units.
struct Orbit {
  std::string label;
  std::vector<ChartPoint> path, steps;
};
// Of some planes of a kv head, alike ones as one; empty without rotations.
absl::StatusOr<std::vector<Orbit>> Orbits(const v1::ResolvedEncoding& encoding,
                                          int kv_head, int most);

// Query heads of the encoding.
int HeadsOf(const v1::ResolvedEncoding& encoding);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_SHOW_CURVES_H_
