// How far back a head looks, from its rates and biases.
#ifndef ATTND_SERVER_EFFECTIVE_HORIZON_H_
#define ATTND_SERVER_EFFECTIVE_HORIZON_H_

#include "kernels/encoder.h"

namespace attnd::server {

// Lag in units at which a query head's largest kernel factor has fallen to 1/e:
// the smaller of that of its slowest channel, e^{-rate D}, and of the biases
// that times determine, e^{bias(D) - bias(0)}; -1 if neither ever does. FIRE is
// taken for a query whose first key is the one in question. Gates, and biases
// that read q and k, are the request's and do not count.
//
// Expects an encoder compiled with one tick per unit.
double EffectiveHorizon(const Encoder& encoder, int query_head);

}  // namespace attnd::server

#endif  // ATTND_SERVER_EFFECTIVE_HORIZON_H_
