#include "kernels/free_places.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/absolute_rows.h"

namespace attnd {

std::vector<double> PlacesAlong(const AttentionProblem& problem,
                                const Encoder& encoder, int source,
                                int64_t number, int64_t kv_head,
                                const ItemGeometry& item, bool query) {
  const Drive& drive = encoder.sources()[source];
  const TensorRef& clock = query ? problem.query_clock : problem.key_clock;
  const int64_t batch = problem.mask.ragged() ? 0 : number;
  std::vector<float> channels(clock.shape().cols);
  std::vector<double> places;
  const int64_t rows = query ? item.query_rows : item.key_rows;
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t row = query ? item.QueryRow(i) : item.KeyRow(i);
    if (drive.clock) {
      clock.LoadRow(batch, kv_head, row, channels.data());
      places.push_back(channels[drive.clock_channel]);
      continue;
    }
    const AbsoluteTime time =
        query ? QueryPlace(problem, number, row, drive.coordinate)
              : KeyPlace(problem, number, row, drive.coordinate);
    places.push_back(
        (time.exact ? static_cast<double>(time.ticks) : time.real) *
        encoder.units_per_tick(source));
  }
  return places;
}

namespace {

// How many of the rows turn too far; names the first.
int64_t CountTooFar(const FreeTurn& turn,
                    const std::vector<std::vector<double>>& along,
                    const ItemGeometry& item, bool query, std::string* first) {
  int64_t count = 0;
  const int64_t rows = query ? item.query_rows : item.key_rows;
  std::vector<double> places(along.size());
  for (int64_t i = 0; i < rows; ++i) {
    for (size_t a = 0; a < along.size(); ++a) places[a] = along[a][i];
    const double angle = LargestAngle(turn, places);
    if (angle <= kMaxFreeAngle || count++ > 0) continue;
    *first = absl::StrCat(query ? "query_time: row " : "key_time: row ",
                          query ? item.QueryRow(i) : item.KeyRow(i),
                          " turns by up to ", angle, " rad");
  }
  return count;
}

}  // namespace

absl::Status CheckFreePlaces(const AttentionProblem& problem,
                             const Encoder& encoder, const ItemGeometry& item,
                             int64_t number) {
  for (int64_t h = 0; h < problem.key.shape().heads; ++h) {
    for (const FreeTurn& turn : encoder.head(h).free_turns()) {
      for (const bool query : {true, false}) {
        std::vector<std::vector<double>> along;
        for (const int source : turn.sources) {
          along.push_back(
              PlacesAlong(problem, encoder, source, number, h, item, query));
        }
        std::string first;
        const int64_t count = CountTooFar(turn, along, item, query, &first);
        if (count == 0) continue;
        return absl::InvalidArgumentError(absl::StrCat(
            first, ", expected at most ", kMaxFreeAngle, " (", count, " such ",
            count == 1 ? "row" : "rows",
            "): LieRE turns by places, not by lags, and a place so far from 0 "
            "has lost its angle; count from nearer, or in longer units"));
      }
    }
    if (encoder.one_generator() && !encoder.uses_clock()) break;
  }
  return absl::OkStatus();
}

}  // namespace attnd
