// Options of the linear kind by the names that people type.
#ifndef ATTND_CLIENT_LINEAR_NAMES_H_
#define ATTND_CLIENT_LINEAR_NAMES_H_

#include <string>

#include "attnd/v1/attention.pb.h"

namespace attnd::client {

// The values of the enums of v1::LinearOptions in lower case: "none",
// "elu_plus_one", "zero_order_hold". Unknown ones stay UNSPECIFIED.
v1::LinearOptions LinearOptionsOf(const std::string& normaliser,
                                  const std::string& feature_map,
                                  const std::string& input_rule);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LINEAR_NAMES_H_
