// Absolute parts of an encoding as a map of position and dimension.
#ifndef ATTND_CLIENT_SHOW_HEAT_MAP_H_
#define ATTND_CLIENT_SHOW_HEAT_MAP_H_

#include <vector>

#include "absl/status/statusor.h"
#include "attnd/v1/encoding.pb.h"
#include "client/plot/svg.h"

namespace attnd::client {

// What is added to keys: columns[p][c] at positions[p] (units since the origin
// of the parts) and channel c.
struct HeatMap {
  std::vector<double> positions;
  std::vector<std::vector<double>> columns;

  bool empty() const { return positions.empty(); }
};

// Empty without absolute parts. `span` in units; 0 = 128, or the learned table.
absl::StatusOr<HeatMap> AbsoluteMap(const v1::ResolvedEncoding& encoding,
                                    int kv_head, double span);

// Channels from the top down, with a scale of colours on the right.
void DrawHeatMap(Svg* svg, const SvgRect& frame, const HeatMap& map);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_SHOW_HEAT_MAP_H_
