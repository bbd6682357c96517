// Where a configuration listens.
#ifndef ATTND_SERVER_LISTENER_CONFIG_H_
#define ATTND_SERVER_LISTENER_CONFIG_H_

#include "attnd/v1/config.pb.h"
#include "server/violations.h"

namespace attnd::server {

// Fills in the defaults of `listeners` and `admin`, and adds addresses that
// nobody could listen on, TLS without its files and modes that are none.
void CompleteListeners(v1::ServerConfig& config, Violations& violations);

}  // namespace attnd::server

#endif  // ATTND_SERVER_LISTENER_CONFIG_H_
