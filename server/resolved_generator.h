// The numbers of one head's generator, as ListEncodings shows them.
#ifndef ATTND_SERVER_RESOLVED_GENERATOR_H_
#define ATTND_SERVER_RESOLVED_GENERATOR_H_

#include "attnd/v1/encoding.pb.h"
#include "kernels/generator.h"

namespace attnd::server {

// Planes with the chains that share their channels, then the other chains,
// small blocks, parts outside the class, and what sees no time.
v1::ResolvedGenerator ResolveGenerator(const Generator& generator);

}  // namespace attnd::server

#endif  // ATTND_SERVER_RESOLVED_GENERATOR_H_
