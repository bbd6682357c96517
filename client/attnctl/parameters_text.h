// The numbers of one part of an encoding, for people.
#ifndef ATTND_CLIENT_ATTNCTL_PARAMETERS_TEXT_H_
#define ATTND_CLIENT_ATTNCTL_PARAMETERS_TEXT_H_

#include <string>
#include <vector>

#include "google/protobuf/message.h"

namespace attnd::client {

// "form log, r1 1, r2 0.1": every field that says something, by its name in the
// schema; of messages within, theirs in brackets.
std::string ParametersText(const google::protobuf::Message& message);

// "0 1 24 168", or of many "129 numbers, -2 to 0.5".
std::string NumbersText(const std::vector<double>& numbers);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_ATTNCTL_PARAMETERS_TEXT_H_
