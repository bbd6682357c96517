// What compiling the encoding of a request will cost, before it is tried.
#ifndef ATTND_SERVER_COMPILE_COST_H_
#define ATTND_SERVER_COMPILE_COST_H_

#include "attnd/v1/attention.pb.h"
#include "server/encodings.h"

namespace attnd::server {

// Worker seconds, rather too many than too few: dense blocks grow with the cube
// of their size, everything else takes a fraction of a millisecond per item.
double PredictCompiling(const v1::AttendRequest& request,
                        const EncodingCatalog& encodings);

// The same of all encodings that a list asks for.
double PredictListing(const v1::ListEncodingsRequest& request,
                      const EncodingCatalog& encodings);

}  // namespace attnd::server

#endif  // ATTND_SERVER_COMPILE_COST_H_
