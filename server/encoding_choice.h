// The encoding that a request chooses, compiled for its sizes and units of
// time.
#ifndef ATTND_SERVER_ENCODING_CHOICE_H_
#define ATTND_SERVER_ENCODING_CHOICE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "attnd/v1/attention.pb.h"
#include "kernels/clock.h"
#include "server/decode.h"
#include "server/violations.h"

namespace attnd::server {

// Sets the name and the encoders of `out`, whose sizes, times and mask are
// known, and the hash of the encoding (empty without one); what does not fit
// goes to `violations`. An unknown name, inline encodings where they are not
// allowed, and a status of IsWorkerNeeded or CANCELLED are returned. Where
// the request has no times' data (`complete_visibility`) no encoder is set: a
// plan could not use it.
absl::Status ChooseEncoding(const v1::AttendRequest& request,
                            const DecodeContext& context,
                            bool complete_visibility, Violations& violations,
                            DecodedRequest& out, std::string& hash);

// Units of `unit_ns` in the request's ticks (units of F64 times) along the
// first coordinate; positions count as units.
TickRatio RequestRatio(const v1::AttendRequest& request, int64_t unit_ns);

}  // namespace attnd::server

#endif  // ATTND_SERVER_ENCODING_CHOICE_H_
