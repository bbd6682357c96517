#include "client/service_config.h"

#include <cassert>

#include "attnd_service_config.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"

namespace attnd::client {

std::string ShippedServiceConfig() { return kServiceConfigJson; }

std::string ChannelServiceConfig(bool health_checked) {
  namespace json = google::protobuf::util;
  google::protobuf::Struct config;
  [[maybe_unused]] const auto read =
      json::JsonStringToMessage(kServiceConfigJson, &config);
  assert(read.ok());
  config.mutable_fields()->erase("methodConfig");
  if (!health_checked) config.mutable_fields()->erase("healthCheckConfig");
  std::string text;
  [[maybe_unused]] const auto written =
      json::MessageToJsonString(config, &text);
  assert(written.ok());
  return text;
}

}  // namespace attnd::client
