// Over which lags an encoding is worth looking at.
#ifndef ATTND_CLIENT_SHOW_LAG_SCALES_H_
#define ATTND_CLIENT_SHOW_LAG_SCALES_H_

#include "attnd/v1/encoding.pb.h"
#include "client/plot/plot_frame.h"

namespace attnd::client {

// Rad that a plane turns when everything that drives it advances by a unit.
double TurnPerUnit(const v1::ResolvedBlock& block);

// From a fraction of the shortest to several times the longest of what the
// encoding knows: periods, 1/rates, couplings, horizons, the extent of its
// tables. Linear from 0 where these are within two decades of each other.
// `span` > 0 gives the end, in units.
PlotAxis LagAxis(const v1::ResolvedEncoding& encoding, double span);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_SHOW_LAG_SCALES_H_
