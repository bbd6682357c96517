// Endpoints of a list that took no call.
#ifndef ATTND_CLIENT_LOAD_SILENT_ENDPOINTS_H_
#define ATTND_CLIENT_LOAD_SILENT_ENDPOINTS_H_

#include "client/client.h"
#include "client/load/load_result.h"

namespace attnd::client {

// Gives each endpoint of a list of several a row in the result, and those
// without a measured call a note that says why, as one health check of at most
// a second each finds out: never connected, not serving, or serving but left
// without a call.
void NoteSilentEndpoints(const ClientOptions& options, LoadResult* result);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_SILENT_ENDPOINTS_H_
