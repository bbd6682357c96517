#include "kernels/absolute_rows.h"

#include <vector>

namespace attnd {
namespace {

ItemRows RowsOf(const AttentionProblem& problem, int64_t item) {
  return attnd::RowsOf(problem.mask, item, problem.query.shape().rows,
                       problem.key.shape().rows);
}

// `index` counts in the item.
AbsoluteTime Place(const TimeAxis& axis, int64_t batch, int64_t row,
                   int64_t index, int64_t position, int coordinate) {
  AbsoluteTime time;
  time.index = index;
  switch (axis.kind()) {
    case TimeAxis::Kind::kPositions:
      time.ticks = position;
      time.position = true;
      break;
    case TimeAxis::Kind::kTicks:
      time.ticks = axis.Ticks(batch, row, coordinate);
      break;
    case TimeAxis::Kind::kReal:
      time.exact = false;
      time.real = axis.Real(batch, row, coordinate);
      break;
  }
  return time;
}

}  // namespace

AbsoluteTime QueryPlace(const AttentionProblem& problem, int64_t item,
                        int64_t row, int coordinate) {
  const ItemRows rows = RowsOf(problem, item);
  const int64_t index = row - rows.first_query;
  return Place(problem.query_time, rows.batch, row, index,
               rows.first_position() + index, coordinate);
}

AbsoluteTime KeyPlace(const AttentionProblem& problem, int64_t item,
                      int64_t row, int coordinate) {
  const ItemRows rows = RowsOf(problem, item);
  const int64_t index = row - rows.first_key;
  return Place(problem.key_time, rows.batch, row, index, index, coordinate);
}

AbsoluteTime QueryEvent(const AttentionProblem& problem, int64_t number,
                        const ItemGeometry& item, int64_t i) {
  AbsoluteTime time = QueryPlace(problem, number, item.QueryRow(i));
  time.index = i;
  return time;
}

AbsoluteTime KeyEvent(const AttentionProblem& problem, int64_t number,
                      const ItemGeometry& item, int64_t j) {
  AbsoluteTime time = KeyPlace(problem, number, item.KeyRow(j));
  time.index = j;
  return time;
}

absl::Status CheckAbsoluteRows(const AttentionProblem& problem,
                               const Encoder& encoder, const ItemGeometry& item,
                               int64_t number) {
  if (!encoder.absolute().bounded()) return absl::OkStatus();
  std::vector<AbsoluteTime> times;
  for (int64_t i = 0; i < item.query_rows; ++i) {
    times.push_back(QueryPlace(problem, number, item.QueryRow(i)));
  }
  absl::Status status = encoder.absolute().Check(true, times, "query_time");
  if (!status.ok()) return status;
  times.clear();
  for (int64_t j = 0; j < item.key_rows; ++j) {
    times.push_back(KeyPlace(problem, number, item.KeyRow(j)));
  }
  return encoder.absolute().Check(false, times, "key_time");
}

}  // namespace attnd
