// What service_config.json, which is shipped for other gRPC clients, means
// here.
#ifndef ATTND_CLIENT_SERVICE_CONFIG_H_
#define ATTND_CLIENT_SERVICE_CONFIG_H_

#include <string>

namespace attnd::client {

// The shipped file, word for word.
std::string ShippedServiceConfig();

// The same for channels of this library: balancing, health checks unless
// `health_checked` is false, and no retry policy. The library retries by
// itself, by the rule of retry.h: gRPC would also repeat refusals that name no
// delay, and CallReport could not tell.
std::string ChannelServiceConfig(bool health_checked);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_SERVICE_CONFIG_H_
