// A picture of an encoding.
#ifndef ATTND_CLIENT_SHOW_ENCODING_PLOT_H_
#define ATTND_CLIENT_SHOW_ENCODING_PLOT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "attnd/v1/encoding.pb.h"

namespace attnd::client {

struct EncodingPlotOptions {
  // Query heads to show; empty = up to four of them.
  std::vector<int> heads = {};
  // Units of lag (of time, for absolute parts); 0 = what the encoding suggests.
  double span = 0;
};

// As SVG, over the lag: the kernels A(D) of the heads, one picture for those
// that are alike, and their biases, those of the future in a picture of their
// own where they differ; the orbits of their
// rotation planes; absolute parts of the first head as a map of position and
// dimension; and a sentence for each part that none of these can show.
// INVALID_ARGUMENT for heads that the encoding has not.
absl::StatusOr<std::string> PlotEncoding(const v1::ResolvedEncoding& encoding,
                                         const EncodingPlotOptions& options);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_SHOW_ENCODING_PLOT_H_
