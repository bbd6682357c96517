// Slow motion: a server that takes F times as long for its work, and idles
// meanwhile, so that tests can scale many of them on few processors.
#ifndef ATTND_SERVER_PACE_H_
#define ATTND_SERVER_PACE_H_

#include "server/cost_model.h"
#include "server/service_context.h"

namespace attnd::server {

// `run`, followed by idling for (pace - 1) times the processor time it took.
// `pace` >= 1. Idling ends within 2 ms of `stop`. Busy workers, queues,
// deadlines and measured costs then behave as on a processor that is `pace`
// times slower; decoding and gRPC keep their speed.
RunUnitFunction Paced(RunUnitFunction run, double pace);

// What such a server predicts.
CostModel Paced(const CostModel& costs, double pace);

}  // namespace attnd::server

#endif  // ATTND_SERVER_PACE_H_
