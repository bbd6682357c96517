// What `attnctl encodings` prints about an encoding.
#ifndef ATTND_CLIENT_ATTNCTL_ENCODINGS_TEXT_H_
#define ATTND_CLIENT_ATTNCTL_ENCODINGS_TEXT_H_

#include <string>
#include <vector>

#include "attnd/v1/attention.pb.h"
#include "client/show/residuals.h"

namespace attnd::client {

// A table of all, one line each.
std::string ListText(const v1::ListEncodingsResponse& list);

// Everything about one.
std::string ShowText(const v1::ResolvedEncoding& encoding);

// One line per property.
std::string ResidualsText(const std::vector<Residual>& residuals);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_ATTNCTL_ENCODINGS_TEXT_H_
