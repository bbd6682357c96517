// What a picture of an encoding says in words.
#ifndef ATTND_CLIENT_SHOW_PLOT_WORDS_H_
#define ATTND_CLIENT_SHOW_PLOT_WORDS_H_

#include <string>
#include <vector>

#include "attnd/v1/encoding.pb.h"

namespace attnd::client {

// Of the axis of kernels: what advances from a key to a query, time, a clock of
// the request, or several axes at once.
std::string KernelLagLabel(const v1::ResolvedEncoding& encoding);

// A sentence for each part that no picture over the lag can show, and why.
std::vector<std::string> NotDrawn(const v1::ResolvedEncoding& encoding);

// "channels 0-31", "channels 0-3,8" of any channels; of many ranges the first.
std::string ChannelRanges(std::vector<int> channels);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_SHOW_PLOT_WORDS_H_
