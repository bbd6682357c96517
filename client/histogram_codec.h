// Histograms in HdrHistogram's own formats, which its tools read and merge: the
// compressed encoding (V2) and the lines of its log (version 1.3).
//
// Sources: G. Tene, HdrHistogram (public domain): AbstractHistogram's
// encodeIntoCompressedByteBuffer, ZigZagEncoding, HistogramLogWriter.
#ifndef ATTND_CLIENT_HISTOGRAM_CODEC_H_
#define ATTND_CLIENT_HISTOGRAM_CODEC_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/histogram.h"

namespace attnd::client {

// Base64 of the compressed V2 encoding: what follows the last comma of a log
// line, "HISTFAAA...".
std::string EncodeHistogram(const Histogram& histogram);

// The histogram of such a text. InvalidArgument for anything else: another
// version, damage, sizes beyond what the header allows.
absl::StatusOr<Histogram> DecodeHistogram(absl::string_view text);

// One line of a log.
struct HistogramLogLine {
  // Without commas, spaces and line ends.
  std::string tag;
  // Since the log's start time.
  double begin_seconds = 0;
  double length_seconds = 0;
  const Histogram* histogram = nullptr;
};

// A whole log. Interval maxima are divided by `max_unit` as the format asks:
// 1e6 for nanoseconds.
std::string HistogramLog(double start_epoch_seconds,
                         const std::vector<HistogramLogLine>& lines,
                         double max_unit = 1e6);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_HISTOGRAM_CODEC_H_
